package ledger_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/ledger"
	"github.com/memproxy/memproxy/ledger/ledgertest"
)

// Edits of the chain in the file are detected and classified. Ten versions of three
// memories are in places 1 to 10.
//
// Proves TRL-7, EDGE-4.
func TestChainFaults(t *testing.T) {
	renumber := []string{
		`CREATE TEMP TABLE moved AS SELECT * FROM version WHERE place > 5`,
		`DELETE FROM version WHERE place > 5`, `UPDATE moved SET place = place - 1`, `INSERT INTO version SELECT * FROM moved`,
	}
	for _, c := range []struct {
		name string
		do   []string
		want memproxy.FaultClass // "": no fault
		at   int64
		only bool // no other class may be reported
	}{
		{"nothing", nil, "", 0, true},
		{"a pin, which may change", []string{`UPDATE version SET pinned = 1 WHERE place = 4`}, "", 0, true},
		{"actor changed", []string{`UPDATE version SET actor = 'human:boss' WHERE place = 4`}, memproxy.FaultTamper, 4, true},
		{"hash changed", []string{`UPDATE version SET sha256 = 'ab' WHERE place = 10`}, memproxy.FaultTamper, 10, false},
		{"time changed", []string{`UPDATE version SET at = at + 1 WHERE place = 1`}, memproxy.FaultTamper, 1, true},
		{"link changed", []string{`UPDATE version SET link = 'ab' WHERE place = 4`}, memproxy.FaultTamper, 4, true},
		{"cut", []string{`DELETE FROM version WHERE place > 8`}, memproxy.FaultTruncate, 9, true},
		{"all cut", []string{`DELETE FROM version`}, memproxy.FaultTruncate, 1, true},
		{"head gone", []string{`DELETE FROM chain`}, memproxy.FaultTruncate, 10, true},
		{"cut, and the head moved", []string{`DELETE FROM version WHERE place > 8`,
			`UPDATE chain SET place = 8, link = (SELECT link FROM version WHERE place = 8)`}, memproxy.FaultForge, 8, true},
		{"first gone", []string{`DELETE FROM version WHERE place = 1`}, memproxy.FaultDelete, 1, true},
		{"middle gone", []string{`DELETE FROM version WHERE place = 5`}, memproxy.FaultDelete, 5, true},
		{"middle gone, the rest moved up", append([]string{`DELETE FROM version WHERE place = 5`}, renumber...), memproxy.FaultDelete, 4, false},
		{"two swapped", []string{`UPDATE version SET place = -1 WHERE place = 4`, `UPDATE version SET place = 4 WHERE place = 6`,
			`UPDATE version SET place = 6 WHERE place = -1`}, memproxy.FaultReorder, 4, true},
		{"last two swapped", []string{`UPDATE version SET place = -1 WHERE place = 9`, `UPDATE version SET place = 9 WHERE place = 10`,
			`UPDATE version SET place = 10 WHERE place = -1`}, memproxy.FaultReorder, 9, true},
		{"signature of another", []string{`UPDATE version SET mac = (SELECT mac FROM version WHERE place = 3) WHERE place = 4`}, memproxy.FaultForge, 4, true},
		{"one added", []string{`CREATE TEMP TABLE extra AS SELECT * FROM version WHERE place = 10`,
			`UPDATE extra SET place = 11, number = 99`, `INSERT INTO version SELECT * FROM extra`}, memproxy.FaultTamper, 11, true},
		{"text changed", []string{`UPDATE version SET envelope = CAST(substr(envelope, 1, 64) || zeroblob(40) AS BLOB) WHERE place = 1`}, memproxy.FaultText, 1, true},
		{"text gone", []string{`UPDATE version SET envelope = '' WHERE place = 1`}, memproxy.FaultText, 1, true},
		{"newest text given up", []string{`UPDATE version SET compacted = 1 WHERE place = 10`}, memproxy.FaultText, 10, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, path := onFile(t)
			for i := range 10 {
				must.Do(t, l.Commit(t.Context(), memproxy.Entry{Versions: []memproxy.Version{ledgertest.Version(fmt.Sprint("m", i%3), fmt.Sprint("text ", i))}}))
			}
			vandalise(t, path, c.do...)
			report := must.Get(l.Chains.Verify(t.Context(), "acme", ledger.VerifyOptions{Texts: true}))(t)
			if c.want == "" && len(report.Faults) == 0 {
				return
			}
			expect.Equal(t, slices.ContainsFunc(report.Faults, func(f memproxy.ChainFault) bool { return f.Class == c.want && f.Position == c.at }), true, report.Faults, c.want, c.at)
			for _, f := range report.Faults {
				expect.That(t, !c.only || f.Class == c.want, "also %+v", f)
			}
		})
	}
}

// A record, or the head, with a valid hash and another key's signature is a forgery.
func TestChainForgery(t *testing.T) {
	path := filepath.Join(ring.Dir(t), "ledger.db")
	theirs := open(t, ledger.Options{Path: path, Vault: ledgertest.Vault(t)})
	must.Do(t, theirs.Commit(t.Context(), memproxy.Entry{Versions: []memproxy.Version{ledgertest.Version("m", "text")}}))
	must.Do(t, theirs.Close())
	vandalise(t, path, `DELETE FROM record`) // otherwise the ledger of another key is not opened
	l := open(t, ledger.Options{Path: path, Vault: ledgertest.Vault(t)})
	report, err := l.Chains.Verify(t.Context(), "acme", ledger.VerifyOptions{})
	expect.That(t, err == nil && len(report.Faults) == 2 && report.Faults[0].Class == memproxy.FaultForge && report.Faults[1].Class == memproxy.FaultForge, "%+v, %v", report.Faults, err)
}

