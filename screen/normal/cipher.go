package normal

import (
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/memproxy/memproxy/screen/terms"
)

const (
	// stretch is the number of letters and word ends that are scored together,
	// leastStretch the minimum at the end of a text.
	stretch, leastStretch = 32, 10
	// mirror is the Atbash cipher; others are shifts (Caesar).
	mirror    = 26
	minOpaque = 12 // the fewest letters of non-language that are tried as an enciphered or reversed encoding
	manySigns = 4  // language has at least this many letters per digit or punctuation mark
)

// key is a cipher, and whether the text is also reversed.
type key struct {
	by   int
	back int // 1: reversed
}

// cipher finds stretches of v with the bigram score of non-language, and appends their
// readings under the keys that turn them into language (frequency analysis). It also
// returns how much of the text is not language, and where.
func cipher(found []View, v *View) (_ []View, strange int, opaque []span) {
	s, p := v.Text, pairs()
	var under [mirror + 1][2][]span // the parts that become language under each key
	all, marked := 0, 0             // letters; punctuation and digits
	from, sum, n, near, signs, last := 0, 0, 0, 0, 0, byte(apart)
	judge := func(to int) {
		if sum < fluent*n || signs*manySigns > n {
			opaque = widen(opaque, s, from, to)
		}
		marked += signs
		if n >= leastStretch {
			all += n
			if sum < fluent*n {
				strange += near
				if near*9 >= n*5 { // words of two or three letters have no reliable score
					if k := crack(s[from:to], sum/n, n); k != (key{}) {
						u := &under[k.by][k.back]
						*u = widen(*u, s, from, to)
					}
				}
			}
		}
		from, sum, n, near, signs = to, 0, 0, 0, 0
	}
	for i := range len(s) {
		c := places[s[i]]
		if c == apart {
			if s[i] > ' ' && s[i] < 0x80 {
				signs++
			}
			if last == apart {
				continue
			}
		}
		sum += int(p[last][c])
		n++
		if c != apart && last != apart {
			near++
		}
		last = c
		if c == apart && n >= stretch || n >= 2*stretch {
			judge(i)
		}
	}
	judge(len(s))
	if marked*manySigns > all {
		strange += marked
	}
	if strange == 0 {
		return found, 0, opaque
	}
	for by := range under {
		for back := range under[by] {
			for _, in := range under[by][back] {
				p := v.part(in.start, in.end)
				found = append(found, deciphered(&p, key{by, back}))
				if by == 0 {
					found = append(found, turned(&p))
				}
			}
		}
	}
	return found, strange, opaque
}

// widen adds a span of s, with context, to spans of non-language: some words of a cipher
// text may look like language.
func widen(opaque []span, s string, from, to int) []span {
	from, to = max(0, from-2*stretch), min(len(s), to+2*stretch)
	if k := strings.LastIndexByte(s[max(0, from-longest):from], ' '); k >= 0 {
		from = max(0, from-longest) + k + 1
	}
	if k := strings.IndexByte(s[to:min(len(s), to+longest)], ' '); k >= 0 {
		to += k
	}
	from = len(terms.Truncate(s, from))
	for to < len(s) && !utf8.RuneStart(s[to]) {
		to++
	}
	if last := len(opaque) - 1; last >= 0 && from <= opaque[last].end {
		opaque[last].end = to
		return opaque
	}
	return append(opaque, span{from, to})
}

const longest = 256 // the longest word whose whole length is tried as code

// crack returns the key that gives the letters of s the best bigram score, if it is that
// of language and well above the current average score now.
func crack(s string, now, n int) key {
	least := max(fluent, now+better)
	if n < stretch {
		least += better / 2
	}
	scores := keyed()
	var sums keyScores
	last, none := byte(apart), 0
	for i := range len(s) {
		c := places[s[i]]
		if c == apart && last == apart {
			continue
		}
		for k, x := range &scores[last][c] {
			sums[k] += x
		}
		last, none = c, none+noScore
	}
	best, found := least*n-1, key{}
	for by := 0; by <= mirror; by++ {
		if ahead := sums.of(key{by, 0}) - none; ahead > best && by != 0 {
			best, found = ahead, key{by, 0}
		}
		if behind := sums.of(key{by, 1}) - none - better/2*n; behind > best {
			best, found = behind, key{by, 1}
		}
	}
	return found
}

// keyScores has a sum of bigram scores for every key, four to a word, so that one addition
// counts for four keys. Every score is increased by noScore, so that no sum is negative.
type keyScores [(2*(mirror+1) + 3) / 4]uint64

// noScore is more than any bigram score is below zero. The sum of a stretch is less than
// 1<<16.
const noScore = 400

func (k key) lane() (word, shift int) { return (2*k.by + k.back) / 4, (2*k.by + k.back) % 4 * 16 }

func (s *keyScores) of(k key) int {
	word, shift := k.lane()
	return int(s[word] >> shift & 0xffff)
}

// keyed returns the bigram scores of each pair of letters under every key.
var keyed = sync.OnceValue(func() *[27][27]keyScores {
	var all [27][27]keyScores
	p := pairs()
	for a := range all {
		for b := range all[a] {
			for by := range ciphers {
				to, a, b := &all[a][b], ciphers[by][a], ciphers[by][b]
				for back, score := range [...]int16{p[a][b], p[b][a]} {
					word, shift := key{by, back}.lane()
					to[word] |= uint64(score+noScore) << shift
				}
			}
		}
	}
	return &all
})

