package gate_test

import (
	"context"
	"errors"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/budgets"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// counting is an adapter whose backend is asked what a write came to.
type counting struct {
	noRuns
	fakeExtractor
	asks  int
	more  int64
	over  bool
	wrong error
}

func (c *counting) Counts(memproxy.Route, memproxy.Request, []string) []memproxy.Request {
	return make([]memproxy.Request, c.asks)
}

func (c *counting) ReadCount(memproxy.Reply) (int64, bool, error) { return c.more, c.over, c.wrong }

// Proves TRL-6: what a backend makes of a document or a file is charged once it
// tells how much that is: less than was estimated, or more; what nobody can tell stays as estimated.
func TestCountsAreSettled(t *testing.T) {
	r, _ := settlingRig(t, 1000)
	x := &counting{asks: 2}
	r.adapter, r.fake = x, &x.fakeAdapter
	write := func() *gate.Admission {
		t.Helper()
		x.memories = []memproxy.Memory{{ID: "file-1", Uncounted: true}}
		a := r.admit(costs(100))
		r.gate.Return(context.Background(), a, memproxy.Reply{Status: 200})
		return a
	}
	tell := func(a *gate.Admission, more int64, over bool, status int) bool {
		x.more, x.over = more, over
		return r.gate.ReadFollowUp(context.Background(), a, memproxy.Reply{Status: status})
	}
	a := write()
	wantCharged(t, r, 100, 100, "estimated")
	must.That(t, len(r.gate.FollowUpRequests(a)) == 2 && !tell(a, 0, false, 200) && !tell(a, 0, false, 503), "it is over before the backend says so")
	wantCharged(t, r, 100, 100, "being worked on")
	tell(a, 2, true, 200)
	wantCharged(t, r, 100, 100, "one of two")
	tell(a, 5, true, 200)
	wantCharged(t, r, 7, 7, "known")
	expect.Len(t, r.gate.FollowUpRequests(a), 0, "it is asked about again")
	x.asks = 1
	tell(write(), 150, true, 200)
	wantCharged(t, r, 157, 157, "more than estimated")
	tell(write(), 0, true, 404)
	wantCharged(t, r, 157, 157, "nothing is left of it")
	x.wrong = errors.New("a server that does not count")
	expect.That(t, tell(write(), 0, false, 200), "it is asked for ever")
	wantCharged(t, r, 257, 257, "nobody can tell")
	x.wrong, x.asks = nil, 0
	write()
	wantCharged(t, r, 357, 357, "nobody can be asked")
}

// Proves TRL-6, MFW-7: a write that was held is charged, once it is approved and
// sent, for what it came to, in its hour and in all; one that is never sent keeps
// the hour that it was charged for, and nothing in all.
func TestHeldWritesAreSettled(t *testing.T) {
	r, h, k := holdRig(t, func(r *rig, _ *fakeHoldReplier, _ *fakeHoldStore) {
		r.shared, r.rules.Lines = must.Get(budgets.NewMemory(""))(t), hourAndTotal(1000)
	})
	var hour, total int64
	h.knows, h.exact = true, true
	for _, tc := range []struct {
		made, status        int
		wantHour, wantTotal int64
	}{{1, 200, 1, 1}, {9, 200, 9, 9}, {0, 200, 0, 0}, {3, 422, 4, 0}} {
		a := r.admit(costs(4))
		wantCharged(t, r, hour+4, total, "held")
		h.memories = added(tc.made)
		sent, err := r.replay(k.approve(a.Decision.ID))
		must.That(t, err == nil && sent.Reply == nil, "%+v, %v", sent, err)
		r.gate.Return(context.Background(), sent, memproxy.Reply{Status: tc.status})
		hour, total = hour+tc.wantHour, total+tc.wantTotal
		wantCharged(t, r, hour, total, "sent")
	}
	r.admit(costs(4)) // nobody approves of it
	wantCharged(t, r, hour+4, total, "never sent")
}

// abridging is an adapter whose answers only name what a write made.
type abridging struct {
	noRuns
	fakeExtractor
	whole *memproxy.Reading
	wrong error
}

func (x *abridging) ObjectRequests(memproxy.Route, memproxy.Request, *memproxy.Operation, *memproxy.Reading) ([]memproxy.Request, bool) {
	return make([]memproxy.Request, 1), true
}

func (x *abridging) ReadObject(memproxy.Reply) (*memproxy.Reading, error) { return x.whole, x.wrong }

// Proves TRL-1, TRL-6, EDGE-3: what is in an object that an answer only names is
// recorded with its agent and charged, except what the request named, which was there
// before; nothing is recorded of what cannot be read.
func TestWhatAnAnswerOnlyNamesIsRecorded(t *testing.T) {
	r, _ := settlingRig(t, 1000)
	x := &abridging{}
	r.adapter, r.fake = x, &x.fakeAdapter
	write := func() {
		x.memories = []memproxy.Memory{{ID: "agent-1", Uncounted: true}}
		x.whole = &memproxy.Reading{
			Memories: []memproxy.Memory{{ID: "block-1", Text: "tea", Scope: memproxy.Scope{Agent: "agent-1"}}, {ID: "block-0", Text: "milk"}},
			Created:  []memproxy.CreatedObject{{ID: "source-1", Agent: "agent-1"}, {ID: "source-0"}},
		}
		op := costs(5)
		op.Refs = []memproxy.Ref{{Kind: memproxy.TargetMemory, ID: "block-0", Loose: true}, {Kind: memproxy.TargetMemory, ID: "source-0", Loose: true}}
		r.gate.Return(context.Background(), r.admit(op), memproxy.Reply{Status: 200})
	}
	x.wrong = errors.New("not an agent")
	write()
	if _, there := r.ledger.rows["block-1"]; there {
		t.Error("recorded unread")
	}
	x.wrong = nil
	write()
	row := r.ledger.rows["block-1"]
	expect.That(t, row.Scope.Agent == "agent-1" && row.Scope.Tenant == r.who.Tenant && row.SHA256 != "", "%+v", row)
	row = r.ledger.rows["source-1"]
	expect.That(t, row.Scope.Agent == "agent-1", "%+v", row)
	for id, want := range map[string]bool{"source-1": true, "block-0": false, "source-0": false} {
		_, there := r.ledger.rows[id]
		expect.That(t, there == want, "%s: recorded %v", id, there)
	}
	wantCharged(t, r, 6, 6, "as estimated, then the block")
}
