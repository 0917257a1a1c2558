package ledger_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy/ledger"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/ledger/keys"
	"github.com/memproxy/memproxy/ledger/ledgertest"
)

// testVault returns a vault with the same key each time.
func testVault(t testing.TB) *keys.Vault {
	t.Helper()
	return ledgertest.Vault(t, must.Get(keys.New(bytes.Repeat([]byte{7}, keys.Size)))(t))
}

// FuzzCursor: a cursor of any text is refused, or lists what comes after it.
func FuzzCursor(f *testing.F) {
	for _, text := range []string{"nonsense", "zz.id", ".", "1.a.b.c", "-1.", "zzzzzzzzzzzzzzz.id", "1.\x00"} {
		f.Add(text)
	}
	l := open(f, ledger.Options{Vault: ledgertest.Vault(f)})
	h, c := ledgertest.Held("h", "text")
	must.Get(l.Holds.Put(f.Context(), h, c))(f)
	f.Fuzz(func(t *testing.T, text string) {
		page, err := l.Holds.List(t.Context(), memproxy.HoldFilter{After: text})
		expect.That(t, (err == nil || errors.Is(err, ledger.ErrRow)) && len(page.Holds) <= 1 && page.Next == "", "%+v, %v", page, err)
	})
}

// Pages of holds with any ids, at any time, list each of them once.
func TestCursorsOfAnyHold(t *testing.T) {
	var at time.Time
	l := open(t, ledger.Options{Vault: ledgertest.Vault(t), Clock: func() time.Time { return at }})
	want := []string{"-", ".", "1.", "a.b.c", "b\u00e4", "z z/:%\n"}
	for _, id := range want {
		at = time.UnixMicro(int64(len(id)/3)<<40 - 5)
		h, c := ledgertest.Held(id, "text")
		must.Get(l.Holds.Put(t.Context(), h, c))(t)
	}
	var got []string
	for f := (memproxy.HoldFilter{Limit: 1}); ; {
		page := must.Get(l.Holds.List(t.Context(), f))(t)
		must.Len(t, page.Holds, 1)
		got = append(got, page.Holds[0].ID)
		if f.After = page.Next; f.After == "" {
			break
		}
	}
	expect.List(t, got, want)
}

// FuzzSketch: similarity ignores letter case, punctuation and the values of numbers.
func FuzzSketch(f *testing.F) {
	f.Add("Always send invoices to account 4711.")
	f.Add("\xff\x00 ... ")
	f.Add("ǅ ß ﬁ ١٢٣")
	l := open(f, ledger.Options{Vault: ledgertest.Vault(f)})
	n := 0
	f.Fuzz(func(t *testing.T, text string) {
		n++
		of := func(name, text string) string {
			t.Helper()
			h, c := ledgertest.Held(fmt.Sprint(name, n), "text")
			h.Tenant, c.Texts = fmt.Sprint("t", n), []memproxy.HeldText{{Text: text}}
			return must.Get(l.Holds.Put(t.Context(), h, c))(t).Similarity
		}
		s := of("first", text)
		must.Equal(t, of("spaced", " "+text+" !"), s, "punctuation counts")
		if strings.IndexFunc(text, func(r rune) bool { return r > 127 }) < 0 {
			must.Equal(t, of("upper", strings.ToUpper(text)), s, "letter case counts")
			must.Equal(t, of("numbers", strings.NewReplacer("1", "2", "3", "2", "4", "2").Replace(text)), s, "the number counts")
		}
	})
}

// FuzzRef: the texts of two objects never have one name, whatever the objects are called.
func FuzzRef(f *testing.F) {
	f.Add("a", "b", "a/1:b", "c")
	f.Add("x", "1:/", "1:", "/")
	f.Add("a", "b/memory/c", "a/memory/b", "c")
	f.Add("a", "b/6:memory/1:c", "a/6:memory/1:b", "c")
	l := open(f, ledger.Options{Vault: ledgertest.Vault(f)})
	n := 0
	f.Fuzz(func(t *testing.T, a, b, c, d string) {
		if a == c && b == d {
			return
		}
		n++
		for _, k := range [][2]string{{a, b}, {c, d}} {
			v := ledgertest.Version(k[1], fmt.Sprintf("%d: %q", n, k))
			v.Backend, v.Decision = k[0], fmt.Sprint(n)
			if l.Commit(t.Context(), memproxy.Entry{Versions: []memproxy.Version{v}}) != nil {
				return // a name that cannot be stored
			}
			newest := must.Get(l.History(t.Context(), v.MemoryKey, 0, 1))(t)[0].Number
			must.Equal(t, must.Get(l.Version(t.Context(), v.MemoryKey, newest))(t).Text, v.Text)
		}
	})
}
