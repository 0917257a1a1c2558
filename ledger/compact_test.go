package ledger_test

import (
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/ledger"
	"github.com/memproxy/memproxy/ledger/ledgertest"
)

// A version is verified before its text is pruned: a tampered version and all before it
// keep their texts, and the memory counts as unverified; intact memories are pruned.
//
// Proves EDGE-4, SYN-5
func TestTamperedVersionsAreNotPruned(t *testing.T) {
	for name, tamper := range map[string]string{
		"untouched":            "",
		"author changed":       `UPDATE version SET actor = 'human:boss' WHERE number = 1`,
		"signature of another": `UPDATE version SET mac = (SELECT mac FROM version WHERE number = 2) WHERE number = 1`,
		"next one gone":        `DELETE FROM version WHERE number = 2`,
	} {
		t.Run(name, func(t *testing.T) {
			var told atomic.Int32
			opt := ledger.Options{Path: filepath.Join(ring.Dir(t), "ledger.db"), Vault: ledgertest.Vault(t), KeepVersions: 3, OnBroken: func() { told.Add(1) }}
			l := open(t, opt)
			for i := range 3 {
				must.Do(t, l.Commit(t.Context(), memproxy.Entry{Versions: []memproxy.Version{ledgertest.Version("m", fmt.Sprint("text ", i))}}))
			}
			k := ledgertest.Version("m", "").MemoryKey
			if tamper != "" {
				vandalise(t, opt.Path, tamper)
			}
			for _, text := range []string{"text 3", "text 4"} {
				must.Do(t, l.Commit(t.Context(), memproxy.Entry{Versions: []memproxy.Version{ledgertest.Version("m", text)}}))
			}
			st := must.Get(ledger.ByID(t.Context(), l, k.Backend, k.Kind, k.ID))(t)
			_, err := l.Version(t.Context(), k, 1)
			expect.Equal(t, err == nil, tamper != "", "its text is there", err)
			expect.Equal(t, told.Load() > 0, tamper != "", "it was told")
			expect.Equal(t, st[k.ID].Status.Unverified == memproxy.IntegrityChain, tamper != "", "not verified", st[k.ID].Status.Unverified)
		})
	}
}

// A text of one field is kept however many texts of another field follow it.
//
// Proves SYN-5
func TestFieldsArePrunedSeparately(t *testing.T) {
	l := open(t, ledger.Options{Path: filepath.Join(ring.Dir(t), "ledger.db"), Vault: ledgertest.Vault(t), KeepVersions: 2})
	for i, field := range []string{"human", "persona", "persona"} {
		v := ledgertest.Version("m", fmt.Sprint("text ", i))
		v.Field = field
		must.Do(t, l.Commit(t.Context(), memproxy.Entry{Versions: []memproxy.Version{v}}))
	}
	v := must.Get(l.Version(t.Context(), ledgertest.Version("m", "").MemoryKey, 1))(t)
	expect.Equal(t, v.Text, "text 0")
}

// A version whose recorded hash no longer fits its text is not given out.
//
// Proves SYN-5, EDGE-4
func TestVersionsAreCheckedAgainstTheirHash(t *testing.T) {
	for _, column := range []string{"sha256", "metadata"} {
		opt := ledger.Options{Path: filepath.Join(ring.Dir(t), "ledger.db"), Vault: ledgertest.Vault(t)}
		l := open(t, opt)
		v := ledgertest.Version("m", "a text")
		v.Metadata = []byte(`{"a":1}`)
		must.Do(t, l.Commit(t.Context(), memproxy.Entry{Versions: []memproxy.Version{v}}))
		vandalise(t, opt.Path, `UPDATE version SET `+column+` = '`+memproxy.TextSHA256("another text")+`'`)
		got, err := l.Version(t.Context(), v.MemoryKey, 1)
		expect.Is(t, err, ledger.ErrSealed, column)
		expect.That(t, got.Text == "" && got.Metadata == nil, "%s: %q, %s", column, got.Text, got.Metadata)
	}
}
