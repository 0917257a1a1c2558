package cli

import (
	"cmp"
	"fmt"
	"io"
	"reflect"
	"strings"
	"sync"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// plain escapes what steers a terminal, or lies about which letters there are
// and in which order. It is safe for concurrent use.
type plain struct {
	mu   sync.Mutex
	to   io.Writer
	rest []byte // the start of a character whose end is still to come
	lost error  // why something was not written
}

// Write implements io.Writer. An escape is \uXXXX, which in a string of JSON is
// the character itself.
func (p *plain) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := append(p.rest, b...)
	end := len(text)
	for i := 1; i < utf8.UTFMax && i <= len(text); i++ {
		if c := text[len(text)-i]; utf8.RuneStart(c) {
			if !utf8.FullRune(text[len(text)-i:]) {
				end -= i
			}
			break
		}
	}
	_, err := io.WriteString(p.to, escape(string(text[:end]), func(r rune) bool { return r == '\n' || r == '\t' }))
	p.rest = append([]byte(nil), text[end:]...)
	p.lost = cmp.Or(p.lost, err)
	return len(b), err
}

// Line returns text on one line, with control characters escaped.
func Line(text string) string { return escape(text, func(rune) bool { return false }) }

// Printf prints untrusted values, each on one line.
func Printf(w io.Writer, format string, values ...any) {
	for i, v := range values {
		switch reflect.ValueOf(v).Kind() {
		case reflect.Bool, reflect.Int, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint32, reflect.Uint64, reflect.Float64:
		default:
			values[i] = Line(fmt.Sprint(v))
		}
	}
	text := fmt.Sprintf(format, values...)
	line := strings.TrimSuffix(text, "\n")
	fmt.Fprint(w, strings.TrimRight(line, " ")+text[len(line):])
}

// escape writes all but the characters that are shown as they are, and those
// that are kept, as escapes.
func escape(text string, kept func(rune) bool) string {
	shown := func(r rune) bool { return shows(r) || kept(r) }
	if strings.IndexFunc(text, func(r rune) bool { return !shown(r) }) < 0 {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		switch high, low := utf16.EncodeRune(r); {
		case shown(r):
			b.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// shows reports whether a character is seen, at its place. No space but the
// common one is told from others, what is no UTF-8 is the replacement character,
// and variation selectors can spell out a text that nobody sees.
func shows(r rune) bool {
	return ' ' <= r && r <= '~' || unicode.IsGraphic(r) && r != unicode.ReplacementChar &&
		!unicode.In(r, unicode.Zs, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
}