// Records appended to a broken chain are intact, and the chain stays broken.
func TestBrokenChainIsNotRepaired(t *testing.T) {
	l, path := onFile(t)
	add := func(text string) {
		must.Do(t, l.Commit(t.Context(), memproxy.Entry{Versions: []memproxy.Version{ledgertest.Version("m", text)}}))
	}
	add("one")
	add("two")
	vandalise(t, path, `DELETE FROM version WHERE place = 2`, `UPDATE chain SET place = 1, link = (SELECT link FROM version WHERE place = 1)`)
	for i := range 3 {
		add(fmt.Sprint("after ", i))
	}
	report, err := l.Chains.Verify(t.Context(), "acme", ledger.VerifyOptions{})
	expect.That(t, err == nil && len(report.Faults) == 1 && report.Faults[0].Class == memproxy.FaultForge, "%+v, %v; want the head not signed", report.Faults, err)
}

// A rollback of the whole ledger, head included, is detected by an anchor.
func TestAnchorsDetectRollback(t *testing.T) {
	path := filepath.Join(ring.Dir(t), "ledger.db")
	vault := ledgertest.Vault(t)
	l := open(t, ledger.Options{Path: path, Vault: vault})
	add := func(text string) memproxy.ChainHead {
		must.Do(t, l.Commit(t.Context(), memproxy.Entry{Versions: []memproxy.Version{ledgertest.Version("m", text)}}))
		heads := must.Get(l.Chains.Heads(t.Context()))(t)
		return heads[0]
	}
	verify := func(anchor memproxy.ChainHead) (classes []memproxy.FaultClass) {
		report := must.Get(l.Chains.Verify(t.Context(), "acme", ledger.VerifyOptions{Anchor: &anchor}))(t)
		for _, f := range report.Faults {
			classes = append(classes, f.Class)
		}
		return classes
	}
	add("one")
	vandalise(t, path, `CREATE TABLE saved AS SELECT * FROM chain`)
	anchor := add("two")
	expect.Len(t, verify(anchor), 0, "nothing was done")
	vandalise(t, path, `DELETE FROM version WHERE place = 2`, `DELETE FROM chain`, `INSERT INTO chain SELECT * FROM saved`)
	expect.List(t, verify(anchor), []memproxy.FaultClass{memproxy.FaultTruncate}, "put back")
	add("two, in other words")
	expect.List(t, verify(anchor), []memproxy.FaultClass{memproxy.FaultForge}, "put back and written on")
}

// An edit does not accept a break of a chain, and what it removes or puts back of the list of
// breaks makes them be reported again.
//
// Proves EDGE-4.
func TestEditedBreachesDoNotCount(t *testing.T) {
	l, path := onFile(t)
	for i := range 3 {
		must.Do(t, l.Commit(t.Context(), memproxy.Entry{Versions: []memproxy.Version{ledgertest.Version(fmt.Sprint("m", i), "text")}}))
	}
	verify := func(want int, about string) []memproxy.ChainFault {
		t.Helper()
		report := must.Get(l.Chains.Verify(t.Context(), "acme", ledger.VerifyOptions{}))(t)
		expect.Equal(t, report.Open(), want, about, report.Faults)
		return report.Faults
	}
	accept := func() {
		t.Helper()
		_, _, err := l.Chains.Accept(t.Context(), "acme", verify(1, "before it is accepted"))
		must.Do(t, err)
		verify(0, "accepted by a person")
	}
	vandalise(t, path, `UPDATE version SET actor = 'agent:low' WHERE id = 'm2'`)
	accept()
	vandalise(t, path, `CREATE TABLE saved AS SELECT * FROM content WHERE ref LIKE 'breaches/%'`)
	for _, edit := range []string{`DELETE FROM content WHERE ref LIKE 'breaches/%'`, `UPDATE content SET envelope = x'00' WHERE ref LIKE 'breaches/%'`} {
		vandalise(t, path, edit)
		f := verify(1, edit)[0]
		for _, fresh := range []bool{true, false} {
			expect.Equal(t, must.Get(l.Chains.NoteBreach(t.Context(), f))(t), fresh, "noted after", edit)
		}
		must.Do(t, l.Commit(t.Context(), memproxy.Entry{Versions: []memproxy.Version{ledgertest.Version("later", edit)}}))
		expect.Equal(t, must.Get(l.Lookup(t.Context(), key("later")))(t).Of(key("later")).Status.Unverified, memproxy.IntegrityChain, "written behind the break")
		accept()
	}
	expect.List(t, edits(t, l), []string{"breach "}, "told of")
	// The ledger is restored, which a person accepts, and then written on. The list from before
	// accepts nothing of what was written since.
	vandalise(t, path, `DELETE FROM version WHERE place > 1`, `UPDATE chain SET place = 1, link = (SELECT link FROM version)`)
	accept()
	for i := range 3 {
		must.Do(t, l.Commit(t.Context(), memproxy.Entry{Versions: []memproxy.Version{ledgertest.Version(fmt.Sprint("n", i), "text")}}))
	}
	vandalise(t, path, `UPDATE version SET actor = 'agent:low' WHERE place = 3`, `DELETE FROM content WHERE ref LIKE 'breaches/%'`, `INSERT INTO content SELECT * FROM saved`)
	verify(1, "an earlier list was put back")
}
