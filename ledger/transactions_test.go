// These tests count transactions, which no caller sees, so they are in the slow ring.

//go:build slow && linux

package ledger

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/ledger/keys"
)

// opened returns a new ledger, in memory if it has no path.
func opened(t *testing.T, path string) *Ledger {
	t.Helper()
	vault := must.Get(keys.NewVault(keys.Set{Signing: must.Get(keys.New([]byte("0123456789abcdef0123456789abcdef")))(t)}))(t)
	l := must.Get(Open(Options{Path: path, Vault: vault, Timeout: ring.Limit}))(t)
	t.Cleanup(func() { must.Do(t, l.Close()) })
	return l
}

// commits returns how many transactions a call commits.
func commits(l *Ledger, call func()) uint64 {
	before := l.recent.clock
	call()
	return (l.recent.clock - before) / 2
}

// Acceptance of a broken chain, however large its tenant's part of the ledger is, stays within
// the time of a transaction: it flags and signs a part of the memories in each.
//
// Proves EDGE-15.
func TestAcceptanceTakesSeveralTransactions(t *testing.T) {
	l := opened(t, filepath.Join(ring.Dir(t), "ledger.db"))
	const flagged, edited = 3*200 + 1, 2*200 + 1
	var all memproxy.Entry
	for i := range flagged {
		all.Versions = append(all.Versions, memproxy.Version{MemoryKey: key{Backend: "mem0", Kind: memproxy.TargetMemory, ID: fmt.Sprint("m", i)}, Tenant: "acme", Op: memproxy.OpWrite, Text: "text"})
	}
	for i := range edited {
		all.Owners = append(all.Owners, memproxy.Ownership{Backend: "letta", Kind: memproxy.TargetMemory, ID: fmt.Sprint("r", i), Scope: memproxy.Scope{Tenant: "acme"}})
	}
	must.Do(t, l.Commit(t.Context(), all))
	must.Get(l.Chains.NoteBreach(t.Context(), memproxy.ChainFault{Class: memproxy.FaultTamper, Tenant: "acme", Position: 1}))(t)
	must.Do(t, l.exec(t.Context(), `UPDATE record SET source = 'user' WHERE backend = 'letta'`))
	kept := memproxy.ChainFault{Class: memproxy.FaultText, Tenant: "acme", Position: 1, MemoryKey: all.Versions[0].MemoryKey}
	var n int
	took := commits(l, func() { _, n, _ = l.Chains.Accept(t.Context(), "acme", []memproxy.ChainFault{kept}) })
	expect.That(t, took >= 4+3+1, "%d memories were accepted in %d transactions", n, took)
	expect.Equal(t, n, flagged-1+edited)
	left := must.Get(l.ListStatuses(t.Context(), memproxy.StatusFilter{Unverified: true, Limit: 1000}))(t)
	must.Len(t, left, 1, "flagged")
	expect.Equal(t, left[0].ID, kept.ID, "flagged")
	rows, _, err := l.Backends.VerifyRecords(t.Context(), nil, nil)
	must.Do(t, err)
	expect.Len(t, rows, 0, "edited records")
	report := must.Get(l.Chains.Verify(t.Context(), "acme", VerifyOptions{}))(t)
	expect.Equal(t, report.Open(), 0)
}

// The records of a large tenant are trimmed part by part: one transaction would exceed its time.
//
// Proves EDGE-15.
func TestTrimmingTakesSeveralTransactions(t *testing.T) {
	l := opened(t, "")
	var all memproxy.Entry
	for i := range 2*pruneStep + 7 {
		all.Versions = append(all.Versions, memproxy.Version{MemoryKey: key{Backend: "mem0", Kind: memproxy.TargetMemory, ID: fmt.Sprint("m", i)}, Tenant: "acme", Op: memproxy.OpWrite, Text: "text"})
	}
	must.Do(t, l.Commit(t.Context(), all))
	must.Do(t, l.exec(t.Context(), `UPDATE version SET compacted = 1 WHERE place % 2 = 1`))
	before := l.opt.Clock().Add(time.Hour)
	var n int
	took := commits(l, func() { n = must.Get(l.Chains.Trim(t.Context(), "acme", before))(t) })
	expect.That(t, took >= 3 && n == pruneStep+4, "%d records were trimmed in %d transactions", n, took)
	must.Do(t, l.exec(t.Context(), `UPDATE version SET compacted = 1 WHERE place = 2`))
	expect.Equal(t, must.Get(l.Chains.Trim(t.Context(), "acme", before))(t), 1, "trimmed later")
	report := must.Get(l.Chains.Verify(t.Context(), "acme", VerifyOptions{}))(t)
	expect.Equal(t, report.Open(), 0)
}

// A deletion of everything in a scope reads the memories that were deleted before, however many
// there are, outside of the writer, for which other requests would wait.
func TestDeletionsPassEndedHistories(t *testing.T) {
	l := opened(t, "")
	k := key{Backend: "mem0", Kind: memproxy.TargetMemory, ID: "m"}
	deletion := memproxy.Version{Op: memproxy.OpDelete, Actor: "agent:ann", Decision: "d"}
	deleted := func() uint64 {
		return commits(l, func() { must.Get(l.DeleteScope(t.Context(), k.Backend, memproxy.Scope{User: "ann"}, &deletion))(t) })
	}
	nothing := deleted()
	must.Do(t, l.Commit(t.Context(), memproxy.Entry{
		Owners:   []memproxy.Ownership{{Backend: k.Backend, Kind: k.Kind, ID: k.ID, Scope: memproxy.Scope{Tenant: "acme", User: "ann"}}},
		Versions: []memproxy.Version{{MemoryKey: k, Tenant: "acme", Op: memproxy.OpWrite, Text: "text"}},
	}))
	expect.Equal(t, deleted(), nothing+1, "the transactions of the deletion")
	last := must.Get(l.History(t.Context(), k, 0, 1))(t)
	expect.Equal(t, last[0].Op, memproxy.OpDelete)
	expect.Equal(t, deleted(), nothing, "the transactions of the next")
}

// A group that was committed does not run again if what it removed cannot be overwritten on the
// disk. The caller that asked for the erasure is told, and no other.
//
// Proves EDGE-8, SYN-5.
func TestUnfinishedErasureRunsOnce(t *testing.T) {
	path := filepath.Join(ring.Dir(t), "ledger.db")
	l := opened(t, path)
	file := must.Get(os.Open(path))(t)
	defer file.Close()
	for _, e := range must.Get(os.ReadDir("/proc/self/fd"))(t) { // checkpoints fail from now on
		fd := must.Get(strconv.Atoi(e.Name()))(t)
		if to, _ := os.Readlink("/proc/self/fd/" + e.Name()); to == path && fd != int(file.Fd()) {
			must.Do(t, syscall.Dup3(int(file.Fd()), fd, syscall.O_CLOEXEC))
		}
	}
	var runs int
	counted := func(erase bool) *job {
		return &job{ctx: t.Context(), erase: erase, durable: erase, done: make(chan error, 1), run: func(t *transaction) {
			runs++
			t.run(`INSERT INTO claim (name, holder, until) VALUES (?, '', 0)`, fmt.Sprint("job ", runs))
		}}
	}
	group := []*job{counted(true), counted(false)}
	commitOrKeep(l.store, group)
	expect.Equal(t, runs, 2)
	expect.That(t, <-group[0].done != nil, "the erasure is not done")
	must.Do(t, <-group[1].done)
}
