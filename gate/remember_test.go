package gate_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// Proves EDGE-3: a backend whose model updates or deletes other memories on an
// add does not thereby make its caller their owner.
func TestAnAddDoesNotChangeOwners(t *testing.T) {
	r := newRig(t, nil)
	bob := memproxy.Scope{Tenant: "acme", User: "bob"}
	for _, id := range []string{"upd", "del"} {
		r.ledger.rows[id] = memproxy.Ownership{Backend: "mem", Kind: memproxy.TargetMemory, ID: id, Scope: bob, Actor: "agent:bob", Trust: memproxy.TrustHuman, Confidence: 900}
	}
	r.budget.used = 5
	r.fake.memories = []memproxy.Memory{
		{ID: "new", Text: "n", Event: "ADD"}, {ID: "upd", Text: "u", Event: "UPDATE"}, {ID: "del", Text: "d", Event: "DELETE"},
		{ID: "stranger", Text: "s", Event: "UPDATE"}, {ID: "same", Text: "s", Event: "NONE"},
	}
	a := r.admit(learn("likes tea"))
	r.gate.Return(context.Background(), a, memproxy.Reply{Status: 200})
	if row := r.ledger.rows["new"]; row.Actor != "agent:dev" {
		t.Errorf("new: %+v, want the caller as its author", row)
	}
	upd := r.ledger.rows["upd"]
	expect.That(t, upd.Actor == "agent:bob" && upd.Scope == bob && upd.Trust == memproxy.TrustHuman, "upd: %+v, want it to stay bob's", upd)
	expect.That(t, upd.SHA256 != "" && upd.Decision == a.Decision.ID && upd.Confidence == r.ledger.rows["new"].Confidence,
		"upd: %+v, want the new text's hash and confidence, and the decision that changed it", upd)
	del := r.ledger.rows["del"]
	expect.That(t, del.Deleted && del.Actor == "agent:bob", "del: %+v, want bob's tombstone", del)
	for _, id := range []string{"stranger", "same"} {
		row, there := r.ledger.rows[id]
		expect.That(t, !there, "%s: %+v, want it to stay unattributed", id, row)
	}
	if r.budget.used != 7 { // one added and two changed are charged, one of bob's is given back
		t.Errorf("%d charged, want 7", r.budget.used)
	}
}

// Proves GOV-7: a memory that bypassed memproxy is recorded as deleted too, so that nothing
// shows what the backend keeps of it. It can be deleted again, and not changed.
func TestDeletionsOfUnknownMemoriesAreRecorded(t *testing.T) {
	r := newRig(t, func(r *rig) { r.rules.OneTenant = true })
	r.fake.located = map[string]memproxy.Memory{"old": {ID: "old", Text: "likes tea", Scope: memproxy.Scope{User: "ann"}}, "none": {ID: "none", Missing: true}}
	for _, id := range []string{"old", "none"} {
		a := r.admit(memproxy.Operation{Kind: memproxy.Forget, Targets: []string{id}, TargetKind: memproxy.TargetMemory})
		r.gate.Return(context.Background(), a, memproxy.Reply{Status: 200})
		a.ReleaseLocks()
	}
	row, there := r.ledger.rows["none"]
	expect.Equal(t, there, false, row)
	row = r.ledger.rows["old"]
	expect.Equal(t, row.Deleted, true)
	expect.Equal(t, row.Actor, "", "its author is unknown")
	expect.Equal(t, row.Scope, memproxy.Scope{Tenant: "acme", User: "ann"})

	for kind, want := range map[memproxy.Kind]int{memproxy.Correct: http.StatusNotFound, memproxy.Forget: 0} { // the backend has it again
		op := memproxy.Operation{Kind: kind, Targets: []string{"old"}, TargetKind: memproxy.TargetMemory}
		a := r.admit(op)
		expect.Equal(t, a.Decision.Status, want, kind)
		a.ReleaseLocks()
	}
}

type sweeping struct {
	*fakeLedger
	scopes []memproxy.Scope
	held   int // the calls that cancel held writes only
	gone   memproxy.ScopeDeletion
	err    error
}

func (s *sweeping) DeleteScope(_ context.Context, _ string, scope memproxy.Scope, v *memproxy.Version) (memproxy.ScopeDeletion, error) {
	if v == nil {
		s.held++
		return memproxy.ScopeDeletion{}, s.err
	}
	s.scopes = append(s.scopes, scope)
	return s.gone, s.err
}

// Proves EDGE-15: held writes that a deletion of all that an owner has ends are on record,
// each as its own tenant's.
func TestHeldWritesThatADeletionEndsAreRecorded(t *testing.T) {
	led := &sweeping{gone: memproxy.ScopeDeletion{Holds: []memproxy.HeldWrite{{ID: "h-1", Tenant: "acme", Backend: "mem0"}, {ID: "h-2", Tenant: "other", Backend: "mem0"}}}}
	r := newRig(t, func(r *rig) { led.fakeLedger = r.ledger; r.sweeper = led })
	a := r.admit(memproxy.Operation{Kind: memproxy.Forget, Bulk: true, DeletesScope: true, Scope: memproxy.Scope{User: "ann"}})
	r.gate.Return(context.Background(), a, memproxy.Reply{Status: 200})
	var got []string
	for _, ev := range r.recorder.events {
		if ev.Type == memproxy.EventReview {
			got = append(got, fmt.Sprint(ev.Decision, " ", ev.Principal.Tenant, " ", ev.Principal.ID, " ", ev.Act.Action, " ", ev.Act.Stage))
			expect.Text(t, ev.Act.Reason, ev.Decision).Has(a.Decision.ID)
		}
	}
	expect.List(t, got, []string{"h-1 acme system:memproxy hold.clear done", "h-2 other system:memproxy hold.clear done"}, "recorded")
}

