package ledger_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/ledger"
	"github.com/memproxy/memproxy/ledger/ledgertest"
)

// Proves TRL-3: an author's track record can be read while a sidecar has the ledger
// open, without creating a file.
func TestPeek(t *testing.T) {
	path := filepath.Join(ring.Dir(t), "ledger.db")
	peek := func(path, who string) (track memproxy.Track, err error) {
		err = ledger.Peek(ledger.Options{Path: path}, func(l *ledger.Ledger) (err error) {
			track, err = l.Track(t.Context(), "acme", who)
			return err
		})
		return track, err
	}
	expect.Equal(t, must.Get(peek(path, "agent:dev"))(t), (memproxy.Track{}), "no file")
	expect.Equal(t, os.IsNotExist(expect.Err(os.Stat(path))), true, "to look made a file")
	vault := ledgertest.Vault(t)
	l := open(t, ledger.Options{Path: path, Vault: vault})
	must.Do(t, l.Commit(t.Context(), memproxy.Entry{
		Queued: true, Owners: []memproxy.Ownership{ledgertest.Row("m1"), ledgertest.Row("m2")},
		Versions: []memproxy.Version{ledgertest.Version("m1", "a text")},
	}))
	c := memproxy.Correction{MemoryKey: memproxy.MemoryKey{Backend: "mem0", ID: "m1"}, Tenant: "acme", Author: "agent:dev", Corrector: "human:ann", Decision: "d"}
	must.Do(t, l.Commit(t.Context(), memproxy.Entry{Corrections: []memproxy.Correction{c}}))
	must.Do(t, l.Sync(t.Context()))
	for who, want := range map[string]memproxy.Track{"agent:dev": {Facts: 2, Corrections: 1}, "agent:other": {}} {
		got, err := peek(path, who)
		got.Since = (time.Time{})
		expect.That(t, err == nil && got == want, "%s: %+v %v", who, got, err)
	}
	// A removed record is a finding, also for a reader that reports none.
	vandalise(t, path, `DELETE FROM record WHERE id = 'm1'`)
	must.Do(t, ledger.Peek(ledger.Options{Path: path, Vault: vault}, func(l *ledger.Ledger) error {
		found, err := l.Lookup(t.Context(), key("m1"))
		st := found.Of(key("m1")).Status
		expect.Equal(t, st.State, memproxy.StateQuarantined, "removed", st)
		expect.Equal(t, st.Unverified, memproxy.IntegrityLedger, "removed", st)
		return err
	}))
	other := filepath.Join(ring.Dir(t), "other.db")
	must.Do(t, os.WriteFile(other, []byte("not a database, and longer than the head of one is"), 0o600))
	expect.Error(t, expect.Err(peek(other, "agent:dev")), "something else was read")
}
