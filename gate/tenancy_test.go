package gate_test

import (
	"cmp"
	"context"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate/access"
	"github.com/memproxy/memproxy/internal/expect"
)

func name(d memproxy.Dimension, value, tenant string) memproxy.Ownership {
	return memproxy.Ownership{Kind: memproxy.TargetEntity, ID: memproxy.OwnerID(d, value), Scope: memproxy.Scope{Tenant: tenant}, Actor: "agent:author"}
}

func object(id, tenant, actor string) memproxy.Ownership {
	return memproxy.Ownership{Kind: memproxy.TargetMemory, ID: id, Scope: memproxy.Scope{Tenant: tenant}, Actor: actor}
}

// masking is a backend's adapter that can replace names.
type masking struct {
	noModel
	fakeReader
}

func (*masking) Masks(memproxy.Route, *memproxy.Operation) bool { return true }

// tenants is a rig in which several tenants share a backend, and the caller has
// no limit but its tenant.
func tenants(t *testing.T, change func(*rig), rows ...memproxy.Ownership) *rig {
	return newRig(t, func(r *rig) {
		r.rules.OneTenant, r.rules.Unattributed = false, access.Named
		r.who.ActsAs = all()
		for _, row := range rows {
			r.ledger.rows[row.ID] = row
		}
		if change != nil {
			change(r)
		}
	})
}

// Proves EDGE-3, EDGE-13 and TRL-1: whoever is named belongs to the caller's
// tenant, in every dimension and kind of operation; what is unknown is no
// different from what is another's, but for a write, which makes it the tenant's.
func TestNamesAreHeldToTheTenant(t *testing.T) {
	for _, d := range []memproxy.Dimension{memproxy.DimUser, memproxy.DimAgent, memproxy.DimApp, memproxy.DimRun} {
		for _, tc := range []struct {
			name             string
			op               memproxy.Operation
			foreign, unknown memproxy.ReasonCode // "" passes
		}{
			{"add", learn("x"), memproxy.OwnerUnknown, ""},
			{"change", memproxy.Operation{Kind: memproxy.Correct, Cost: 1}, memproxy.OwnerUnknown, ""},
			{"list", memproxy.Operation{Kind: memproxy.Recall}, memproxy.OwnerUnknown, memproxy.OwnerUnknown},
			{"summary", memproxy.Operation{Kind: memproxy.Recall, Derived: true}, memproxy.OwnerUnknown, memproxy.OwnerUnknown},
			{"bulk deletion", memproxy.Operation{Kind: memproxy.Forget, Bulk: true}, memproxy.OwnerUnknown, memproxy.OwnerUnknown},
			{"run", memproxy.Operation{Kind: memproxy.Run}, memproxy.OwnerUnknown, memproxy.OwnerUnknown},
			{"attach", memproxy.Operation{Kind: memproxy.Attach}, memproxy.OwnerUnknown, memproxy.OwnerUnknown},
			{"administration", memproxy.Operation{Kind: memproxy.Admin}, memproxy.OwnerUnknown, memproxy.OwnerUnknown},
		} {
			var refused string // byte for byte the same
			for who, want := range map[string]memproxy.ReasonCode{"own": "", "theirs": tc.foreign, "nobody": tc.unknown} {
				t.Run(string(d)+"/"+tc.name+"/"+who, func(t *testing.T) {
					r := tenants(t, nil, name(d, "own", "acme"), name(d, "theirs", "globex"))
					op := tc.op
					op.Claims = []memproxy.Claim{pinned(d, who)}
					a := r.admit(op)
					if want == "" {
						wantCodes(t, a.Decision, memproxy.Allow)
						return
					}
					wantCodes(t, a.Decision, memproxy.Deny, want)
					expect.Equal(t, a.Decision.Status, 404)
					refused = cmp.Or(refused, string(a.Reply.Body))
					expect.Equal(t, string(a.Reply.Body), refused)
				})
			}
		}
	}
}

func pinned(d memproxy.Dimension, values ...string) memproxy.Claim {
	return memproxy.Claim{Dim: d, Op: memproxy.ClaimIs, Values: values, Pointer: "/x", Pins: true}
}

