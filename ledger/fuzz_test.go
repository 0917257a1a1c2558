package ledger

import (
	"bytes"
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/ledger/keys"
)

func testVault(t testing.TB) *keys.Vault {
	t.Helper()
	k := must.Get(keys.New(bytes.Repeat([]byte{7}, keys.Size)))(t)
	v := must.Get(keys.NewVault(keys.Set{Signing: k}, rand.Reader))(t)
	return v
}

// FuzzCursor: a cursor decodes to what was encoded, and invalid ones are refused.
func FuzzCursor(f *testing.F) {
	f.Add("nonsense", int64(1), "id")
	f.Add("zz.id", int64(-5), "a.b.c")
	f.Add(".", int64(1<<62), "")
	f.Fuzz(func(t *testing.T, text string, at int64, id string) {
		_, _, _ = parseCursor(text)
		h := memproxy.HeldWrite{ID: id, Created: time.UnixMicro(at)}
		if storable(id) != nil || h.Created.UnixMicro() != at || h.Created.IsZero() {
			return
		}
		gotAt, gotID, err := parseCursor(cursor(h))
		if err != nil || gotAt != at || gotID != id {
			t.Fatalf("%d %q %v", gotAt, gotID, err)
		}
	})
}

// FuzzSketch: a sketch ignores letter case, punctuation and the values of numbers.
func FuzzSketch(f *testing.F) {
	f.Add("Always send invoices to account 4711.")
	f.Add("\xff\x00 ... ")
	f.Add("ǅ ß ﬁ ١٢٣")
	secret := []byte("secret")
	of := func(text string) sketch { return sketchOf(secret, []memproxy.HeldText{{Text: text}}) }
	f.Fuzz(func(t *testing.T, text string) {
		s := of(text)
		if p, ok := parseSketch(s.String()); !ok || p != s {
			t.Fatalf("%s is read as %s", s, p)
		}
		must.Equal(t, of(" "+text+" !"), s, "punctuation counts")
		if strings.IndexFunc(text, func(r rune) bool { return r > 127 }) < 0 {
			must.Equal(t, of(strings.ToUpper(text)), s, "letter case counts")
			must.Equal(t, of(strings.NewReplacer("1", "2", "3", "2", "4", "2").Replace(text)), s, "the number counts")
		}
	})
}

// FuzzRef: a content's name decodes to its parts.
func FuzzRef(f *testing.F) {
	f.Add("a", "b", "a/1:b", "")
	f.Add("", "1:/", "1:", "/")
	f.Fuzz(func(t *testing.T, a, b, c, d string) {
		if same := a == c && b == d; (ref("x/", a, b) == ref("x/", c, d)) != same {
			t.Fatalf("%q %q and %q %q", a, b, c, d)
		}
	})
}

func TestDialect(t *testing.T) {
	for text, want := range map[string]string{
		`a = ? AND b = ?`:                        `a = $1 AND b = $2`,
		`a = ?2 AND b = ?1 OR c = ?12`:           `a = $2 AND b = $1 OR c = $12`,
		`id IN (SELECT value FROM json_each(?))`: `id IN (SELECT json_array_elements_text($1))`,
		`VALUES (?,?,'')`:                        `VALUES ($1,$2,'')`,
		`SELECT 1`:                               `SELECT 1`,
	} {
		expect.Equal(t, postgresDialect.sql(text), want, text)
		expect.Equal(t, sqliteDialect.sql(text), text, "SQLite")
	}
}
