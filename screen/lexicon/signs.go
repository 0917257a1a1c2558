package lexicon

import (
	"regexp/syntax"
	"unicode"
	"unicode/utf8"

	"github.com/memproxy/memproxy/screen/terms"
)

// common reports signs that most texts have.
func common(s *terms.Bytes) bool {
	return s == nil || s.In(" \n.,etaoinshrdlcumwfgypbvk0")
}

// signsOf returns bytes of which each match of a pattern has one, the first that many
// texts have none of: where a text has none, the pattern need not be tried. Nil are those
// of a pattern that matches without any.
func signsOf(re *syntax.Regexp) *terms.Bytes {
	switch re.Op {
	case syntax.OpLiteral:
		for _, c := range re.Rune {
			same := []rune{c, c}
			for f := unicode.SimpleFold(c); f != c; f = unicode.SimpleFold(f) {
				same = append(same, f, f)
			}
			if s := ofRunes(same); !common(s) {
				return s
			}
		}
	case syntax.OpCharClass:
		return ofRunes(re.Rune)
	case syntax.OpCapture, syntax.OpPlus:
		return signsOf(re.Sub[0])
	case syntax.OpRepeat:
		if re.Min > 0 {
			return signsOf(re.Sub[0])
		}
	case syntax.OpConcat:
		for _, sub := range re.Sub {
			if s := signsOf(sub); !common(s) {
				return s
			}
		}
	case syntax.OpAlternate:
		var all terms.Bytes
		for _, sub := range re.Sub {
			s := signsOf(sub)
			if s == nil {
				return nil
			}
			for c := range all {
				all[c] = all[c] || s[c]
			}
		}
		return &all
	}
	return nil
}

// ofRunes returns the bytes with which the characters of ranges begin.
func ofRunes(ranges []rune) *terms.Bytes {
	var s terms.Bytes
	for i := 0; i < len(ranges); i += 2 {
		for c := ranges[i]; c <= min(ranges[i+1], utf8.RuneSelf-1); c++ {
			s[c] = true
		}
		for c := utf8.RuneSelf; c < len(s) && ranges[i+1] >= utf8.RuneSelf; c++ {
			s[c] = true
		}
	}
	return &s
}