// Proves EDGE-13: a list that can be filtered is asked for under a name that
// nobody has, so that the backend answers as it does for one.
func TestForeignListsAreRequestedUnderAnUnusedName(t *testing.T) {
	for who, masked := range map[string]bool{"own": false, "theirs": true, "nobody": true} {
		r := tenants(t, func(r *rig) { r.adapter = &masking{} }, name(memproxy.DimUser, "own", "acme"), name(memproxy.DimUser, "theirs", "globex"))
		r.fake = &r.adapter.(*masking).fakeAdapter
		op := memproxy.Operation{Kind: memproxy.Recall, Claims: []memproxy.Claim{pinned(memproxy.DimUser, who)}}
		c := r.call(op)
		r.fake.op = op
		ex := r.gate.Explain(context.Background(), c)
		if got := wantFirst(ex.Decision); len(ex.Decision.Reasons) != 0 || ex.Decision.Verdict != memproxy.Allow || got != map[string]memproxy.ReasonCode{"theirs": memproxy.OwnerForeign, "nobody": memproxy.OwnerUnknown}[who] {
			t.Errorf("%s: %+v", who, ex.Decision)
		}
		as, is := ex.Operation.Masked["user:"+who]
		expect.That(t, is == masked && (!is || as != who), "%s is asked for as %q, %v", who, as, is)
	}
}

// Proves EDGE-3: what is made of many memories is given only where all of them
// are the tenant's.
func TestDerivedTextsBelongToTheTenant(t *testing.T) {
	summary := memproxy.Operation{Kind: memproxy.Recall, Derived: true}
	pins := func(values ...string) memproxy.Operation {
		op := summary
		op.Claims = []memproxy.Claim{pinned(memproxy.DimUser, values...)}
		return op
	}
	for _, tc := range []struct {
		name   string
		op     memproxy.Operation
		change func(*rig)
		serves string
		want   memproxy.ReasonCode
	}{
		{name: "of everybody", op: summary, want: memproxy.ScopeUnpinned},
		{name: "of everybody, one tenant", op: summary, change: func(r *rig) { r.rules.OneTenant = true }},
		{name: "of everybody, backend of the tenant", op: summary, serves: "acme"},
		{name: "of everybody, backend of another", op: summary, serves: "globex", want: memproxy.IdentityTenant},
		{name: "of its own user", op: pins("own")},
		{name: "of its own user and another's", op: pins("own", "theirs"), want: memproxy.OwnerUnknown},
		{name: "of a user whom a token lists and nobody has used", op: pins("older"), change: func(r *rig) { r.who.Users = only("older") }, want: memproxy.OwnerUnknown},
		{name: "of its own agent", op: memproxy.Operation{Kind: memproxy.Recall, Derived: true, Refs: []memproxy.Ref{{Kind: memproxy.TargetMemory, ID: "agent-1", Pointer: "path:agent_id"}}}},
		{name: "of another's agent", op: memproxy.Operation{Kind: memproxy.Recall, Derived: true, Refs: []memproxy.Ref{{Kind: memproxy.TargetMemory, ID: "agent-2", Pointer: "path:agent_id"}}}, want: memproxy.OwnerUnknown},
		{name: "of nobody's agent", op: memproxy.Operation{Kind: memproxy.Recall, Derived: true, Refs: []memproxy.Ref{{Kind: memproxy.TargetMemory, ID: "agent-3", Pointer: "path:agent_id"}}}, want: memproxy.OwnerUnknown},
		{name: "a list, which is filtered", op: memproxy.Operation{Kind: memproxy.Recall}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := tenants(t, tc.change, name(memproxy.DimUser, "own", "acme"), name(memproxy.DimUser, "theirs", "globex"), object("agent-1", "acme", "agent:author"), object("agent-2", "globex", "agent:other"))
			r.fake.op = tc.op
			c := r.call(tc.op)
			c.Backend.Tenant = tc.serves
			a := r.gate.Admit(context.Background(), c)
			if tc.want == "" {
				wantCodes(t, a.Decision, memproxy.Allow)
			} else if wantFirst(a.Decision) != tc.want {
				t.Errorf("%+v, want %s", a.Decision, tc.want)
			}
		})
	}
}

func wantFirst(d memproxy.Decision) memproxy.ReasonCode {
	if len(d.Recorded()) == 0 {
		return ""
	}
	return d.Recorded()[0].Code
}

