package gate_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/gate/access"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// Proves EDGE-3: whatever write is sent has a row for each name that it claims,
// also one that would only have been refused, one of an owner that is there
// already, and a running agent's.
func TestWhateverIsSentBindsItsNames(t *testing.T) {
	refused := says(memproxy.Deny, memproxy.PolicyForbid)
	write := learn("x")
	write.Claims = []memproxy.Claim{pinned(memproxy.DimUser, "ann"), pinned(memproxy.DimAgent, "agent-1")}
	there := write
	there.Refs = []memproxy.Ref{{Kind: memproxy.TargetMemory, ID: "agent-1", Pointer: "/x"}}
	for name, tc := range map[string]struct {
		change func(*rig)
		op     memproxy.Operation
	}{
		"a write":                       {nil, write},
		"of a caller limited to it":     {func(r *rig) { r.who.Users, r.who.ActsAs = only("ann"), only("agent-1") }, write},
		"in shadow mode":                {func(r *rig) { r.rules.Enforce, r.rules.Policy = false, refused }, write},
		"where there is one tenant":     {func(r *rig) { r.rules.OneTenant = true }, write},
		"of an owner that is there":     {func(r *rig) { r.rules.OneTenant, r.rules.Unattributed = true, access.Visible }, there},
		"of a listed one that is there": {func(r *rig) { r.who.ActsAs = only("agent-1") }, there},
	} {
		t.Run(name, func(t *testing.T) {
			r := tenants(t, func(r *rig) {
				r.fake.located = map[string]memproxy.Memory{"agent-1": {Scope: memproxy.Scope{Agent: "agent-1"}}}
				if tc.change != nil {
					tc.change(r)
				}
			})
			a := r.admit(tc.op)
			must.That(t, a.Reply == nil, "%+v", a.Decision)
			for _, id := range []string{"user:ann", "agent:agent-1"} {
				row, bound := r.ledger.rows[id]
				expect.That(t, bound && row.Scope.Tenant == "acme", "%s: bound %v: %+v", id, bound, row)
				made := id == "user:ann" || len(tc.op.Refs) == 0
				expect.That(t, (row.Actor == "agent:dev") == made, "%s: the writer made it: %v, and the row has %q", id, made, row.Actor)
			}
		})
	}
	t.Run("that waits for review", func(t *testing.T) { // what its owner deletes meanwhile includes it
		r := tenants(t, func(r *rig) { r.rules.Policy, r.holds = says(memproxy.Hold, memproxy.PolicyForbid), newHoldStore() })
		wantCodes(t, r.admit(write).Decision, memproxy.Hold, memproxy.PolicyForbid)
		row, bound := r.ledger.rows["user:ann"]
		expect.That(t, bound && row.Scope.Tenant == "acme" && r.budget.used == 1, "bound %v: %+v, %d charged", bound, row, r.budget.used)
	})
	t.Run("in shadow mode, of an owner that is there", func(t *testing.T) {
		r := tenants(t, func(r *rig) {
			r.rules.Enforce = false
			r.fake.located = map[string]memproxy.Memory{"agent-1": {Scope: memproxy.Scope{Agent: "agent-1"}}}
		})
		r.admit(there)
		_, taken := r.ledger.rows["agent:agent-1"]
		expect.That(t, !taken && r.ledger.rows["user:ann"].Scope.Tenant == "acme", "bound: %+v", r.ledger.rows)
	})
	t.Run("of a running agent", func(t *testing.T) {
		r := tenants(t, nil, object("agent-own", "acme", "agent:author"))
		a := r.admit(memproxy.Operation{Kind: memproxy.Run, Refs: []memproxy.Ref{{Kind: memproxy.TargetMemory, ID: "agent-own"}}})
		wantCodes(t, a.Decision, memproxy.Allow)
		wantCodes(t, r.gate.Agents().RuleOnCall(context.Background(), a, memproxy.ToolCall{ID: "c", Tool: "note", Operation: &write}).Decision, memproxy.Allow)
		row, bound := r.ledger.rows["user:ann"]
		expect.That(t, bound && row.Scope.Tenant == "acme", "bound %v: %+v", bound, row)
	})
}

