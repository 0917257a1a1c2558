package jsondoc

import (
	"bytes"
	"encoding/binary"
)

// Scanner reads the tokens of a JSON text (RFC 8259) in valid UTF-8. It does not
// allocate.
type Scanner struct {
	Src []byte
	At  int // index of the next byte
	// Escaped is set if the last read string has escapes.
	Escaped bool
}

// Space skips white space and returns the next byte, or 0 at the end.
func (s *Scanner) Space() byte {
	for s.At < len(s.Src) {
		switch c := s.Src[s.At]; c {
		case ' ', '\t', '\n', '\r':
			s.At++
		default:
			return c
		}
	}
	return 0
}

// Open reads the opening bracket and, if nothing is between them, the closing one.
func (s *Scanner) Open(closing byte) (more bool) {
	s.At++
	if s.Space() == closing {
		s.At++
		return false
	}
	return true
}

// More reads the separator after a member or an element: a comma or the closing
// bracket.
func (s *Scanner) More(closing byte) (more, ok bool) {
	c := s.Space()
	s.At++
	return c == ',', c == ',' || c == closing
}

// Literal reads one of the literals true, false and null.
func (s *Scanner) Literal(word string) bool {
	if !bytes.HasPrefix(s.Src[s.At:], []byte(word)) {
		return false
	}
	s.At += len(word)
	return true
}

// String reads a string and returns its raw bytes between the quotes. It does not check
// escapes; decoding them does.
func (s *Scanner) String() (raw []byte, ok bool) {
	from := s.At + 1
	s.Escaped = false
	for i := from; i < len(s.Src); i++ {
		i += plain(s.Src[i:])
		if i == len(s.Src) {
			break
		}
		switch c := s.Src[i]; {
		case c == '"':
			s.At = i + 1
			return s.Src[from:i], true
		case c < ' ':
			return nil, false
		case c == '\\':
			i++
			s.Escaped = true
		}
	}
	return nil, false
}

// plain returns the number of literal leading bytes of a string, in steps of eight: none of
// them ends the string, starts an escape or is a control character.
func plain(b []byte) int {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	n := 0
	for ; len(b) >= n+8; n += 8 {
		x := binary.LittleEndian.Uint64(b[n:])
		quote, slash := x^ones*'"', x^ones*'\\'
		if ((x-ones*' ')&^x|(quote-ones)&^quote|(slash-ones)&^slash)&high != 0 {
			break
		}
	}
	return n
}

func (s *Scanner) Number() bool {
	s.next("-")
	if from := s.At; !s.digits() || s.Src[from] == '0' && s.At > from+1 {
		return false
	}
	if s.next(".") && !s.digits() {
		return false
	}
	if s.next("eE") {
		s.next("+-")
		return s.digits()
	}
	return true
}

// next reads one of the given characters.
func (s *Scanner) next(of string) bool {
	if s.At == len(s.Src) || bytes.IndexByte([]byte(of), s.Src[s.At]) < 0 {
		return false
	}
	s.At++
	return true
}

func (s *Scanner) digits() bool {
	from := s.At
	for s.At < len(s.Src) && s.Src[s.At] >= '0' && s.Src[s.At] <= '9' {
		s.At++
	}
	return s.At > from
}