// ciphers maps alphabet indices under each cipher.
var ciphers = func() (all [mirror + 1][27]byte) {
	for by := range all {
		for c := range apart {
			all[by][c] = byte((c + 26 - by) % 26)
			all[mirror][c] = byte(25 - c)
		}
		all[by][apart] = apart
	}
	return all
}()

// deciphered returns the reading of v under a key, with offsets of its own. Case is kept.
func deciphered(v *View, k key) View {
	out := *v
	if k.by != 0 {
		out = shifted(v, &letters[k.by])
	}
	if k.back == 1 {
		return reversed(&out)
	}
	if out.at == nil && !out.whole {
		out.at = make([]int32, len(out.Text))
		for i := range out.at {
			out.at[i] = out.base + int32(i)
		}
	}
	return out
}

// letters maps bytes under each cipher; signs maps them under ROT47, which rotates all
// visible ASCII characters by half of their number.
var letters, signs = func() (by [mirror + 1][256]byte, signs [256]byte) {
	for c := range signs {
		signs[c] = byte(c)
		if c > ' ' && c < 0x7f {
			signs[c] = byte(33 + (c-33+47)%94)
		}
		for k := range by {
			by[k][c] = byte(c)
			if isLetter(byte(c)) {
				by[k][c] = byte(c)&^31 | ciphers[k][places[c]] + 1
			}
		}
	}
	return by, signs
}()

// shifted returns the reading of v with each byte mapped.
func shifted(v *View, to *[256]byte) View {
	b := newBuilder(len(v.Text))
	defer b.free()
	text := b.text[:len(v.Text)]
	for i := range text {
		text[i] = to[v.Text[i]]
	}
	return View{Name: Cipher, Text: string(text), orig: v.orig, at: v.at, base: v.base, from: v.from, to: v.to, whole: v.whole, ciphered: true}
}

const manyEscapes = 8 // a text with an escape in at most this many bytes is an escaped text that was enciphered

// probe tries non-language as an encoding that was enciphered or reversed. Results that
// decode are kept; the attempts themselves are no readings. A cipher that substitutes letters
// leaves what is encoded without them, which is left out.
func probe(found []View, v *View, m marks) []View {
	turned, back, rotated, mirrored := shifted(v, &signs), reversed(v), shifted(v, &letters[13]), shifted(v, &letters[mirror])
	for _, t := range [...]*View{&turned, &back, &rotated, &mirrored} {
		m, lettered := m, t == &rotated || t == &mirrored // others than ROT47 have the marks of v
		if t == &turned {
			m = scan(t.Text)
		}
		if t.Text == v.Text {
			continue
		}
		before := len(found)
		if n := len(t.Text); (strings.Count(t.Text, "%")+strings.Count(t.Text, "&")+strings.Count(t.Text, `\`)+strings.Count(t.Text, "="))*manyEscapes >= n {
			found = encodings(found, t, m)
		} else {
			found = codes(found, t, m, lettered)
		}
		found = append(found[:before], slices.DeleteFunc(found[before:], func(f View) bool { return f.Name != Encoded && !language(f.Text) })...)
		for i := range found[before:] {
			found[before+i].start = -1 // its offsets are those in t
		}
	}
	return found
}

// moved applies ROT47 to the part of v in which most words become letters by it, and were
// not letters before.
func moved(found []View, v *View) []View {
	s := v.Text
	var part dense
	fields(s, func(i, j int, _ bool) {
		before, after, n := 0, 0, j-i
		for k := i; k < j; k++ {
			if isLetter(s[k]) {
				before++
			}
			if isLetter(signs[s[k]]) {
				after++
			}
		}
		if after*10 < n*7 {
			part.add(false, 0, n, i, j)
		} else if before*10 < n*7 {
			part.add(true, n, 0, i, j)
		}
	})
	in, ok := part.part(s, minRun, minRun)
	if !ok {
		return found
	}
	b := newBuilder(len(s))
	defer b.free()
	b.copy(s, 0, len(s))
	text := b.text[in.start:in.end]
	for i := range text {
		text[i] = signs[text[i]]
	}
	// A score from few letters among punctuation says nothing.
	if now := s[in.start:in.end]; !language(string(text)) || legible(now, 70, -fluent) && sense(string(text)) < sense(now)+better {
		return found
	}
	return append(found, mapped(Cipher, b, v))
}

func reversed(v *View) View {
	b := newBuilder(len(v.Text))
	defer b.free()
	b.reverse(v.Text, 0, len(v.Text))
	return mapped(Reversed, b, v)
}

// reverse writes the characters of s[i:j] in reverse order.
func (b *builder) reverse(s string, i, j int) {
	for j > i {
		c, n := utf8.DecodeLastRuneInString(s[i:j])
		j -= n
		b.rune(c, int32(j))
	}
}

// turned reverses every word of v, including the characters inside of it.
func turned(v *View) View {
	s := v.Text
	b := newBuilder(len(s))
	defer b.free()
	last := 0
	fields(s, func(i, j int, _ bool) {
		i = letter.Find(s[:j], i)
		j = i + noLetter.Begin(s[i:j], j-i)
		b.copy(s, last, i)
		b.reverse(s, i, j)
		last = j
	})
	b.copy(s, last, len(s))
	return mapped(Reversed, b, v)
}
