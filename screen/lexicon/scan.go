package lexicon

import "unicode/utf8"

// maxScanned bounds the bytes of a literal that the automaton knows, and with
// them its size. What follows is compared.
const maxScanned = 6

// scanner finds literals in one pass over a text, folded: the automaton of Aho
// and Corasick (Efficient string matching, CACM 18, 1975), over the bytes that
// occur in a literal.
type scanner struct {
	class   [256]uint8 // of each byte; 0 occurs in no literal
	classes int
	next    []uint16 // state by state and class
	found   [][]int  // literals that end in a state
	ends    []bool   // whether there are any, in less memory
}

func newScanner(literals []string) *scanner {
	s := &scanner{classes: 1}
	for _, text := range literals {
		for i := range len(text) {
			if s.class[text[i]] == 0 {
				s.class[text[i]] = uint8(s.classes)
				s.classes++
			}
		}
	}
	s.state()
	for id, text := range literals {
		at := 0
		for i := range len(text) {
			edge := at*s.classes + int(s.class[text[i]])
			if s.next[edge] == 0 {
				s.next[edge] = uint16(s.state())
			}
			at = int(s.next[edge])
		}
		s.found[at] = append(s.found[at], id)
	}
	s.link()
	s.ends = make([]bool, len(s.found))
	for at, ids := range s.found {
		s.ends[at] = len(ids) > 0
	}
	return s
}

func (s *scanner) state() int {
	s.next = append(s.next, make([]uint16, s.classes)...)
	s.found = append(s.found, nil)
	return len(s.found) - 1
}

// link completes the trie, breadth first: where it has no transition, that of
// the longest proper suffix holds.
func (s *scanner) link() {
	suffix := make([]int, len(s.found))
	queue := []int{0}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		for c := range s.classes {
			edge, other := at*s.classes+c, suffix[at]*s.classes+c
			to := int(s.next[edge])
			switch {
			case to == 0:
				s.next[edge] = s.next[other]
				continue
			case at != 0:
				suffix[to] = int(s.next[other])
				s.found[to] = append(s.found[to], s.found[suffix[to]]...)
			}
			queue = append(queue, to)
		}
	}
}

// scan calls found with each literal in text and with where it ends.
func (s *scanner) scan(text string, found func(literal, end int)) {
	state := 0
	for i := 0; i < len(text); {
		c := text[i]
		if c < utf8.RuneSelf {
			i++
			state = int(s.next[state*s.classes+int(s.class[foldASCII[c]])])
		} else {
			r, n := utf8.DecodeRuneInString(text[i:])
			i += n
			var folded [utf8.UTFMax]byte
			for _, c := range utf8.AppendRune(folded[:0], fold(r)) {
				state = int(s.next[state*s.classes+int(s.class[c])])
			}
		}
		if s.ends[state] {
			for _, id := range s.found[state] {
				found(id, i)
			}
		}
	}
}

// follows reports whether text begins with what is folded to rest.
func follows(text, rest string) bool {
	for rest != "" {
		want, m := utf8.DecodeRuneInString(rest)
		r, n := utf8.DecodeRuneInString(text)
		if n == 0 || fold(r) != want {
			return false
		}
		text, rest = text[n:], rest[m:]
	}
	return true
}
