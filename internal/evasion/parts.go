package evasion

import (
	"compress/gzip"
	"encoding/ascii85"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
)

// ascii reports whether s is ASCII.
func ascii(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r >= 0x80 }) < 0
}

// plain returns the percentage of s that is letters, white space and ordinary
// punctuation.
func plain(s string) int {
	n := 0
	for _, c := range []byte(s) {
		if isLetter(rune(c)) || strings.IndexByte(" \n.,;:!?'\"-", c) >= 0 {
			n++
		}
	}
	return n * 100 / max(len(s), 1)
}

// caseless reports whether s keeps its meaning in capitals.
func caseless(s string) bool {
	for _, w := range strings.Fields(s) {
		w = strings.Trim(w, ".,;:!?'\"-()")
		if len(w) > 1 && w[1:] != strings.ToLower(w[1:]) && w != strings.ToUpper(w) {
			return false
		}
	}
	return true
}

// language reports whether s is words of ordinary letters and length.
func language(s string) bool {
	long := 0
	all := strings.Fields(s)
	for _, w := range all {
		if len(w) > 18 {
			long++
		}
	}
	return plain(s) >= 96 && caseless(s) && len(all) >= 4 && long*10 <= len(all)
}

// spelled reports whether s keeps its meaning if only letters are kept.
func spelled(s string) bool { return plain(s) == 100 && caseless(s) }

