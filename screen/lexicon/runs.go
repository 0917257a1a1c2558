package lexicon

import "unicode/utf8"

// reach returns the spans in which matches with the literals that end in some sorted spans
// can lie: as far as the text has the characters of the pattern, but without an unbounded
// repetition no farther than the longest match, and one more character, at which a word
// boundary looks. No part of the text is walked over twice.
func (p *part) reach(text string, around []span) (out []span) {
	if len(around) == 0 {
		return nil
	}
	any, end := p.any(), 0 // end: of the last span
	for _, s := range around {
		first, last := max(end, s.from-p.most), min(len(text), s.to+p.most)
		for s.from > first {
			c, n := utf8.DecodeLastRuneInString(text[:s.from])
			if !any.consumes(c) {
				break
			}
			s.from -= n
		}
		for s.to = max(s.to, end); s.to < last; {
			c, n := utf8.DecodeRuneInString(text[s.to:])
			if !any.consumes(c) {
				break
			}
			s.to += n
		}
		end = s.to
		out = join(out, span{max(0, s.from-utf8.UTFMax), min(len(text), s.to+utf8.UTFMax)})
	}
	return out
}

// join adds a span to a sorted list and merges it with those that it touches.
func join(list []span, s span) []span {
	for n := len(list); n > 0 && s.from <= list[n-1].to; n-- {
		s.from, s.to = min(s.from, list[n-1].from), max(s.to, list[n-1].to)
		list = list[:n-1]
	}
	return append(list, s)
}