// Proves EDGE-3: a name that is another tenant's by any of its rows is, whatever
// the others say; and a wildcard is no name that anybody comes to have.
func TestOneForeignRecordIsEnough(t *testing.T) {
	op := learn("x")
	op.Claims = []memproxy.Claim{pinned(memproxy.DimAgent, "agent-1")}
	op.Refs = []memproxy.Ref{{Kind: memproxy.TargetMemory, ID: "agent-1", Pointer: "/x"}}
	r := tenants(t, nil, name(memproxy.DimAgent, "agent-1", "acme"), object("agent-1", "globex", "agent:other"))
	if a := r.admit(op); a.Decision.Verdict != memproxy.Deny || a.Decision.Status != 404 {
		t.Errorf("%+v", a.Decision)
	}
	r = tenants(t, nil, name(memproxy.DimUser, "bob", memproxy.TenantInaccessible))
	op = learn("x")
	op.Claims = []memproxy.Claim{pinned(memproxy.DimUser, "bob")}
	wantCodes(t, r.admit(op).Decision, memproxy.Deny, memproxy.OwnerUnknown)
	for _, one := range []bool{true, false} {
		r = tenants(t, func(r *rig) { r.rules.OneTenant, r.rules.Unattributed = one, access.Visible })
		op.Claims = []memproxy.Claim{pinned(memproxy.DimUser, "*")}
		a := r.admit(op)
		expect.That(t, (a.Decision.Verdict == memproxy.Allow) == one && len(r.ledger.rows) == 0, "one tenant %v: %+v, bound %v", one, a.Decision, r.ledger.rows)
	}
}

// Proves EDGE-3, TRL-6: a name whose only write made nothing is nobody's again, and one that
// another operation relied on, or whose write may have arrived, stays its tenant's. The charge
// of such a write is refunded, in shadow mode too.
func TestNamesOfRefusedWritesAreReleased(t *testing.T) {
	write := learn("x")
	write.Claims = []memproxy.Claim{pinned(memproxy.DimUser, "ann")}
	of := func(kind memproxy.Kind, more func(*memproxy.Operation)) *memproxy.Operation {
		op := memproxy.Operation{Kind: kind, Claims: write.Claims}
		more(&op)
		return &op
	}
	answered := func(status int) func(*rig, *gate.Admission) {
		return func(r *rig, a *gate.Admission) {
			r.gate.Return(context.Background(), a, memproxy.Reply{Status: status, Body: []byte("{}")})
		}
	}
	shadow := func(r *rig) { r.rules.Enforce = false }
	for name, tc := range map[string]struct {
		change   func(*rig)
		meantime *memproxy.Operation
		end      func(*rig, *gate.Admission)
		stays    bool
	}{
		"refused by the backend":    {end: answered(400)},
		"in shadow mode":            {change: shadow, end: answered(400)},
		"where there is one tenant": {change: func(r *rig) { r.rules.OneTenant = true }, end: answered(400)},
		"of an answer that was not read": {end: func(r *rig, a *gate.Admission) {
			r.gate.RecordUnfiltered(context.Background(), a, 422, memproxy.StreamWhole)
		}},
		"of one in shadow mode": {change: shadow, end: func(r *rig, a *gate.Admission) {
			r.gate.RecordUnfiltered(context.Background(), a, 422, memproxy.StreamWhole)
		}},
		"of a run that was refused at once": {end: func(r *rig, a *gate.Admission) {
			r.gate.Agents().BeginSend(a)()
			r.gate.RecordUnfiltered(context.Background(), a, 429, memproxy.StreamWhole)
		}},
		"that was not sent": {end: func(r *rig, a *gate.Admission) { r.gate.AbandonUnsent(context.Background(), a, memproxy.StreamWhole) }},
		"that was not sent in shadow mode": {change: shadow, end: func(r *rig, a *gate.Admission) {
			r.gate.AbandonUnsent(context.Background(), a, memproxy.StreamWhole)
		}},
		"that has no record": {change: func(r *rig) { r.recorder.err = errors.New("full") }, end: func(*rig, *gate.Admission) {}},
		"that read the name": {meantime: of(memproxy.Recall, func(*memproxy.Operation) {}), end: answered(400)},

		"admitted":      {end: answered(200), stays: true},
		"with an error": {end: answered(500), stays: true},
		"whose run had begun": {end: func(r *rig, a *gate.Admission) {
			for range 2 {
				r.gate.Agents().BeginSend(a)()
			}
			r.gate.RecordUnfiltered(context.Background(), a, 429, memproxy.StreamWhole)
		}, stays: true},
		"without an answer":          {end: func(r *rig, a *gate.Admission) { r.gate.Abandon(context.Background(), a, memproxy.StreamWhole) }, stays: true},
		"with another write of it":   {meantime: &write, end: answered(400), stays: true},
		"with a summary of it":       {meantime: of(memproxy.Recall, func(op *memproxy.Operation) { op.Derived = true }), end: answered(400), stays: true},
		"with a bulk deletion of it": {meantime: of(memproxy.Forget, func(op *memproxy.Operation) { op.Bulk = true }), end: answered(400), stays: true},
	} {
		t.Run("a write "+name, func(t *testing.T) {
			r := tenants(t, tc.change)
			a := r.admit(write)
			if tc.meantime != nil {
				b := r.admit(*tc.meantime)
				must.That(t, b.Reply == nil, "%+v", b.Decision)
				r.fake.op = write
			}
			tc.end(r, a)
			row, bound := r.ledger.rows["user:ann"]
			expect.That(t, bound == tc.stays && (!bound || row.Scope.Tenant == "acme"), "bound %v: %+v", bound, row)
			if tc.meantime == nil {
				expect.Equal(t, r.budget.used > 0, tc.stays, "charged")
			}
			r.recorder.err = nil
			r.who.Tenant = "globex"
			if b := r.admit(write); (b.Reply != nil) != tc.stays && r.rules.Enforce && !r.rules.OneTenant {
				t.Errorf("another tenant's write: %+v", b.Decision)
			}
		})
	}
}