// unquoted reports whether s can be put in quotes without escapes.
func unquoted(s string) bool { return language(s) && !strings.ContainsAny(s, `"'\`) }

// words applies f to every word.
func words(f func(string) string) func(string) string {
	return func(s string) string {
		all := strings.Fields(s)
		for i, w := range all {
			all[i] = f(w)
		}
		return strings.Join(all, " ")
	}
}

func backward(all []string) []string {
	slices.Reverse(all)
	return all
}

// items returns the words of s as a list.
func items(s, sep string, mark func(int) string) string {
	all := strings.Fields(s)
	for i, w := range all {
		all[i] = mark(i) + w
	}
	return strings.Join(all, sep)
}

// number returns the i-th pseudo-random number of a text.
func number(s string, i int) int {
	h := fnv.New32a()
	fmt.Fprint(h, i, s)
	return int(h.Sum32() >> 1)
}

// shuffled returns the words of s as a numbered list in pseudo-random order.
func shuffled(s string) string {
	all := strings.Split(items(s, "\n", func(i int) string { return fmt.Sprintf("%d. ", i+1) }), "\n")
	for i := len(all) - 1; i > 0; i-- {
		j := number(s, i) % (i + 1)
		all[i], all[j] = all[j], all[i]
	}
	return strings.Join(all, "\n")
}

// inner swaps the inner letters of a word in pairs, or shuffles them if order is set.
func inner(w string, order bool) string {
	b := []byte(w)
	end := len(b)
	for end > 0 && !isLetter(rune(b[end-1])) {
		end--
	}
	if strings.ContainsAny(w[:end], "@.-'/_") {
		return w
	}
	if !order {
		for i := 1; i+2 < end; i += 2 {
			b[i], b[i+1] = b[i+1], b[i]
		}
		return string(b)
	}
	for i := end - 2; i > 1; i-- {
		j := 1 + number(w, i)%i
		b[i], b[j] = b[j], b[i]
	}
	return string(b)
}

// chained returns links of n words each.
func chained(s string, n int, scheme, sep string) string {
	var out []string
	for part := range slices.Chunk(strings.Fields(s), n) {
		out = append(out, scheme+strings.Join(part, sep))
	}
	return strings.Join(out, " ")
}

// humps joins words in camel case.
func humps(s string) string {
	return strings.ReplaceAll(words(func(w string) string { return strings.ToUpper(w[:1]) + w[1:] })(s), " ", "")
}

// alternate applies f to every other letter.
func alternate(f func(string) string) func(string) string {
	return func(s string) string {
		i := 0
		return each(s, func(r rune) string {
			if i++; i%2 == 0 {
				return f(string(r))
			}
			return string(r)
		})
	}
}

// pieces replaces letters with several characters each.
func pieces(of map[rune]string) func(string) string {
	return func(s string) string {
		return each(s, func(r rune) string {
			if p, ok := of[r]; ok {
				return p
			}
			return string(r)
		})
	}
}

func spread(s, sep, gap string) string {
	all := strings.Fields(s)
	for i, w := range all {
		all[i] = strings.Join(strings.Split(w, ""), sep)
	}
	return strings.Join(all, gap)
}

// bits writes every bit as one of two invisible characters.
func bits(s, zero, one string) string {
	return strings.NewReplacer("0", zero, "1", one).Replace(numbers("%08b", "")(s))
}

func rot47(s string) string {
	return strings.Map(func(r rune) rune {
		if r > ' ' && r < 0x7f {
			return 33 + (r-33+47)%94
		}
		return r
	}, s)
}

func b85(s string) string {
	out := make([]byte, ascii85.MaxEncodedLen(len(s)))
	return string(out[:ascii85.Encode(out, []byte(s))])
}

// rfc1924 encodes base85 as Python and git do.
func rfc1924(s string) string {
	const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
	var b strings.Builder
	for part := range slices.Chunk([]byte(s), 4) {
		x := binary.BigEndian.Uint32(append(slices.Clone(part), 0, 0, 0)[:4])
		var group [5]byte
		for i := 4; i >= 0; i-- {
			group[i] = digits[x%85]
			x /= 85
		}
		b.Write(group[:len(part)+1])
	}
	return b.String()
}

var (
	morseCodes = strings.Fields(".- -... -.-. -.. . ..-. --. .... .. .--- -.- .-.. -- -. --- .--. --.- .-. ... - ..- ...- .-- -..- -.-- --..")
	spelling   = strings.Fields(`Alfa Bravo Charlie Delta Echo Foxtrot Golf Hotel India Juliett Kilo Lima Mike November Oscar Papa Quebec
Romeo Sierra Tango Uniform Victor Whiskey X-ray Yankee Zulu`)
)

// alphabetical has the positions of the letters in the alphabet.
var alphabetical = strings.Fields("1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26")

// packed returns s compressed with gzip.
func packed(s string) string {
	var b strings.Builder
	w := gzip.NewWriter(&b)
	_, err := w.Write([]byte(s))
	if err := errors.Join(err, w.Close()); err != nil {
		panic(err)
	}
	return b.String()
}

func morse(s, gap string) string { return spell(s, morseCodes, " ", gap) }

func phonetic(s, sep, gap string) string { return spell(s, spelling, sep, gap) }

// spell replaces every letter with its word of an alphabet.
func spell(s string, alphabet []string, sep, gap string) string {
	return strings.TrimSpace(each(strings.ToLower(s), func(r rune) string {
		switch {
		case r >= 'a' && r <= 'z':
			return alphabet[r-'a'] + sep
		case r == ' ' || r == '\n':
			return gap
		}
		return ""
	}))
}

func pig(w string) string {
	end := len(strings.TrimRight(w, ".,;:!?"))
	n := strings.IndexAny(w, "aeiouAEIOU")
	switch {
	case end == 0 || n < 0 || n > end:
		return w
	case n == 0:
		return w[:end] + "way" + w[end:]
	}
	return w[n:end] + w[:n] + "ay" + w[end:]
}

// mistyped returns a word with one typing error: a letter omitted (kind 0), doubled (1),
// replaced (2), or swapped with the next (3).
func mistyped(kind int) func(string) string {
	return func(w string) string {
		end := len(w)
		for end > 0 && !isLetter(rune(w[end-1])) {
			end--
		}
		if end < 5 || strings.ContainsFunc(w[:end], func(r rune) bool { return !isLetter(r) || r > 'z' }) {
			return w
		}
		i := 1 + number(w, kind)%(end-2) // not the first letter and not the last
		switch kind {
		case 0:
			return w[:i] + w[i+1:]
		case 1:
			return w[:i] + w[i:i+1] + w[i:]
		case 2:
			return w[:i] + string('a'+rune(number(w, 9)%26)) + w[i+1:]
		}
		i = min(i, end-3)
		return w[:i] + w[i+1:i+2] + w[i:i+1] + w[i+2:]
	}
}
