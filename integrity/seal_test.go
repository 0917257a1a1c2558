package integrity

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/ledger"
	"github.com/memproxy/memproxy/ledger/ledgertest"
	"github.com/memproxy/memproxy/review"
	"github.com/memproxy/memproxy/screen/hunt"
)

// textReader reads items that are their own text. It calls before, once, before the first.
type textReader struct {
	gate.Locator
	before func()
}

func (r *textReader) ReadLocated(_ memproxy.Route, id string, reply memproxy.Reply) (memproxy.Memory, error) {
	if before := r.before; before != nil {
		r.before = nil
		before()
	}
	return memproxy.Memory{ID: id, Text: string(reply.Body)}, nil
}

// Proves EDGE-4: of two seals at the same time, on two replicas, each memory gets its owner
// and its history from one. A write in between keeps its owner, too.
func TestSealsAtTheSameTime(t *testing.T) {
	ctx := context.Background()
	l := must.Get(ledger.Open(ledger.Options{Path: filepath.Join(ring.Dir(t), "ledger.db"), Vault: ledgertest.Vault(t)}))(t)
	t.Cleanup(func() { _ = l.Close() })
	items := []hunt.Item{{ID: "m1", Raw: "likes tea"}, {ID: "m2", Raw: "has a cat"}, {ID: "m3", Raw: "is new"}}
	seal := func(tenant string, of []hunt.Item, before func()) review.SealReport {
		report := review.SealReport{}
		s := sealing{
			c:       New(Options{Ledger: l, Clock: func() time.Time { return time.Unix(1e9, 0) }}),
			backend: "mem0", tenant: tenant, decision: "seal-" + tenant, report: &report,
		}
		must.Do(t, s.page(ctx, &textReader{before: before}, of))
		return report
	}
	var second review.SealReport
	first := seal("acme", items, func() {
		second = seal("globex", items[:1], nil)
		must.Do(t, l.Commit(ctx, memproxy.Entry{Owners: []memproxy.Ownership{{
			Backend: "mem0", Kind: memproxy.TargetMemory, ID: "m2", Scope: memproxy.Scope{Tenant: "globex"}, Actor: "agent:dev", Decision: "write",
		}}}))
	})
	if first.Sealed != 1 || first.Known != 2 || second.Sealed != 1 || second.Known != 0 {
		t.Errorf("%+v, in between %+v", first, second)
	}
	rows := must.Get(ledger.ByID(ctx, l, "mem0", memproxy.TargetMemory, "m1", "m2", "m3"))(t)
	for id, want := range map[string][2]string{"m1": {"globex", "seal-globex"}, "m2": {"globex", "write"}, "m3": {"acme", "seal-acme"}} {
		row := rows[id].Owner
		if row.Scope.Tenant != want[0] || row.Decision != want[1] {
			t.Errorf("the owner of %s: %+v", id, row)
		}
		history := must.Get(l.History(ctx, row.Key(), 0, 0))(t)
		if sealed := id != "m2"; len(history) == 1 != sealed || sealed && (history[0].Tenant != row.Scope.Tenant || history[0].Decision != row.Decision) {
			t.Errorf("the history of %s: %+v", id, history)
		}
	}
}

// Proves EDGE-4: a repeated seal begins the histories that one which was stopped did not
// begin: of its own tenant, of texts that are as they were, and of no memory with an author.
func TestSealsResume(t *testing.T) {
	ctx := context.Background()
	l := must.Get(ledger.Open(ledger.Options{Path: filepath.Join(ring.Dir(t), "ledger.db"), Vault: ledgertest.Vault(t)}))(t)
	t.Cleanup(func() { _ = l.Close() })
	seal := func(decision string) *sealing {
		return &sealing{
			c:       New(Options{Ledger: l, Clock: func() time.Time { return time.Unix(1e9, 0) }}),
			backend: "mem0", tenant: "acme", decision: decision, report: &review.SealReport{},
		}
	}
	items := []hunt.Item{{ID: "own", Raw: "likes tea"}, {ID: "changed", Raw: "has two cats"}, {ID: "theirs", Raw: "sails"}, {ID: "written", Raw: "swims"}}
	stopped := seal("first")
	for i, was := range []string{"likes tea", "has a cat", "sails", "swims"} {
		row := stopped.row(&memproxy.Memory{ID: items[i].ID, Text: was})
		switch row.ID {
		case "theirs":
			row.Scope.Tenant = "globex"
		case "written":
			row.Actor = "agent:dev"
		}
		must.Get(l.Bind(ctx, row))(t)
	}
	for range 2 {
		again := seal("second")
		must.Do(t, again.page(ctx, &textReader{}, items))
		if again.report.Known != 4 || again.report.Sealed != 0 {
			t.Errorf("%+v", again.report)
		}
	}
	for i, want := range []int{1, 0, 0, 0} {
		history := must.Get(l.History(ctx, memproxy.MemoryKey{Backend: "mem0", Kind: memproxy.TargetMemory, ID: items[i].ID}, 0, 0))(t)
		if len(history) != want || want == 1 && (history[0].Op != memproxy.OpSeal || history[0].Tenant != "acme" || history[0].Decision != "second") {
			t.Errorf("the history of %s: %+v", items[i].ID, history)
		}
	}
}