// Proves TRL-6: totals fall when memories are deleted, in bulk too.
func TestBulkDeletionsLowerTotals(t *testing.T) {
	led := &sweeping{gone: memproxy.ScopeDeletion{Tallies: []memproxy.AuthorCount{{Tenant: "acme", Actor: "agent:a", Memories: 2}, {Tenant: "acme", Actor: "agent:b", Memories: 1}}}}
	r := newRig(t, func(r *rig) { led.fakeLedger = r.ledger; r.sweeper = led })
	r.budget.used = 9
	op := memproxy.Operation{Kind: memproxy.Forget, Bulk: true, DeletesScope: true, Scope: memproxy.Scope{User: "ann", Agent: "dev"},
		Claims: []memproxy.Claim{{Dim: memproxy.DimAgent, Op: memproxy.ClaimIs, Values: []string{"dev"}, Pins: true}}}
	a := r.admit(op)
	wantCodes(t, a.Decision, memproxy.Allow)
	r.gate.Return(context.Background(), a, memproxy.Reply{Status: 200})
	expect.That(t, len(led.scopes) == 1 && led.scopes[0].User == "ann" && r.budget.used == 6, "swept %+v, %d charged; want ann's, and 6", led.scopes, r.budget.used)

	op.DeletesScope = false // narrowed by something that the ledger cannot evaluate
	a = r.admit(op)
	r.gate.Return(context.Background(), a, memproxy.Reply{Status: 200})
	must.Len(t, led.scopes, 1, "a narrowed deletion swept the whole scope")
	expect.Equal(t, r.budget.used, 6, "a narrowed deletion swept the whole scope")

	op.DeletesScope = true
	a = r.admit(op)
	r.gate.Return(context.Background(), a, memproxy.Reply{Status: 500})
	expect.Len(t, led.scopes, 1, "a deletion that failed upstream swept the ledger")
	expect.Equal(t, led.held, 0, "a deletion that failed upstream cancelled held writes")

	a = r.admit(op)
	r.gate.Return(context.Background(), a, memproxy.Reply{Status: 404})
	expect.Len(t, led.scopes, 1, "a deletion of what the backend does not know swept the ledger")
	expect.Equal(t, led.held, 1, "held writes were cancelled")

	r.rules.Enforce = false
	for status, want := range map[int][2]int{200: {2, 1}, 404: {1, 2}, 403: {1, 1}} {
		led.scopes, led.held = led.scopes[:1], 1
		r.gate.RecordUnfiltered(context.Background(), r.admit(op), status, memproxy.StreamWhole)
		expect.Equal(t, [2]int{len(led.scopes), led.held}, want, "in shadow mode, swept and cancelled", status)
	}
}

// Proves EDGE-3, SYN-5: an addition that only brings existing memories along, such as an
// agent made with blocks of others, records nothing about them: neither an author nor a
// version nor a status, and not the hash of a text that was changed out-of-band.
func TestAnAdditionRecordsNothingAboutWhatItOnlyNames(t *testing.T) {
	r, l := anyAgent(t, nil)
	bobs := memproxy.Ownership{Backend: "mem", Kind: memproxy.TargetMemory, ID: "b1", Scope: memproxy.Scope{Tenant: "acme", User: "bob"}, Actor: "agent:bob", Decision: "d0", SHA256: "of the first text"}
	l.rows["b1"] = bobs
	r.fake.located = map[string]memproxy.Memory{"b1": {ID: "b1", Text: "changed in the backend"}, "b2": {ID: "b2", Text: "made in the backend"}}
	r.fake.memories = []memproxy.Memory{{ID: "b1", Text: "changed in the backend"}, {ID: "b2", Text: "made in the backend"}, {ID: "new", Text: "tea"}}
	op := learn("tea")
	op.Targets, op.TargetKind = []string{"b1", "b2"}, memproxy.TargetMemory
	a := r.admit(op)
	wantCodes(t, a.Decision, memproxy.Allow)
	r.gate.Return(context.Background(), a, memproxy.Reply{Status: 200})
	expect.Equal(t, l.rows["b1"], bobs, "the row of bob's block")
	expect.Equal(t, l.rows["b2"], memproxy.Ownership{}, "the row of a block of nobody's")
	expect.Equal(t, l.rows["new"].Actor, "agent:dev", "the author of what it made")
	expect.List(t, l.history, []string{`write new "tea" before false by agent:dev`})
	must.Len(t, l.marks, 1, l.marks)
	expect.Equal(t, r.budget.used, 1, "charged")
}

// Proves TRL-5: a deletion that only some of its targets show keeps only their texts as
// retracted.
func TestWhatIsStillThereIsNotRetracted(t *testing.T) {
	r, l := anyAgent(t, nil)
	r.fake.located = map[string]memproxy.Memory{}
	for _, id := range []string{"m1", "m2"} {
		row := by("agent:dev", memproxy.TrustAuthenticated, 300)
		row.ID = id
		l.rows[id], r.fake.located[id] = row, memproxy.Memory{ID: id, Text: "text of " + id}
	}
	a := r.admit(memproxy.Operation{Kind: memproxy.Forget, TargetKind: memproxy.TargetMemory, Targets: []string{"m1", "m2"}})
	wantCodes(t, a.Decision, memproxy.Allow)
	r.fake.located["m1"] = memproxy.Memory{ID: "m1", Missing: true}
	r.gate.Abandon(context.Background(), a, memproxy.StreamGone)
	must.Len(t, l.retracted, 1, l.retracted)
	expect.Equal(t, l.retracted[0].Text, "text of m1")
}
