package secrets

import (
	"cmp"
	"slices"
)

const maxHits = 1024 // the most hits of a class in a scan; more would not change the outcome

// scanner has the text of a scan, and what the finders cache to stay linear.
type scanner struct {
	text string
	hits []Hit
	seen map[Class]int // the number of hits of a class
	// pemEnd is the offset of the next "-----END" from the last look-up on; -1: not
	// looked up yet, past the end: none.
	pemEnd int
}

// Scan returns the hits in text, sorted by start, at most 1024 of each class. Hits do not
// overlap: the more specific one is kept.
func Scan(text string) []Hit {
	s := scanner{text: text, pemEnd: -1}
	for i := 0; i < len(text); {
		i = s.at(i)
	}
	return settle(s.hits)
}

// at looks for a hit at i, and returns where to continue.
func (s *scanner) at(i int) int {
	switch c := s.text[i]; {
	case letters[c]:
		if i > 0 && alnum[s.text[i-1]] {
			return alnum.End(s.text, i) // no hit begins inside of a word
		}
		return s.word(i)
	case digits[c]:
		if i > 0 && (alnum[s.text[i-1]] || s.text[i-1] == '_') {
			return i + 1
		}
		return s.number(i)
	}
	return s.mark(i)
}

func (s *scanner) word(i int) int {
	if end, class := token(s.text, i); end > 0 {
		return s.add(class, i, end)
	}
	if end := jwt(s.text, i); end > 0 {
		return s.add(JWT, i, end)
	}
	if end := iban(s.text, i); end > 0 {
		return s.add(IBAN, i, end)
	}
	if start, end, class := said(s.text, i); end > 0 {
		s.add(class, start, end)
	}
	return alnum.End(s.text, i)
}

// mark looks for hits that begin at, or are recognised by, a punctuation mark.
func (s *scanner) mark(i int) int {
	switch c := s.text[i]; c {
	case '@':
		if start, end := email(s.text, i); end > 0 {
			s.add(Email, start, end)
			return end
		}
	case '-':
		if start, end := s.pem(i); end > 0 {
			return s.add(PrivateKey, start, end)
		}
	case ':', '=':
		if c == ':' {
			if start, end, class := address(s.text, i); end > 0 {
				s.add(class, start, end)
				return i + 1
			}
		}
		if start, end, class := assigned(s.text, i); end > 0 {
			s.add(class, start, end)
		}
	case '+', '(':
		if end := phone(s.text, i); end > 0 {
			return s.add(Phone, i, end)
		}
	}
	return i + 1
}

func (s *scanner) add(class Class, start, end int) int {
	if s.seen == nil {
		s.seen = map[Class]int{}
	}
	if s.seen[class]++; s.seen[class] <= maxHits {
		s.hits = append(s.hits, Hit{class, start, end})
	}
	return end
}

// settle sorts the hits and resolves overlaps by rank: a credential found by its format
// wins over one found by its label, and either over personal data inside of it.
func settle(hits []Hit) []Hit {
	slices.SortFunc(hits, func(a, b Hit) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End), cmp.Compare(a.Class, b.Class))
	})
	kept := hits[:0]
	for _, h := range hits {
		if n := len(kept); n > 0 && h.Start < kept[n-1].End {
			if h.Class.traits().rank > kept[n-1].Class.traits().rank {
				kept[n-1] = h
			}
			continue
		}
		kept = append(kept, h)
	}
	return kept
}
