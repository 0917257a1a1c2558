package gate_test

import (
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/gate/access"
	"github.com/memproxy/memproxy/internal/expect"
)

func byID(kind memproxy.Kind, ids ...string) memproxy.Operation {
	op := memproxy.Operation{Kind: kind, Targets: ids, TargetKind: memproxy.TargetMemory}
	if kind == memproxy.Correct {
		op.Cost = len(ids)
	}
	return op
}

func owned(id, tenant, agent string) memproxy.Ownership {
	return memproxy.Ownership{
		Kind: memproxy.TargetMemory, ID: id, Actor: "agent:author", Trust: memproxy.TrustAuthenticated,
		Scope: memproxy.Scope{Tenant: tenant, User: "ann", Agent: agent},
	}
}

// Proves EDGE-3
func TestOperationsByIDNeedTheOwner(t *testing.T) {
	for _, tc := range []struct {
		name    string
		rows    []memproxy.Ownership
		located map[string]memproxy.Memory
		status  int // the backend's answer to the side request
		unattr  access.Unattributed
		who     func(*memproxy.Principal)
		ids     []string
		want    memproxy.ReasonCode
		asked   int
	}{
		{name: "its tenant's, by the ledger", rows: []memproxy.Ownership{owned("m1", "acme", "dev")}, ids: []string{"m1"}},
		{name: "another tenant's, by the ledger", rows: []memproxy.Ownership{owned("m1", "globex", "dev")}, ids: []string{"m1"}, want: memproxy.OwnerForeign},
		{name: "its tenant's, another agent's", rows: []memproxy.Ownership{owned("m1", "acme", "ceo")}, ids: []string{"m1"}, want: memproxy.OwnerForeign},
		{name: "one of a batch is another tenant's", rows: []memproxy.Ownership{owned("m1", "acme", "dev"), owned("m2", "globex", "dev")}, ids: []string{"m1", "m2"}, want: memproxy.OwnerForeign},
		{name: "unknown to the ledger, the backend names its agent", located: map[string]memproxy.Memory{"m1": {ID: "m1", Scope: memproxy.Scope{Agent: "dev"}}}, ids: []string{"m1"}, asked: 1},
		{name: "unknown to the ledger, the backend names another agent", located: map[string]memproxy.Memory{"m1": {ID: "m1", Scope: memproxy.Scope{Agent: "ceo"}}}, ids: []string{"m1"}, want: memproxy.OwnerForeign, asked: 1},
		{name: "unknown to the ledger, another user's", located: map[string]memproxy.Memory{"m1": {ID: "m1", Scope: memproxy.Scope{User: "bob"}}}, who: func(p *memproxy.Principal) { p.Users = only("ann") }, ids: []string{"m1"}, want: memproxy.OwnerForeign, asked: 1},
		{name: "nobody says whose", located: map[string]memproxy.Memory{"m1": {ID: "m1"}}, ids: []string{"m1"}, want: memproxy.OwnerForeign, asked: 1},
		{name: "missing is the backend's to say", status: 404, ids: []string{"m1"}, asked: 1},
		{name: "a stamp of its tenant attributes", unattr: access.Hidden, located: map[string]memproxy.Memory{"m1": {ID: "m1", Scope: memproxy.Scope{User: "ann"}, Stamp: &memproxy.Stamp{Signature: "signed for acme"}}}, ids: []string{"m1"}, asked: 1},
	} {
		for _, kind := range []memproxy.Kind{memproxy.Correct, memproxy.Forget, memproxy.Recall} {
			t.Run(tc.name+"/"+string(kind), func(t *testing.T) {
				r := newRig(t, func(r *rig) {
					for _, row := range tc.rows {
						r.ledger.rows[row.ID] = row
					}
					if tc.unattr != "" {
						r.rules.Unattributed = tc.unattr
					}
					if tc.status != 0 {
						r.fetch.status = tc.status
					}
					if tc.who != nil {
						tc.who(&r.who)
					}
					r.fake.located = tc.located
				})
				a := r.admit(byID(kind, tc.ids...))
				if tc.want == "" {
					var codes []memproxy.ReasonCode
					if len(tc.rows) > 0 && kind != memproxy.Recall {
						codes = []memproxy.ReasonCode{memproxy.TrustCorrection} // the row's author is another
					}
					wantCodes(t, a.Decision, memproxy.Allow, codes...)
				} else {
					wantCodes(t, a.Decision, memproxy.Deny, tc.want)
					expect.Equal(t, a.Decision.Status, 404)
				}
				asked := tc.asked
				if len(tc.rows) > 0 && kind != memproxy.Recall {
					asked = len(tc.ids) // a version has the text that a change replaces
				}
				expect.Len(t, r.fetch.asked, asked, "asked the backend")
			})
		}
	}
}

// attaching is an adapter that puts every target in front of an agent.
type attaching struct {
	*fakeAdapter
	noRuns
}

func (attaching) Attaches(_ memproxy.Route, op *memproxy.Operation) []string { return op.Targets }

// Proves DOL-5, EDGE-4: an agent gets no memory that its caller would not be shown: one that was
// deleted and that the backend has again, or one that was changed out-of-band where the rules
// withhold such a memory. One that does not exist is left to the backend.
func TestWithheldMemoriesAreNotAttached(t *testing.T) {
	tea := memproxy.Memory{ID: "m1", Text: "tea"}
	deleted := func(row *memproxy.Ownership) { row.Deleted = true }
	validated := memproxy.Status{State: memproxy.StateValidated, Text: memproxy.TextSHA256("coffee")}
	marked := memproxy.Status{State: memproxy.StateValidated, Unverified: memproxy.IntegrityMismatch}
	strict := func(r *rig) { r.rules.WithholdUntrusted = true }
	withhold := func(r *rig) { r.rules.Changed = gate.ChangedWithhold }
	for name, tc := range map[string]struct {
		m           memproxy.Memory
		row         func(*memproxy.Ownership)
		st          memproxy.Status
		rules       func(*rig)
		own, others int // status; 0: attached
	}{
		"as it was written":              {m: tea},
		"deleted":                        {tea, deleted, memproxy.Status{}, nil, 403, 404},
		"deleted, and gone":              {memproxy.Memory{ID: "m1"}, deleted, memproxy.Status{}, nil, 0, 0},
		"changed since it was validated": {tea, nil, validated, strict, 403, 404},
		"the same where it is shown":     {m: tea, st: validated},
		"found to be changed":            {tea, nil, marked, withhold, 403, 403},
		"the same where it is reported":  {m: tea, st: marked},
		"missing":                        {memproxy.Memory{Missing: true}, func(row *memproxy.Ownership) { row.ID = "another" }, memproxy.Status{}, strict, 0, 0},
	} {
		for actor, want := range map[string]int{"agent:dev": tc.own, "agent:ci": tc.others} {
			r, l := anyAgent(t, func(r *rig) {
				r.fake.located = map[string]memproxy.Memory{"m1": tc.m}
				r.adapter = attaching{r.fake, noRuns{}}
				if tc.rules != nil {
					tc.rules(r)
				}
			})
			row := by(actor, memproxy.TrustAuthenticated, 700)
			if tc.row != nil {
				tc.row(&row)
			}
			l.rows[row.ID] = row
			if tc.st.State != "" {
				l.statuses["m1"] = tc.st
			}
			a := r.admit(byID(memproxy.Attach, "m1"))
			expect.Equal(t, a.Decision.Status, want, name, actor, a.Decision.Reasons)
		}
	}
}