// Proves EDGE-3, EDGE-13: an object that the request refers to, and is not
// about, is another tenant's as well as one that it is about.
func TestReferencesAreHeldToTheTenant(t *testing.T) {
	for _, kind := range memproxy.Kinds {
		// What does not exist is told apart from what is another's only where
		// there is no other.
		for id, ok := range map[string]bool{"own": true, "theirs": false, "nobody": false, "nobody, alone": true} {
			t.Run(string(kind)+"/"+id, func(t *testing.T) {
				r := tenants(t, func(r *rig) {
					r.rules.OneTenant = strings.HasSuffix(id, "alone")
					r.fetch.status = 404 // of what the ledger does not know, the backend does not either
				}, object("own", "acme", "agent:author"), object("theirs", "globex", "agent:other"))
				a := r.admit(memproxy.Operation{Kind: kind, Refs: []memproxy.Ref{{Kind: memproxy.TargetMemory, ID: id, Pointer: "/block_ids/0"}}})
				if ok {
					wantCodes(t, a.Decision, memproxy.Allow)
				} else {
					wantCodes(t, a.Decision, memproxy.Deny, memproxy.OwnerUnknown)
				}
			})
		}
	}
}

// Proves EDGE-13: an id where the backend accepts any text is not refused: another's is
// sent as one that does not exist, an unknown one as it is.
func TestIDsOfOthersAreSentAsUnknown(t *testing.T) {
	for _, kind := range []memproxy.Kind{memproxy.Recall, memproxy.Learn} {
		for id, hidden := range map[string]bool{"own": false, "theirs": true, "nobody": false} {
			r := tenants(t, func(r *rig) { r.adapter = &masking{} }, object("own", "acme", "agent:author"), object("theirs", "globex", "agent:other"))
			r.fake = &r.adapter.(*masking).fakeAdapter
			var op memproxy.Operation
			op.Kind = kind
			for _, of := range []memproxy.TargetKind{memproxy.TargetMemory, memproxy.TargetEvent} {
				op.Refs = append(op.Refs, memproxy.Ref{Kind: of, ID: id, Pointer: "/x", Loose: true})
			}
			a := r.admit(op)
			expect.That(t, !a.Decision.Verdict.Stops() && len(a.Decision.Reasons) == 0, "%s of %s: %+v", kind, id, a.Decision)
			expect.That(t, a.ContainsHiddenID("a header with "+id) == hidden, "%s of %s: hidden is %v", kind, id, !hidden)
			expect.Equal(t, len(a.Decision.Notes) > 0, id == "theirs", kind, id, a.Decision.Notes)
		}
	}
}

// Proves EDGE-3: what the ledger does not know is of the tenant of what it
// belongs to, in an answer, as a target and where a request refers to it.
func TestDescent(t *testing.T) {
	for parent, sees := range map[string]bool{"agent-own": true, "agent-theirs": false, "agent-nobodys": false} {
		t.Run(parent, func(t *testing.T) {
			in := func(id string) []memproxy.Ref { return []memproxy.Ref{{Kind: memproxy.TargetMemory, ID: id}} }
			ask := func(m memproxy.Memory, op memproxy.Operation) bool {
				r := tenants(t, nil, object("agent-own", "acme", "agent:author"), object("agent-theirs", "globex", "agent:other"))
				m.Pointer, m.ID = "/0", "message-1"
				r.fake.memories = []memproxy.Memory{m}
				r.fake.located = map[string]memproxy.Memory{"message-1": m, "run-1": {ID: "run-1", Parents: in(parent)}}
				a := r.admit(op)
				if op.Kind != memproxy.Recall {
					return !a.Decision.Verdict.Stops()
				}
				return string(r.gate.Return(context.Background(), a, memproxy.Reply{Status: 200, Body: []byte("all")}).Body) == "message-1"
			}
			for name, m := range map[string]memproxy.Memory{"in it": {Parents: in(parent)}, "in its run": {Parents: in("run-1")}, "by its scope": {Scope: memproxy.Scope{Agent: parent}}} {
				expect.Equal(t, ask(m, memproxy.Operation{Kind: memproxy.Recall}), sees, name)
				expect.Equal(t, ask(m, byID(memproxy.Correct, "message-1")), sees, name, "a target")
				expect.Equal(t, ask(m, memproxy.Operation{Kind: memproxy.Learn, Cost: 1, Refs: in("message-1")}), sees, name, "a reference")
			}
		})
	}
}

