package lexicon

import (
	"strings"
	"unicode/utf8"

	"github.com/memproxy/memproxy/screen/terms"
)

// scanner finds literals in one pass over a case-folded text. It looks up the last bytes
// read, by their classes, and compares only the literals whose key (the rarest three
// bytes of their beginning) has these classes. Seven bits per byte; at most three byte
// values share a class.
type scanner struct {
	class [256]uint32 // class of each folded byte; 0 occurs in no literal
	may   [1 << (3 * classBits) / 64]uint64
	by    [lookBack + 1]terms.Table[[]literal] // by the classes of the key's bytes
}

const (
	classBits  = 7
	lookBack   = 3 // bytes
	maxScanned = 6 // literals are truncated to this many bytes; see ending
)

// literal is a string that the scanner finds: the truncated literal of some parts.
type literal struct {
	begin, mask uint64 // its first bytes up to the end of its key, and the mask of those bytes
	rest        string // the rest, up to maxScanned bytes
	ends        []ending
}

// ending is the rest of a literal of a part, after maxScanned bytes.
type ending struct {
	rest string
	part int
}

// newScanner returns a scanner for literals, each with its possible endings, or nil if
// there are none.
func newScanner(literals map[string][]ending) *scanner {
	if len(literals) == 0 {
		return nil
	}
	s := &scanner{}
	classes := uint32(0)
	for text, ends := range literals {
		n := rarest(text)
		lit := literal{rest: text[n:], ends: ends}
		key, keyed := uint32(0), min(n, lookBack)
		for i := range n {
			class := &s.class[text[i]]
			if *class == 0 {
				*class = 1 + classes%(1<<classBits-1)
				classes++
			}
			lit.begin, lit.mask = lit.begin<<8|uint64(text[i]), lit.mask<<8|0xff
			key = (key<<classBits | *class) & (1<<(classBits*keyed) - 1)
		}
		list := s.by[keyed].At(key)
		*list = append(*list, lit)
		for above := uint32(0); above < 1<<(classBits*(lookBack-keyed)); above++ {
			k := above<<(classBits*keyed) | key
			s.may[k/64] |= 1 << (k % 64)
		}
	}
	for c := range utf8.RuneSelf {
		s.class[c] = s.class[foldASCII[c]]
	}
	return s
}

// rarest returns the end of a literal's key: its three bytes that are the rarest in
// prose, ending at a character boundary.
func rarest(text string) (end int) {
	most := -1
	for n := min(lookBack, len(text)); n <= len(text); n++ {
		if n < len(text) && !utf8.RuneStart(text[n]) {
			continue
		}
		sum := 0
		for i := max(0, n-lookBack); i < n; i++ {
			if rank := strings.IndexByte(byFrequency, text[i]); rank >= 0 {
				sum += rank
			} else {
				sum += len(byFrequency)
			}
		}
		if sum > most {
			most, end = sum, n
		}
	}
	return end
}

// byFrequency has the characters of English prose, the most frequent first.
const byFrequency = " etaoinsrhldcumfpgwybvkxjqz"

// scan calls found with each literal in text, and the offset at which its first bytes (at
// most maxScanned) end.
func (s *scanner) scan(text string, found func(lit *literal, end int)) {
	if s == nil {
		return
	}
	const all = 1<<(classBits*lookBack) - 1
	var last uint64
	var key uint32
	for i := 0; i < len(text); {
		c := text[i]
		if c < utf8.RuneSelf {
			i++
			last, key = last<<8|uint64(foldASCII[c]), (key<<classBits|s.class[c])&all
		} else {
			r, n := utf8.DecodeRuneInString(text[i:])
			i += n
			var folded [utf8.UTFMax]byte
			for _, c := range utf8.AppendRune(folded[:0], fold(r)) {
				last, key = last<<8|uint64(c), (key<<classBits|s.class[c])&all
			}
		}
		if s.may[key/64]>>(key%64)&1 == 0 {
			continue
		}
		for n := 1; n <= lookBack; n++ {
			list := s.by[n].Get(key & (1<<(classBits*n) - 1))
			for k := range list {
				lit := &list[k]
				if (last^lit.begin)&lit.mask != 0 {
					continue
				}
				if n, ok := follows(text[i:], lit.rest); ok {
					found(lit, i+n)
				}
			}
		}
	}
}

// follows reports whether text begins with text that folds to rest, and its length.
func follows(text, rest string) (n int, ok bool) {
	for rest != "" {
		if n == len(text) {
			return 0, false
		}
		if c := text[n]; c < utf8.RuneSelf && rest[0] < utf8.RuneSelf {
			if foldASCII[c] != rest[0] {
				return 0, false
			}
			n, rest = n+1, rest[1:]
			continue
		}
		want, m := utf8.DecodeRuneInString(rest)
		r, size := utf8.DecodeRuneInString(text[n:])
		if fold(r) != want {
			return 0, false
		}
		n, rest = n+size, rest[m:]
	}
	return n, true
}
