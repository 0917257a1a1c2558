package baseline

import (
	"math"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/memproxy/memproxy/screen/terms"
)

// features are what one text says of its author's habits.
type features struct {
	bag   [dims]float32 // of length one
	words int           // that count for the topic
	// sentences and those that tell somebody to do something; first and last
	// span the latter.
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

// read works the features out, in one pass over the words.
func read(text string) features {
	var f features
	sentence := -1   // where it began
	decided := false // whether its kind is known
	order := false   // its kind
	word, from := "", -1
	closeWord := func(at int) {
		if from < 0 {
			return
		}
		word = strings.ToLower(text[from:at])
		if sentence < 0 {
			sentence = from
		}
		if !decided && !softeners[word] {
			decided, order = true, orderWords[word]
		}
		if utf8.RuneCountInString(word) > 2 && !stopWords[word] {
			f.words++
			f.bag[terms.Hash(word)%dims]++
		}
		from = -1
	}
	closeSentence := func(at int) {
		if sentence >= 0 {
			f.sentences++
			if order {
				if f.orders == 0 {
					f.first = sentence
				}
				f.orders++
				f.last = at
			}
		}
		sentence, decided, order = -1, false, false
	}
	for i, r := range text {
		if unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsDigit(r) || r == '\'' || r == '’' {
			if from < 0 {
				from = i
			}
			continue
		}
		closeWord(i)
		switch r {
		case '.', '!', '?', '\n', ';', '。', '！', '？', '؟', '।', ':':
			closeSentence(i)
		}
	}
	closeWord(len(text))
	closeSentence(len(text))
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