// first is a ledger in which somebody else is quicker.
type first struct{ *fakeLedger }

func (f *first) Bind(ctx context.Context, rows ...memproxy.Ownership) ([]memproxy.Ownership, error) {
	for _, row := range rows {
		row.Scope.Tenant = "globex"
		if _, err := f.fakeLedger.Bind(ctx, row); err != nil {
			return nil, err
		}
	}
	return f.fakeLedger.Bind(ctx, rows...)
}

// Of two tenants that use a name at once one has it, and the other's write does
// not leave and costs nothing.
func TestALostNameIsRefused(t *testing.T) {
	for _, would := range []memproxy.Verdict{memproxy.Allow, memproxy.Hold} {
		k := newHoldStore()
		r := tenants(t, func(r *rig) {
			r.sweeper, r.holds = &first{r.ledger}, k
			if would == memproxy.Hold {
				r.rules.Policy = says(would, memproxy.PolicyForbid)
			}
		})
		op := learn("x")
		op.Claims = []memproxy.Claim{pinned(memproxy.DimUser, "ann")}
		d := r.admit(op).Decision
		expect.That(t, d.Verdict == memproxy.Deny && d.Status == 404 && d.Reasons[0].Code == memproxy.OwnerUnknown && len(k.kept) == 0, "%s: %+v, kept %v", would, d, k.kept)
		expect.Equal(t, r.budget.used, 0)
	}
}

// A refusal binds nothing, and neither does a question.
func TestRefusalsBindNothing(t *testing.T) {
	r := tenants(t, func(r *rig) { r.rules.Policy = says(memproxy.Deny, memproxy.PolicyForbid) })
	op := learn("x")
	op.Claims = []memproxy.Claim{pinned(memproxy.DimUser, "ann")}
	wantCodes(t, r.admit(op).Decision, memproxy.Deny, memproxy.PolicyForbid)
	expect.Len(t, r.ledger.rows, 0, "bound")
}

// Proves EDGE-3, TRL-1: a caller that is limited may name what it has made, and
// nobody else's.
func TestACallerMayNameWhatItMade(t *testing.T) {
	for id, want := range map[string]memproxy.Verdict{"agent-mine": memproxy.Allow, "agent-colleagues": memproxy.Deny, "agent-others": memproxy.Deny} {
		r := tenants(t, func(r *rig) { r.who.ActsAs = only("dev") },
			object("agent-mine", "acme", "agent:dev"), object("agent-colleagues", "acme", "agent:author"), object("agent-others", "globex", "agent:dev"))
		a := r.admit(memproxy.Operation{Kind: memproxy.Run,
			Claims: []memproxy.Claim{pinned(memproxy.DimAgent, id)}, Refs: []memproxy.Ref{{Kind: memproxy.TargetMemory, ID: id, Pointer: "path:agent_id"}}})
		expect.That(t, a.Decision.Verdict == want, "%s: %+v", id, a.Decision)
	}
}

// A ledger that is away refuses what cannot be filtered, and what writes.
func TestTenancyFailsClosed(t *testing.T) {
	for name, tc := range map[string]struct {
		op   memproxy.Operation
		want memproxy.Verdict
	}{
		"a list is filtered":    {memproxy.Operation{Kind: memproxy.Recall}, memproxy.Allow},
		"a summary is not":      {memproxy.Operation{Kind: memproxy.Recall, Derived: true}, memproxy.Deny},
		"a run":                 {memproxy.Operation{Kind: memproxy.Run}, memproxy.Deny},
		"an add to some user's": {learn("x"), memproxy.Deny},
	} {
		t.Run(name, func(t *testing.T) {
			r := tenants(t, func(r *rig) { r.ledger.err = errBroken })
			tc.op.Claims = []memproxy.Claim{pinned(memproxy.DimUser, "ann")}
			a := r.admit(tc.op)
			expect.That(t, a.Decision.Verdict == tc.want && (tc.want != memproxy.Deny || a.Decision.Status == 503), "%+v", a.Decision)
		})
	}
}

