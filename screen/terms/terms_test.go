package terms

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func FuzzHead(f *testing.F) {
	f.Add("üüü", 3)
	f.Fuzz(func(t *testing.T, s string, n int) {
		n &= 63
		if c := Head(s, n); len(c) > max(n, 0) || !strings.HasPrefix(s, c) || utf8.ValidString(s) && !utf8.ValidString(c) {
			t.Fatalf("%q of %q", c, s)
		}
	})
}
