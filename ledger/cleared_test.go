package ledger_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/memproxy/memproxy/ledger"
	"github.com/memproxy/memproxy/ledger/ledgertest"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
)

// Of settled holds outside its scope, a deletion reads the scope and no more, and not in
// the writer, for which other requests would wait.
func TestDeletionsReadScopesOfHolds(t *testing.T) {
	const holds = 2000
	path := filepath.Join(ring.Dir(t), "ledger.db")
	l := open(t, ledger.Options{Path: path})
	scope := string(must.Get(json.Marshal(memproxy.Scope{Tenant: "acme", User: "USER"}))(t))
	findings := must.Get(json.Marshal(make([]memproxy.Finding, 4)))(t)
	must.Get(opened(t, path).Exec(`INSERT INTO hold (id, backend, route, method, path, tenant, principal, trust, session, scope, kind, reasons, findings, score, policy,
			sha256, created, state, reviewer, reviewed, note, similarity, sketch, token, lease, result, aged)
		WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT ?)
		SELECT printf('%06d', i), 'mem0', '', 'POST', '/', 'acme', 'dev', 'authenticated', '', replace(?, 'USER', 'u' || i), 'learn', '[]', ?, 1, '', '', 1, 'done', '', 0, '', '', '', '', 0, '{}', 0
		FROM n`, holds, scope, string(findings)))(t)
	each := testing.AllocsPerRun(2, func() {
		expect.Len(t, must.Get(l.DeleteScope(t.Context(), "mem0", memproxy.Scope{User: "u7"}, new(memproxy.Version)))(t).Holds, 0)
	}) / holds
	expect.Equal(t, each <= 25, true, each, "allocations for each settled hold")
}

// Proves EDGE-14, EDGE-15: a break marks every memory with a version behind it, and every one
// without a version of its text, however many there are, whatever rows somebody put before
// them. It reads them outside of the writer.
func TestBreaksMarkAllThatAreBehindThemOrLostVersions(t *testing.T) {
	path := filepath.Join(ring.Dir(t), "ledger.db")
	l := must.Get(ledger.Open(ledger.Options{Path: path, Vault: ledgertest.Vault(t), Timeout: ring.Limit}))(t)
	defer func() { must.Do(t, l.Close()) }()
	var all memproxy.Entry
	for i := range 10001 {
		all.Owners = append(all.Owners, memproxy.Ownership{Backend: "mem0", Kind: memproxy.TargetMemory, ID: fmt.Sprint("m", i), Scope: memproxy.Scope{Tenant: "acme"}, SHA256: "ab"})
	}
	for i := range 10003 {
		all.Versions = append(all.Versions, memproxy.Version{MemoryKey: key(fmt.Sprint("v", i)), Tenant: "acme", Op: memproxy.OpWrite, Text: "text"})
	}
	must.Do(t, l.Commit(t.Context(), all))
	must.Get(opened(t, path).Exec(`INSERT INTO record (backend, kind, id, tenant, owned, sha256, mac) SELECT 'mem0', 'memory', value || char(0), 'acme', 1, 'ab', ''
		FROM (WITH RECURSIVE n(value) AS (SELECT 1001 UNION ALL SELECT value + 1 FROM n LIMIT 1000) SELECT value FROM n)`))(t) // as many as it reads at once
	must.Get(l.Chains.NoteBreach(t.Context(), memproxy.ChainFault{Class: memproxy.FaultTamper, Tenant: "acme", Position: 3}))(t)
	expect.Equal(t, chainDoubts(t, path, "m"), 10001, "without versions")
	expect.Equal(t, chainDoubts(t, path, "v"), 10001, "behind the break")
}

// chainDoubts counts the records of a file whose ids begin alike and that are marked because
// of a break.
func chainDoubts(t *testing.T, path, prefix string) (n int) {
	t.Helper()
	row := opened(t, path).QueryRow(`SELECT count(*) FROM record WHERE unverified = ? AND id GLOB ? AND instr(id, char(0)) = 0`, string(memproxy.IntegrityChain), prefix+"*")
	must.Do(t, row.Scan(&n))
	return n
}
