package gate_test

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/internal/expect"
)

// pruner is a fake whose answers are claimed but for the word canary.
type pruner struct{ *fakeReader }

func (pruner) Prune(_ memproxy.Route, reply memproxy.Reply) (memproxy.Pruned, error) {
	if string(reply.Body) == "another shape" {
		return memproxy.Pruned{}, errBroken
	}
	n := bytes.Count(reply.Body, []byte("canary"))
	if n == 0 {
		return memproxy.Pruned{Body: reply.Body}, nil
	}
	return memproxy.Pruned{Body: bytes.ReplaceAll(reply.Body, []byte("canary"), nil), Unclaimed: n, Names: []string{"/canary"}}, nil
}

func (pruner) Read(memproxy.Route, memproxy.Request, memproxy.Reply) (*memproxy.Reading, error) {
	return &memproxy.Reading{}, nil
}

func (pruner) Rewrite(_ memproxy.Route, _ memproxy.Request, reply memproxy.Reply, _ *memproxy.Reading) ([]byte, error) {
	return reply.Body, nil
}

func (pruner) Structured(memproxy.Route) bool { return true }

func (p pruner) PruneEvent(rt memproxy.Route, event []byte) memproxy.Pruned {
	out, _ := p.Prune(rt, memproxy.Reply{Body: event})
	return out
}

// Proves EDGE-13, TRL-10: what nobody claims of an answer, whole or streamed,
// of a read, a write, a run or an error, is left out and reported; one setting
// passes it, and reports it all the same.
func TestUnclaimedMembers(t *testing.T) {
	ctx := context.Background()
	for _, setting := range []gate.Unclaimed{"", gate.UnclaimedDrop, gate.UnclaimedPass} {
		for _, kind := range []memproxy.Kind{memproxy.Recall, memproxy.Learn, memproxy.Correct, memproxy.Forget, memproxy.Attach, memproxy.Run, memproxy.Admin} {
			for _, status := range []int{200, 404, 500} {
				r := newRig(t, func(r *rig) {
					r.rules.Unclaimed = setting
					r.adapter = pruner{r.adapter.(*fakeReader)}
				})
				a := r.admit(memproxy.Operation{Kind: kind, Scope: memproxy.Scope{User: "ann"}})
				got := r.gate.Return(ctx, a, memproxy.Reply{Status: status, Body: []byte("a canary b")})
				event := r.gate.Event(ctx, a, []byte("data: canary"))
				passed := setting == gate.UnclaimedPass
				expect.That(t, strings.Contains(string(got.Body), "canary") == passed && strings.Contains(string(event), "canary") == passed && got.Status == status,
					"%q, %s, %d: %d %q, event %q", setting, kind, status, got.Status, got.Body, event)
				out := r.recorder.last()
				found := false
				for _, why := range out.Reasons {
					found = found || why.Code == memproxy.AnswerUnclaimed && !strings.Contains(why.Detail, "canary")
				}
				expect.That(t, found, "%q, %s, %d: the outcome does not tell of it: %v", setting, kind, status, out.Reasons)
			}
		}
	}
	r := newRig(t, func(r *rig) { r.adapter = pruner{r.adapter.(*fakeReader)} })
	a := r.admit(memproxy.Operation{Kind: memproxy.Correct})
	expect.Equal(t, r.gate.Return(ctx, a, memproxy.Reply{Status: 200, Body: []byte("another shape")}).Status, 502, "an answer of another shape")
	r = newRig(t, func(r *rig) { r.rules.Enforce = false; r.adapter = pruner{r.adapter.(*fakeReader)} })
	a = r.admit(memproxy.Operation{Kind: memproxy.Correct})
	expect.Equal(t, string(r.gate.Return(ctx, a, memproxy.Reply{Status: 200, Body: []byte("canary")}).Body), "canary", "shadow mode changes an answer")
}

// Proves EDGE-3, EDGE-13: what a write's answer tells of memories of others, and
// of texts that nobody can say whose they were, is left out; one's own stays.
func TestAnswersOfWritesAreFiltered(t *testing.T) {
	k := &keeping{}
	r := newRig(t, func(r *rig) { r.adapter, r.fake, r.rules.OneTenant = k, &k.fakeAdapter, false })
	r.ledger.rows["theirs"], r.ledger.rows["mine"] = owned("theirs", "globex", "dev"), owned("mine", "acme", "dev")
	r.fake.memories = []memproxy.Memory{
		{Pointer: "/0", ID: "new", Text: "likes tea", Event: "ADD"},
		{Pointer: "/1", ID: "mine", Text: "likes tea", Before: "likes coffee", Event: "UPDATE"},
		{Pointer: "/2", ID: "theirs", Text: "likes gin", Before: "likes rum", Event: "UPDATE"},
		{Pointer: "/3", ID: "nobodys", Text: "likes ale", Before: "likes cider", Event: "UPDATE"},
	}
	op := learn("likes tea")
	op.Scope = memproxy.Scope{User: "ann", Agent: "dev"}
	a := r.admit(op)
	r.gate.Return(context.Background(), a, memproxy.Reply{Status: 200})
	for i, want := range []struct{ hidden, bare bool }{{false, false}, {false, false}, {true, false}, {false, true}} {
		m := k.rd.Memories[i]
		expect.That(t, m.Drop == want.hidden && m.OmitBefore == want.bare, "%s: hidden %v, bare %v", m.ID, m.Drop, m.OmitBefore)
	}
}
