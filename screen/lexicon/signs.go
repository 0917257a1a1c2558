package lexicon

import (
	"regexp/syntax"
	"strings"
	"unicode"
	"unicode/utf8"
)

// signs are bytes of which each match of a pattern has one: where a text has none, the
// pattern need not be tried. Nil are those of a pattern that matches without any.
type signs [256]bool

// in reports whether a text has one of them.
func (s *signs) in(text string) bool {
	if s == nil {
		return true
	}
	for i := range len(text) {
		if s[text[i]] {
			return true
		}
	}
	return false
}

// common are those that most texts have.
func (s *signs) common() bool {
	return s == nil || strings.ContainsFunc(" \n.,etaoinshrdlcumwfgypbvk0", func(c rune) bool { return s[c] })
}

// signsOf returns the first that many texts have none of, or nil.
func signsOf(re *syntax.Regexp) *signs {
	switch re.Op {
	case syntax.OpLiteral:
		for _, c := range re.Rune {
			same := []rune{c, c}
			for f := unicode.SimpleFold(c); f != c; f = unicode.SimpleFold(f) {
				same = append(same, f, f)
			}
			if s := ofRunes(same); !s.common() {
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
			if s := signsOf(sub); !s.common() {
				return s
			}
		}
	case syntax.OpAlternate:
		var all signs
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
func ofRunes(ranges []rune) *signs {
	var s signs
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