// Proves EDGE-3: an approved write keeps its names, whatever the backend answers: it may have
// been sent before, with an outcome that stayed unknown.
func TestNamesOfApprovedWritesAreKept(t *testing.T) {
	for _, earlier := range []int{0, 500} {
		r := tenants(t, func(r *rig) { r.rules.Policy, r.holds = says(memproxy.Hold, memproxy.PolicyForbid), newHoldStore() })
		write := learn("x")
		write.Claims = []memproxy.Claim{pinned(memproxy.DimUser, "ann")}
		h := r.admit(write)
		r.fake.knows = true
		held := approved("fake.route")
		held.ID, held.Tenant = h.Decision.ID, "acme"
		for _, status := range []int{earlier, 400} {
			a, err := r.replay(held, memproxy.HoldContent{Body: []byte("body")})
			must.That(t, err == nil && a.Reply == nil, "%+v, %v", a, err)
			if status > 0 {
				r.gate.Return(t.Context(), a, memproxy.Reply{Status: status, Body: []byte("{}")})
			}
		}
		row, bound := r.ledger.rows["user:ann"]
		expect.That(t, bound && row.Scope.Tenant == "acme", "after %d and 400: bound %v: %+v", earlier, bound, row)
	}
}

// Proves EDGE-3, EDGE-13: who may not administer is answered alike whatever an
// administrative request names: one's own, another tenant's, nobody's, in a claim
// or as a reference, also of a kind that no backend can be asked about.
func TestRefusedAdministrationDisclosesNothing(t *testing.T) {
	for _, kind := range []memproxy.TargetKind{memproxy.TargetMemory, memproxy.TargetEvent} {
		bodies := map[string]bool{}
		for _, who := range []string{"own", "theirs", "nobody"} {
			r := tenants(t, func(r *rig) {
				r.rules.Policy = policy(func(q memproxy.Question) (memproxy.Ruling, error) {
					expect.Equal(t, q.Operation.Kind, memproxy.Admin, "asked about", q)
					expect.Equal(t, q.Principal.ID, "agent:dev", "asked about", q)
					return memproxy.Ruling{Verdict: memproxy.Deny, Reasons: []memproxy.Reason{{Code: memproxy.PolicyForbid}}}, nil
				})
				for _, row := range []memproxy.Ownership{{ID: "own", Scope: memproxy.Scope{Tenant: "acme"}}, {ID: "theirs", Scope: memproxy.Scope{Tenant: "globex"}}} {
					row.Kind = kind
					r.ledger.rows[row.ID] = row
				}
			}, name(memproxy.DimUser, "own", "acme"), name(memproxy.DimUser, "theirs", "globex"))
			a := r.admit(memproxy.Operation{Kind: memproxy.Admin, Refs: []memproxy.Ref{{Kind: kind, ID: who, Pointer: "/file_id"}}, Claims: []memproxy.Claim{pinned(memproxy.DimUser, who)}})
			wantCodes(t, a.Decision, memproxy.Deny, memproxy.PolicyForbid)
			bodies[string(a.Reply.Body)] = true
		}
		expect.Len(t, bodies, 1, kind, "told apart")
	}
}

