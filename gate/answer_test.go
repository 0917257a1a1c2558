package gate_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/telemetry/signal"
)

// Proves EDGE-3: what others own does not come back from searches and lists.
func TestAnswersAreFiltered(t *testing.T) {
	r := newRig(t, func(r *rig) { r.who.Users = only("ann") })
	r.ledger.rows["foreign"] = owned("foreign", "globex", "dev")
	r.ledger.rows["mine"] = owned("mine", "acme", "dev")
	r.fake.memories = []memproxy.Memory{
		{ID: "mine", Scope: memproxy.Scope{User: "ann"}},
		{ID: "foreign", Scope: memproxy.Scope{User: "ann"}},
		{ID: "bobs", Scope: memproxy.Scope{User: "bob"}},
		{ID: "anns", Scope: memproxy.Scope{User: "ann"}},
		{ID: "nobodys"},
		{ID: "ceos", Scope: memproxy.Scope{User: "ann", Agent: "ceo"}},
	}
	a := r.admit(memproxy.Operation{Kind: memproxy.Recall})
	expect.Equal(t, string(r.gate.Return(context.Background(), a, memproxy.Reply{Status: 200, Body: []byte("everything")}).Body), "mine,anns")
	out := r.recorder.events[1]
	expect.That(t, out.Type == memproxy.EventOutcome && out.Filtered == 4 && fmt.Sprint(out.Memories) == "[mine anns]", "outcome %+v: want 4 filtered and the ids that were shown", out)
	list := a.Attributes(nil)
	expect.That(t, slices.Contains(list, attribute.Int(signal.AttrFiltered, 4)), "attributes of the request's span: %v", list)
}

func TestUnreadableAnswersAreWithheld(t *testing.T) {
	r := newRig(t, func(r *rig) { r.fake.readErr = errBroken })
	a := r.admit(memproxy.Operation{Kind: memproxy.Recall})
	got := r.gate.Return(context.Background(), a, memproxy.Reply{Status: 200, Body: []byte("???")})
	expect.Equal(t, got.Status, 502)
	expect.Equal(t, r.recorder.events[len(r.recorder.events)-1].Verdict, memproxy.Deny, "the outcome says")
	expect.Equal(t, a.Shown().Verdict, memproxy.Deny, "the outcome says")
	expect.Equal(t, a.Decision.Verdict, memproxy.Allow, "the outcome says")
	a = r.admit(memproxy.Operation{Kind: memproxy.Recall})
	got = r.gate.Return(context.Background(), a, memproxy.Reply{Status: 400, Body: []byte("bad uuid")})
	expect.Equal(t, got.Status, 400, "a refusal of the backend came back as")
	expect.Equal(t, string(got.Body), "bad uuid", "a refusal of the backend came back as")
}

// Proves TRL-6, TRL-8 (learn, forget): totals follow what exists.
func TestLedgerAndTotalsFollowWrites(t *testing.T) {
	ctx := context.Background()
	r := newRig(t, nil)
	r.fake.memories = []memproxy.Memory{{ID: "m1", Text: "likes tea", Event: "ADD"}}
	r.fake.events = []string{"e1"}
	op := learn("likes tea")
	op.Scope = memproxy.Scope{User: "ann", Agent: "dev"}
	a := r.admit(op)
	r.gate.Return(ctx, a, memproxy.Reply{Status: 200})
	row := r.ledger.rows["m1"]
	expect.That(t, row.Actor == "agent:dev" && row.Scope.Tenant == "acme" && row.Scope.User == "ann" && row.Decision == a.Decision.ID && row.SHA256 != "", "ledger row %+v", row)
	expect.Equal(t, r.ledger.rows["e1"].Kind, memproxy.TargetEvent, "the receipt's owner was not remembered", r.ledger.rows["e1"])
	must.Equal(t, r.budget.used, 1)

	a = r.admit(byID(memproxy.Forget, "m1"))
	r.gate.Return(ctx, a, memproxy.Reply{Status: 200})
	expect.That(t, r.budget.used == 0 && r.ledger.rows["m1"].Deleted, "after the deletion %d are charged, row %+v", r.budget.used, r.ledger.rows["m1"])
	for _, l := range r.budget.released[0].Lines {
		expect.Equal(t, l.Window, memproxy.WindowTotal, "a deletion gave back")
	}

	a = r.admit(byID(memproxy.Forget, "m1"))
	r.gate.Return(ctx, a, memproxy.Reply{Status: 200})
	expect.Equal(t, r.budget.used, 0, "deleting twice paid twice")
}

