package ledger

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// Of settled holds outside its scope, a deletion reads the scope and no more, and not in
// the writer, for which other requests would wait.
func TestDeletionsReadScopesOfHolds(t *testing.T) {
	const holds = 2000
	l := must.Get(Open(Options{Path: filepath.Join(t.TempDir(), "ledger.db"), Clock: time.Now}))(t)
	defer func() { must.Do(t, l.Close()) }()
	findings := make([]memproxy.Finding, 4)
	must.Get(result(t.Context(), l.store, job{}, func(w *transaction) (none int) {
		for i := range holds {
			w.run(`INSERT INTO hold (id, backend, route, method, path, tenant, principal, trust, session, scope, kind, reasons, findings, score, policy,
				sha256, created, state, reviewer, reviewed, note, similarity, sketch, token, lease, result, aged)
				VALUES (?, 'mem0', '', 'POST', '/', 'acme', 'dev', 'authenticated', '', ?, 'learn', '[]', ?, 1, '', '', 1, 'done', '', 0, '', '', '', '', 0, '{}', 0)`,
				fmt.Sprintf("%06d", i), asJSON(memproxy.Scope{Tenant: "acme", User: fmt.Sprint("u", i)}), asJSON(findings))
		}
		return none
	}))(t)
	each := testing.AllocsPerRun(2, func() {
		ended := must.Get(clearHolds(t.Context(), l.store, "mem0", memproxy.Scope{User: "u7"}))(t)
		expect.Equal(t, len(ended), 0)
	}) / holds
	if each > 25 {
		t.Errorf("%.0f allocations for each settled hold", each)
	}
}

// Proves EDGE-14, EDGE-15: a break marks every memory without a version of its text, however
// many there are, whatever rows somebody put before them. It reads them outside of the writer.
func TestBreaksMarkAllThatLostVersions(t *testing.T) {
	l := must.Get(Open(Options{Path: filepath.Join(t.TempDir(), "ledger.db"), Clock: time.Now, Vault: testVault(t)}))(t)
	defer func() { must.Do(t, l.Close()) }()
	var all memproxy.Entry
	for i := range 10001 {
		all.Owners = append(all.Owners, memproxy.Ownership{Backend: "mem0", Kind: memproxy.TargetMemory, ID: fmt.Sprint("m", i), Scope: memproxy.Scope{Tenant: "acme"}, SHA256: "ab"})
	}
	must.Do(t, l.Commit(t.Context(), all))
	must.Get(l.writer.Exec(`INSERT INTO record (backend, kind, id, tenant, owned, sha256, mac) SELECT 'mem0', 'memory', value || char(0), 'acme', 1, 'ab', ''
		FROM (WITH RECURSIVE n(value) AS (SELECT 1001 UNION ALL SELECT value + 1 FROM n LIMIT ?) SELECT value FROM n)`, verifyStep))(t)
	must.Get(l.Chains.NoteBreach(t.Context(), memproxy.ChainFault{Class: memproxy.FaultTamper, Tenant: "acme", Position: 1}))(t)
	marked := must.Get(queryRows(t.Context(), l.store, "count", scanOne[int], `SELECT count(*) FROM record WHERE unverified = ? AND instr(id, char(0)) = 0`, string(memproxy.IntegrityChain)))(t)
	expect.List(t, marked, []int{10001})
}

// Proves EDGE-14, EDGE-15: a break marks every memory with a version behind it, however many
// there are.
func TestBreaksMarkAllBehindThem(t *testing.T) {
	l := must.Get(Open(Options{Path: filepath.Join(t.TempDir(), "ledger.db"), Clock: time.Now, Vault: testVault(t)}))(t)
	defer func() { must.Do(t, l.Close()) }()
	var all memproxy.Entry
	for i := range 10003 {
		all.Versions = append(all.Versions, memproxy.Version{
			MemoryKey: memproxy.MemoryKey{Backend: "mem0", Kind: memproxy.TargetMemory, ID: fmt.Sprint("m", i)}, Tenant: "acme", Op: memproxy.OpWrite, Text: "text",
		})
	}
	must.Do(t, l.Commit(t.Context(), all))
	must.Get(l.Chains.NoteBreach(t.Context(), memproxy.ChainFault{Class: memproxy.FaultTamper, Tenant: "acme", Position: 3}))(t)
	marked := must.Get(queryRows(t.Context(), l.store, "count", scanOne[int], `SELECT count(*) FROM record WHERE unverified = ?`, string(memproxy.IntegrityChain)))(t)
	expect.List(t, marked, []int{10001})
}
