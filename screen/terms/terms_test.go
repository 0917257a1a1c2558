package terms_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/screen/terms"
)

func FuzzHead(f *testing.F) {
	f.Add("üüü", 3)
	f.Add("\x80\x80\x80\x80\x80\x80", 5)
	f.Fuzz(func(t *testing.T, s string, n int) {
		n &= 63
		if c := terms.Truncate(s, n); len(c) > max(n, 0) || !strings.HasPrefix(s, c) || utf8.ValidString(s) && !utf8.ValidString(c) {
			t.Fatalf("%q of %q", c, s)
		} else if c == "" && s != "" && n >= utf8.UTFMax {
			t.Fatalf("nothing of %q", s)
		}
	})
}

// A table that grows keeps what it has, the hash 0 among it.
func TestTable(t *testing.T) {
	var table terms.Table[int]
	for h := range uint32(1000) {
		must.Equal(t, table.Get(h*7919), 0, h, "is there before it was set")
		*table.At(h * 7919) = int(h) + 1
	}
	for h := range uint32(1000) {
		must.Equal(t, table.Get(h*7919), int(h)+1, h)
	}
}