// Proves EDGE-3, TRL-6: what a deletion takes something out of stays its owner's, and
// in their totals.
func TestWhatADeletionLeavesStays(t *testing.T) {
	ctx := context.Background()
	r := newRig(t, nil)
	for _, id := range []string{"box", "m1"} {
		r.fake.memories = []memproxy.Memory{{ID: id, Text: id, Event: "ADD"}}
		r.gate.Return(ctx, r.admit(learn(id)), memproxy.Reply{Status: 200})
	}
	op := byID(memproxy.Forget, "box", "m1")
	op.Kept = []string{"box"}
	r.gate.Return(ctx, r.admit(op), memproxy.Reply{Status: 204})
	expect.That(t, !r.ledger.rows["box"].Deleted && r.ledger.rows["m1"].Deleted && r.budget.used == 1, "%+v, %d charged", r.ledger.rows, r.budget.used)
}

// What was deleted or replaced does not stay in an adapter's cache; what the backend
// refused to delete may. Shadow mode deletes as well.
func TestDeletedMemoriesLeaveTheCache(t *testing.T) {
	for name, tc := range map[string]struct {
		op     memproxy.Operation
		shadow bool
		status int
		want   []string
	}{
		"deleted":        {byID(memproxy.Forget, "m1"), false, 200, []string{"m1"}},
		"in shadow mode": {byID(memproxy.Forget, "m1"), true, 200, []string{"m1"}},
		"not there":      {byID(memproxy.Forget, "m1"), false, 404, []string{"m1"}},
		"replaced":       {correct("coffee", "m1"), false, 200, []string{"m1"}},
		"refused":        {byID(memproxy.Forget, "m1"), false, 403, nil},
		"failed":         {byID(memproxy.Forget, "m1"), false, 500, []string{"m1"}},
		"no answer":      {byID(memproxy.Forget, "m1"), false, 0, []string{"m1"}},
		"torn, shadowed": {byID(memproxy.Forget, "m1"), true, 0, []string{"m1"}},
		"all of a user":  {memproxy.Operation{Kind: memproxy.Forget, DeletesScope: true, Scope: memproxy.Scope{User: "ann"}}, false, 200, []string{"all"}},
		"a reset":        {memproxy.Operation{Kind: memproxy.Admin}, false, 200, []string{"all"}},
		"read":           {byID(memproxy.Recall, "m1"), false, 200, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(r *rig) { r.rules.Enforce = !tc.shadow })
			r.ledger.rows["m1"] = memproxy.Ownership{Backend: "mem", Kind: memproxy.TargetMemory, ID: "m1", Scope: memproxy.Scope{Tenant: "acme", User: "ann"}, Actor: "agent:dev"}
			if a := r.admit(tc.op); tc.status == 0 {
				r.gate.Abandon(t.Context(), a, memproxy.StreamTorn)
			} else {
				r.gate.Return(t.Context(), a, memproxy.Reply{Status: tc.status, Body: []byte("{}")})
			}
			expect.List(t, r.fake.gone, tc.want, "removed")
		})
	}
}

// Proves TRL-8: budget_warning, budget_exceeded.
func TestBudgetEvents(t *testing.T) {
	r := newRig(t, nil)
	for range 10 {
		wantCodes(t, r.admit(learn("x")).Decision, memproxy.Allow)
	}
	a := r.admit(learn("x"))
	wantCodes(t, a.Decision, memproxy.Deny, memproxy.BudgetHour)
	expect.That(t, a.Decision.Status == 429 && a.Decision.Allowance != nil, "status %d, allowance %v", a.Decision.Status, a.Decision.Allowance)
	count := map[memproxy.EventType]int{}
	for _, et := range r.recorder.types() {
		count[et]++
	}
	expect.Equal(t, count[memproxy.EventBudgetWarning], 2, "events", count)
	expect.Equal(t, count[memproxy.EventBudgetExceeded], 1, "events", count)
}

// A memory that came to be after its write was answered is bound to its
// author when it is first read.
func TestStampBindsWhatCameLater(t *testing.T) {
	r := newRig(t, nil)
	r.fake.memories = []memproxy.Memory{
		{ID: "late", Text: "t", Scope: memproxy.Scope{User: "ann"}, Stamp: &memproxy.Stamp{ID: "d9", Actor: "agent:x", Signature: "signed for acme"}},
		{ID: "forged", Text: "t", Scope: memproxy.Scope{User: "ann"}, Stamp: &memproxy.Stamp{ID: "d9", Actor: "agent:x", Signature: "signed by me"}},
	}
	a := r.admit(memproxy.Operation{Kind: memproxy.Recall})
	r.gate.Return(context.Background(), a, memproxy.Reply{Status: 200})
	if row := r.ledger.rows["late"]; row.Actor != "agent:x" || row.Scope.Tenant != "acme" {
		t.Errorf("row %+v, want the stamp's author", row)
	}
	if row, bound := r.ledger.rows["forged"]; bound {
		t.Errorf("a forged stamp made a row: %+v", row)
	}
}

