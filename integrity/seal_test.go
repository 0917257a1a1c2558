package integrity_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/gate/backend"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/ledger"
	"github.com/memproxy/memproxy/ledger/ledgertest"
	"github.com/memproxy/memproxy/review"
	"github.com/memproxy/memproxy/screen/hunt"
)

// textReader is a backend of one page, whose items are their own text without spaces around it. It calls before, once,
// before it reads the first.
type textReader struct {
	backend.Locator
	items  []hunt.Item
	before func()
}

func (r *textReader) ReadLocated(_ memproxy.Route, id string, reply memproxy.Reply) (memproxy.Memory, error) {
	if before := r.before; before != nil {
		r.before = nil
		before()
	}
	return memproxy.Memory{ID: id, Text: strings.TrimSpace(string(reply.Body))}, nil
}

func (r *textReader) Page(context.Context, string) ([]hunt.Item, string, error) {
	return r.items, "", nil
}

// seal seals a store on a replica of its own.
func seal(t *testing.T, l *ledger.Ledger, tenant, decision string, store *textReader) review.SealReport {
	c := newRig(t, nil)
	c.Config.Backends = []config.Backend{{Name: "mem0", Kind: "mem0"}}
	c.Ledger = l
	c.NewID = func() string { return decision }
	c.Open = func(context.Context, config.Backend, []memproxy.Scope) (backend.Locator, hunt.Pager, error) {
		return store, store, nil
	}
	return must.Get(c.Seal(t.Context(), review.SealRequest{Backend: "mem0", Tenant: tenant}))(t)
}

// Proves EDGE-4: of two seals at the same time, on two replicas, each memory gets its owner
// and its history from one. A write in between keeps its owner, too.
func TestSealsAtTheSameTime(t *testing.T) {
	ctx := context.Background()
	l := must.Get(ledger.Open(ledger.Options{Path: filepath.Join(ring.Dir(t), "ledger.db"), Vault: ledgertest.Vault(t)}))(t)
	t.Cleanup(func() { _ = l.Close() })
	items := []hunt.Item{{ID: "m1", Raw: "likes tea"}, {ID: "m2", Raw: "has a cat"}, {ID: "m3", Raw: "is new"}}
	var second review.SealReport
	first := seal(t, l, "acme", "seal-acme", &textReader{items: items, before: func() {
		second = seal(t, l, "globex", "seal-globex", &textReader{items: items[:1]})
		must.Do(t, l.Commit(ctx, memproxy.Entry{Owners: []memproxy.Ownership{{
			Backend: "mem0", Kind: memproxy.TargetMemory, ID: "m2", Scope: memproxy.Scope{Tenant: "globex"}, Actor: "agent:dev", Decision: "write",
		}}}))
	}})
	if first.Sealed != 1 || first.Known != 2 || second.Sealed != 1 || second.Known != 0 {
		t.Errorf("%+v, in between %+v", first, second)
	}
	rows := must.Get(ledger.ByID(ctx, l, "mem0", memproxy.TargetMemory, "m1", "m2", "m3"))(t)
	for id, want := range map[string][2]string{"m1": {"globex", "seal-globex"}, "m2": {"globex", "write"}, "m3": {"acme", "seal-acme"}} {
		row := rows[id].Owner
		expect.Equal(t, row.Scope.Tenant, want[0], "the owner of", id, row)
		expect.Equal(t, row.Decision, want[1], "the owner of", id, row)
		history := must.Get(l.History(ctx, row.Key(), 0, 0))(t)
		if sealed := id != "m2"; len(history) == 1 != sealed || sealed && (history[0].Tenant != row.Scope.Tenant || history[0].Decision != row.Decision) {
			t.Errorf("the history of %s: %+v", id, history)
		}
	}
}

// Proves EDGE-4: a repeated seal begins the histories that one which was stopped did not
// begin: of its own tenant, of texts that are as they were, empty ones too, and of no memory with an author.
func TestSealsResume(t *testing.T) {
	ctx := context.Background()
	l := must.Get(ledger.Open(ledger.Options{Path: filepath.Join(ring.Dir(t), "ledger.db"), Vault: ledgertest.Vault(t)}))(t)
	t.Cleanup(func() { _ = l.Close() })
	items := []hunt.Item{{ID: "own", Raw: "likes tea"}, {ID: "changed", Raw: "has two cats"}, {ID: "theirs", Raw: "sails"}, {ID: "written", Raw: "swims"}, {ID: "empty", Raw: " "}}
	for i, was := range []string{"likes tea", "has a cat", "sails", "swims", ""} {
		row := memproxy.Ownership{
			Backend: "mem0", Kind: memproxy.TargetMemory, ID: items[i].ID, Scope: memproxy.Scope{Tenant: "acme"}, Trust: memproxy.TrustAnonymous,
			Source: memproxy.SourceUnstated, Decision: "first", SHA256: memproxy.Hash(was), Written: time.Unix(1e9, 0),
		}
		switch row.ID {
		case "theirs":
			row.Scope.Tenant = "globex"
		case "written":
			row.Actor = "agent:dev"
		}
		must.Get(l.Bind(ctx, row))(t)
	}
	for range 2 {
		if again := seal(t, l, "acme", "second", &textReader{items: items}); again.Known != 5 || again.Sealed != 0 {
			t.Errorf("%+v", again)
		}
	}
	for i, want := range []int{1, 0, 0, 0, 1} {
		history := must.Get(l.History(ctx, memproxy.MemoryKey{Backend: "mem0", Kind: memproxy.TargetMemory, ID: items[i].ID}, 0, 0))(t)
		if len(history) != want || want == 1 && (history[0].Op != memproxy.OpSeal || history[0].Tenant != "acme" || history[0].Decision != "second") {
			t.Errorf("the history of %s: %+v", items[i].ID, history)
		}
	}
}
