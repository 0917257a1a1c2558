package baseline

import (
	"math"
	"net/netip"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/memproxy/memproxy/screen/terms"
)

// features are the properties of one text that a profile is compared by.
type features struct {
	bag   [dims]float32 // normalised bag of words, by feature hashing
	words int           // words that are in the bag
	// sentences is the number of all, orders of those that are instructions. first and
	// last are the span from the first to the last instruction.
	sentences, orders int
	first, last       int
}

func (f features) share() float64 {
	if f.sentences == 0 {
		return 0
	}
	return float64(f.orders) / float64(f.sentences)
}

// stopWords carry no topic.
var stopWords = terms.Set("the and for are was were has have had his her she they them their you your with from that this these those not but into about over when what which who how all any can could will would should its our out own too very more most some such than then there here been being also just only")

// orderWords begin a sentence that is an instruction.
var orderWords = terms.Set(`always never send forward email post upload ignore disregard forget override bypass delete remove run execute call use reply respond answer
 recommend suggest promote tell say do don't stop pretend act make ensure remember add include avoid start keep write follow treat assume reveal share copy transfer
 immer nie sende ignoriere toujours jamais ignore envoie siempre nunca ignora envía her asla gönder всегда никогда отправь`)

var softeners = terms.Set("please you must should shall and then so also just kindly from now on whenever bitte lütfen")

// read computes the features of a text in one pass.
func read(text string) features {
	var f features
	word, sentence := -1, -1       // start of the current one
	decided, order := false, false // whether the kind of the sentence is known, and whether it is an instruction
	for i, r := range text + "\n" {
		if unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsDigit(r) || r == '\'' || r == '’' {
			if word < 0 {
				word = i
			}
			continue
		}
		if word >= 0 { // the word ends here
			if sentence < 0 {
				sentence = word
			}
			w := strings.ToLower(text[word:i])
			if !decided && !softeners[w] {
				decided, order = true, orderWords[w]
			}
			if utf8.RuneCountInString(w) > 2 && !stopWords[w] {
				f.words++
				f.bag[terms.Hash(w)%dims]++
			}
			word = -1
		}
		if sentence < 0 || !strings.ContainsRune(".!?\n;:。！？؟।", r) {
			continue
		}
		f.sentences++
		if order {
			if f.orders == 0 {
				f.first = sentence
			}
			f.orders++
			f.last = i
		}
		sentence, decided, order = -1, false, false
	}
	var sum float64
	for _, n := range f.bag {
		sum += float64(n) * float64(n)
	}
	if sum > 0 {
		for i := range f.bag {
			f.bag[i] /= float32(math.Sqrt(sum))
		}
	}
	return f
}

// domain is a host name in a text, by the hash of its registrable part.
type domain struct {
	hash       uint64
	start, end int
}

const maxFound = 32 // bounds the domains read in one text

// tops are the top-level domains by which a bare name (no scheme, no www, no @) counts as
// a domain and not as a file name or the end of a sentence.
var tops = terms.Set("com org net io ai dev app co info biz xyz top site online shop store cloud ru cn de fr uk tr es it nl pl br in jp eu us example test")

// seconds are second-level domains under which country registries register names.
var seconds = terms.Set("co com org net gov edu ac gen or ne")

// domains returns the host names in text: of URLs, of mail addresses, and bare.
func domains(text string) []domain {
	var out []domain
	for i := 0; i < len(text) && len(out) < maxFound; {
		start := inHost.Find(text, i)
		i = inHost.End(text, start)
		host := strings.ToLower(strings.Trim(text[start:i], ".-"))
		if len(host) > 253 || !strings.Contains(host, ".") {
			continue
		}
		plain := strings.HasSuffix(text[:start], "://") || strings.HasSuffix(text[:start], "@") || strings.HasPrefix(host, "www.")
		if name := registrable(host, plain); name != "" {
			out = append(out, domain{terms.Hash(name), start, i})
		}
	}
	return out
}

var inHost = terms.BytesOf(terms.Alnum + ".-")

// registrable returns the registrable domain of a host name, an IP address as it is if
// plain (taken from a URL or a mail address), or "".
func registrable(host string, plain bool) string {
	if _, err := netip.ParseAddr(host); err == nil {
		if plain {
			return host
		}
		return ""
	}
	labels := strings.Split(host, ".")
	n := len(labels)
	top := labels[n-1]
	if n < 2 || strings.Contains(host, "..") || len(top) < 2 || strings.ContainsAny(top, "0123456789") && !strings.HasPrefix(top, "xn--") || !plain && !tops[top] {
		return ""
	}
	if n > 2 && len(top) == 2 && seconds[labels[n-2]] {
		return strings.Join(labels[n-3:], ".")
	}
	return strings.Join(labels[n-2:], ".")
}
