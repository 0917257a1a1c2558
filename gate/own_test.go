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

// attaching is an adapter that puts every target of an attachment in front of an agent.
type attaching struct {
	*fakeAdapter
	noRuns
}

func (attaching) Attaches(_ memproxy.Route, op *memproxy.Operation) []string {
	if op.Kind != memproxy.Attach {
		return nil
	}
	return op.Targets
}

// losing is an adapter whose ledger fails once a target was fetched.
type losing struct {
	attaching
	ledger *fakeLedger
}

func (l losing) ReadLocated(rt memproxy.Route, id string, reply memproxy.Reply) (memproxy.Memory, error) {
	l.ledger.err = errBroken
	return l.attaching.ReadLocated(rt, id, reply)
}

// Proves DOL-5, EDGE-4: a memory of another's that the caller is not shown is missing to its changes,
// deletions and attachments, and no agent gets one that is withheld from readers or shown only in
// part. One that does not exist is left to the backend.
func TestWithheldMemoriesAreNotChangedNorAttached(t *testing.T) {
	tea := memproxy.Memory{ID: "m1", Text: "tea", TextAt: "/memory"}
	bare := memproxy.Memory{ID: "m1", Members: []byte(`{"name":"helper"}`)}
	in := func(s memproxy.MemoryState) memproxy.Status { return memproxy.Status{State: s} }
	deleted := func(row *memproxy.Ownership) { row.Deleted = true }
	validated := memproxy.Status{State: memproxy.StateValidated, Text: memproxy.TextSHA256("coffee")}
	marked := memproxy.Status{State: memproxy.StateValidated, Unverified: memproxy.IntegrityMismatch}
	strict := func(r *rig) { r.rules.WithholdUntrusted = true }
	withhold := func(r *rig) { r.rules.Changed = gate.ChangedWithhold }
	reviewer := func(r *rig) { r.who.Roles = append(r.who.Roles, memproxy.RoleReviewer) }
	for name, tc := range map[string]struct {
		m                     memproxy.Memory
		row                   func(*memproxy.Ownership)
		st                    memproxy.Status
		rules                 func(*rig)
		own, others           int // the status of attaching it; 0: forwarded
		corrected, othersGone int // the status of another's correction and deletion
	}{
		"as it was written":              {m: tea},
		"deleted":                        {tea, deleted, memproxy.Status{}, nil, 403, 404, 404, 404},
		"deleted, and gone":              {m: memproxy.Memory{ID: "m1"}, row: deleted},
		"validated":                      {m: tea, st: in(memproxy.StateValidated), rules: strict},
		"flagged":                        {tea, nil, in(memproxy.StateFlagged), nil, 403, 403, 0, 0},
		"flagged, and has no text":       {bare, nil, in(memproxy.StateFlagged), nil, 403, 404, 404, 404},
		"quarantined":                    {tea, nil, in(memproxy.StateQuarantined), nil, 403, 404, 404, 404},
		"quarantined, to a reviewer":     {tea, nil, in(memproxy.StateQuarantined), reviewer, 403, 404, 404, 404},
		"superseded":                     {tea, nil, in(memproxy.StateSuperseded), nil, 403, 404, 404, 404},
		"expired":                        {tea, nil, in(memproxy.StateExpired), nil, 403, 404, 404, 404},
		"pending":                        {tea, nil, in(memproxy.StatePending), nil, 403, 404, 404, 404},
		"pending, to a reviewer":         {tea, nil, in(memproxy.StatePending), reviewer, 403, 403, 0, 0},
		"untrusted":                      {m: tea, st: in(memproxy.StateUntrusted)},
		"untrusted, which is withheld":   {tea, nil, in(memproxy.StateUntrusted), strict, 403, 404, 404, 404},
		"without a status, withheld":     {m: tea, rules: strict, own: 403, others: 404, corrected: 404, othersGone: 404},
		"untrusted without a text":       {m: bare, st: in(memproxy.StateUntrusted), rules: strict},
		"changed since it was validated": {tea, nil, validated, strict, 403, 404, 404, 404},
		"the same where it is shown":     {m: tea, st: validated},
		"found to be changed":            {tea, nil, marked, withhold, 403, 404, 404, 404},
		"the same where it is reported":  {m: tea, st: marked},
		"missing":                        {m: memproxy.Memory{Missing: true}, row: func(row *memproxy.Ownership) { row.ID = "another" }, rules: strict},
	} {
		for _, act := range []struct {
			actor string
			kind  memproxy.Kind
			want  int
		}{
			{"agent:dev", memproxy.Attach, tc.own}, {"agent:ci", memproxy.Attach, tc.others},
			{"agent:dev", memproxy.Correct, 0}, {"agent:dev", memproxy.Forget, 0},
			{"agent:ci", memproxy.Correct, tc.corrected}, {"agent:ci", memproxy.Forget, tc.othersGone},
		} {
			r, l := anyAgent(t, func(r *rig) {
				r.fake.located = map[string]memproxy.Memory{"m1": tc.m}
				r.adapter = attaching{r.fake, noRuns{}}
				if tc.rules != nil {
					tc.rules(r)
				}
			})
			row := by(act.actor, memproxy.TrustAuthenticated, 700)
			if tc.row != nil {
				tc.row(&row)
			}
			l.rows[row.ID] = row
			if tc.st.State != "" {
				l.statuses["m1"] = tc.st
			}
			a := r.admit(byID(act.kind, "m1"))
			expect.Equal(t, a.Decision.Status, act.want, name, act.actor, act.kind, a.Decision.Reasons)
		}
	}
}