// Proves EDGE-13: notes are recorded and never shown, whatever else refuses the
// request: the refusal of a list under another tenant's name is that under
// nobody's.
func TestNotesNeverReachTheCaller(t *testing.T) {
	var bodies [2]string
	for i, who := range []string{"theirs", "nobody"} {
		r := tenants(t, func(r *rig) {
			r.adapter = &masking{}
			r.rules.Policy = policy(func(memproxy.Question) (memproxy.Ruling, error) {
				return memproxy.Ruling{Verdict: memproxy.Deny, Reasons: []memproxy.Reason{{Code: memproxy.PolicyForbid, Rule: "no-schema"}}}, nil
			})
		}, name(memproxy.DimUser, "theirs", "globex"))
		r.fake = &r.adapter.(*masking).fakeAdapter
		a := r.admit(memproxy.Operation{Kind: memproxy.Recall, Claims: []memproxy.Claim{pinned(memproxy.DimUser, who)}})
		bodies[i] = string(a.Reply.Body)
		note := map[string]memproxy.ReasonCode{"theirs": memproxy.OwnerForeign, "nobody": memproxy.OwnerUnknown}[who]
		expect.That(t, has(a.Decision.Notes, note) && has(r.recorder.events[0].Reasons, note), "%s: %s is not on record: %+v", who, note, r.recorder.events[0].Reasons)
		expect.That(t, !has(a.Decision.Reasons, note) && has(a.Decision.Reasons, memproxy.PolicyForbid), "%s: refused for %+v", who, a.Decision.Reasons)
	}
	expect.Equal(t, bodies[0], bodies[1], "the refusal says whether the name is in use")
}

func has(reasons []memproxy.Reason, code memproxy.ReasonCode) bool {
	return slices.ContainsFunc(reasons, func(why memproxy.Reason) bool { return why.Code == code })
}

// Proves EDGE-3, EDGE-1: what an agent changed or took in, in a run that is ruled
// on when it is over, is held to the caller's tenant too. What came to be in it is
// nobody's yet, and what is let go of may be anybody's.
func TestWhatAnAgentTookInIsHeldToTheTenant(t *testing.T) {
	for _, kind := range []memproxy.Kind{memproxy.Correct, memproxy.Forget} {
		for id, foreign := range map[string]bool{"block-own": false, "block-theirs": true, "block-new": false} {
			r := tenants(t, nil, object("block-own", "acme", "agent:author"), object("block-theirs", "globex", "agent:other"))
			op := memproxy.Operation{
				Kind: kind, Targets: []string{id}, TargetKind: memproxy.TargetMemory, Scope: memproxy.Scope{Agent: "dev"},
				Items: []memproxy.Item{{Kind: memproxy.ItemContent, Text: "likes tea", Target: id}},
			}
			asked := r.gate.Agents().RuleOnCall(context.Background(), r.gate.Agents().AdmissionFor(&gate.Call{Backend: gate.Backend{Name: "mem0", Adapter: r.adapter}}, r.admit(learn("x")).Principal, ""),
				memproxy.ToolCall{ID: "c", Tool: "block.attached", Operation: &op})
			missing := has(asked.Decision.Reasons, memproxy.OwnerUnknown)
			want := foreign && kind == memproxy.Correct
			expect.That(t, missing == want && (!want || asked.Decision.Verdict == memproxy.Deny), "%s %s: %+v", kind, id, asked.Decision)
		}
	}
}