// A caller that disconnects first is no fault of the backend's.
func TestOutcomeIsNotedWhenTheBackendIsGone(t *testing.T) {
	for end, why := range map[memproxy.StreamEnd]int{memproxy.StreamWhole: 1, memproxy.StreamReset: 1, memproxy.StreamGone: 0} {
		r := newRig(t, nil)
		a := r.admit(learn("x"))
		expect.Equal(t, r.gate.Abandon(context.Background(), a, end).Status, 502)
		out := r.recorder.events[1]
		expect.That(t, out.Type == memproxy.EventOutcome && out.Ended == end && out.Cancelled == end.Cancelled() && out.Status == 0 && len(out.Reasons) == why, "outcome %+v", out)
		expect.Equal(t, r.budget.used, 1)
	}
}

func TestExplainHasNoEffect(t *testing.T) {
	r := newRig(t, nil)
	r.fake.op = learn("x")
	r.fake.op.Claims = []memproxy.Claim{claim(memproxy.DimAgent, memproxy.ClaimIs, "ceo")}
	ex := r.gate.Explain(context.Background(), r.call(r.fake.op))
	wantCodes(t, ex.Decision, memproxy.Deny, memproxy.IdentityActsAs)
	expect.Equal(t, r.budget.used, 0)
	expect.Len(t, r.recorder.events, 0)
	ruled := false
	for _, s := range ex.Steps {
		ruled = ruled || s.Step == "gate.rule" && s.Verdict == memproxy.Allow
	}
	expect.That(t, ruled, "the policy's own answer should be readable after a refusal: %+v", ex.Steps)
}

// placed are the elements of a list, or the one object that an answer is.
func placed(memories []memproxy.Memory) []memproxy.Memory {
	out := slices.Clone(memories)
	for i := range out {
		if len(out) > 1 && out[i].Pointer == "" {
			out[i].Pointer = fmt.Sprintf("/%d", i)
		}
	}
	return out
}

// pruner is a fake whose answers are claimed but for the word canary.
type pruner struct{ *fakeAdapter }

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
					r.adapter = pruner{r.fake}
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
	r := newRig(t, func(r *rig) { r.adapter = pruner{r.fake} })
	a := r.admit(memproxy.Operation{Kind: memproxy.Correct})
	expect.Equal(t, r.gate.Return(ctx, a, memproxy.Reply{Status: 200, Body: []byte("another shape")}).Status, 502, "an answer of another shape")
	r = newRig(t, func(r *rig) { r.rules.Enforce = false; r.adapter = pruner{r.fake} })
	a = r.admit(memproxy.Operation{Kind: memproxy.Correct})
	expect.Equal(t, string(r.gate.Return(ctx, a, memproxy.Reply{Status: 200, Body: []byte("canary")}).Body), "canary", "shadow mode changes an answer")
}

// Proves EDGE-3, EDGE-13: what a write's answer tells of memories of others, and
// of texts that nobody can say whose they were, is left out; one's own stays.
func TestAnswersOfWritesAreFiltered(t *testing.T) {
	r := newRig(t, func(r *rig) { r.rules.OneTenant = false })
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
		m := r.fake.rd.Memories[i]
		expect.That(t, m.Drop == want.hidden && m.OmitBefore == want.bare, "%s: hidden %v, bare %v", m.ID, m.Drop, m.OmitBefore)
	}
}

// Proves DOL-5, TRL-9: what is made of many memories is refused for one that is
// to come of a write and waits for review, as long as it may come; what was
// planned for a write and did come, or cannot any more, keeps nobody from it.
func TestDerivedTextsWaitForPendingMemories(t *testing.T) {
	for name, tc := range map[string]struct {
		st      memproxy.Status
		refused bool
	}{
		"may come":     {memproxy.Status{State: memproxy.StatePending, Changed: noon.Add(-9 * time.Minute)}, true},
		"never came":   {memproxy.Status{State: memproxy.StatePending, Changed: noon.Add(-11 * time.Minute)}, false},
		"came":         {memproxy.Status{State: memproxy.StateUntrusted, Changed: noon}, false},
		"is set aside": {memproxy.Status{State: memproxy.StateQuarantined, Changed: noon.Add(-time.Hour)}, true},
	} {
		r, l := anyAgent(t, func(r *rig) { r.rules.WithholdUntrusted = true })
		tc.st.Kind, tc.st.ID = memproxy.TargetDecision, "d0"
		l.statuses["d0"] = tc.st
		a := r.admit(memproxy.Operation{Kind: memproxy.Recall, Derived: true})
		expect.That(t, a.Decision.Verdict.Stops() == tc.refused, "%s: %v", name, a.Decision)
	}
}