// Proves EDGE-3, EDGE-13: where several tenants share a backend, a target that
// it does not have is refused in the words in which another tenant's is.
func TestMissingAndForeignMemoriesAreAnsweredAlike(t *testing.T) {
	var bodies []string
	for _, id := range []string{"theirs", "nobody"} {
		r := tenants(t, func(r *rig) { r.fetch.status = 404 }, object("theirs", "globex", "agent:other"))
		a := r.admit(byID(memproxy.Forget, id))
		expect.That(t, a.Decision.Verdict == memproxy.Deny && a.Decision.Status == 404, "%s: %+v", id, a.Decision)
		c := r.call(byID(memproxy.Recall, "read"))
		c.Request = memproxy.Request{Method: "GET", EscapedPath: "/read"}
		r.fake.op = byID(memproxy.Recall, "read")
		got := r.gate.Return(context.Background(), r.gate.Admit(context.Background(), c), memproxy.Reply{Status: 404, Body: []byte("the backend's own words")})
		bodies = append(bodies, string(got.Body))
	}
	expect.That(t, bodies[0] == bodies[1] && bodies[0] != "the backend's own words", "%q", bodies)
}

// Proves EDGE-3, EDGE-13: an addition's answer says nothing of another tenant's
// memories, and what the backend's model changed of them is put back.
func TestAdditionsSayNothingOfOthersMemories(t *testing.T) {
	for _, event := range []string{"UPDATE", "DELETE", "NONE"} {
		t.Run(event, func(t *testing.T) {
			e := &fakeExtractor{}
			r := tenants(t, func(r *rig) { r.adapter, r.fake = e, &e.fakeAdapter },
				object("own", "acme", "agent:author"), object("theirs", "globex", "agent:other"), object("agent-theirs", "globex", "agent:other"))
			f := &sender{status: 200}
			r.fake.memories = []memproxy.Memory{
				{Pointer: "/0", ID: "own", Event: event, Text: "a", Before: "b"}, {Pointer: "/1", ID: "theirs", Event: event, Text: "secret", Before: "older secret"},
				{Pointer: "/2", ID: "unrecorded", Event: event, Text: "secret", Scope: memproxy.Scope{Agent: "agent-theirs"}},
			}
			op := learn("x")
			expect.Equal(t, string(r.gate.Return(context.Background(), r.admitWith(op, f), memproxy.Reply{Status: 200, Body: []byte("all")}).Body), "own")
			expect.Len(t, f.sent, map[string]int{"UPDATE": 2}[event], "sent")
			row := r.ledger.rows["theirs"]
			expect.That(t, row.Scope.Tenant == "globex" && !row.Deleted, "the ledger has %+v", row)
		})
	}
}

// Proves EDGE-3, EDGE-16: what a running agent's tool call names is held to the
// tenant as what a request names is: another tenant's agent cannot be written
// to, one's own can, and a message to whoever has a tag is for no tenant at all.
func TestAgentsCallsAreHeldToTheTenant(t *testing.T) {
	run := memproxy.Operation{Kind: memproxy.Run, Refs: []memproxy.Ref{{Kind: memproxy.TargetMemory, ID: "agent-own"}}}
	for to, want := range map[string]memproxy.ReasonCode{"agent-own": "", "agent-theirs": memproxy.OwnerUnknown, "agent-nobodys": memproxy.OwnerUnknown, "": memproxy.IdentityBroad} {
		r := tenants(t, func(r *rig) { r.fetch.status = 404 }, object("agent-own", "acme", "agent:author"), object("agent-theirs", "globex", "agent:other"))
		a := r.admit(run)
		wantCodes(t, a.Decision, memproxy.Allow)
		op := learn("x")
		op.Claims = []memproxy.Claim{{Dim: memproxy.DimAgent, Op: memproxy.ClaimIs, Values: []string{to}, Pointer: "/other_agent_id", Pins: true}}
		op.Refs = []memproxy.Ref{{Kind: memproxy.TargetMemory, ID: to, Pointer: "/other_agent_id"}}
		if to == "" {
			op.Claims[0].Op, op.Refs = memproxy.ClaimUnclear, nil
		}
		asked := r.gate.Agents().RuleOnCall(context.Background(), a, memproxy.ToolCall{ID: "c", Tool: "send", Operation: &op})
		if want == "" {
			wantCodes(t, asked.Decision, memproxy.Allow)
			continue
		}
		wantCodes(t, asked.Decision, memproxy.Deny, want)
	}
}
