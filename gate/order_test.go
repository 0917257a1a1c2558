package gate_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// Proves TRL-5, EDGE-4: a change waits for another of the same memory, and for no other;
// whose turn does not come in time is refused with 503 and leaves the queue, one that is
// refused by a rule keeps nobody waiting, and one that is lost does not for ever.
func TestChangesHaveTheirTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(r *rig) {
			r.budget.limit = 100
			r.rules.Policy = policy(func(q memproxy.Question) (memproxy.Ruling, error) {
				if q.Operation.Items[0].Text == "refused" {
					return memproxy.Ruling{Verdict: memproxy.Deny}, nil
				}
				return memproxy.Ruling{}, nil
			})
		})
		for _, id := range []string{"m1", "m2"} {
			row := by("agent:dev", memproxy.TrustAuthenticated, 500)
			row.ID = id
			r.ledger.rows[id] = row
		}
		admit := func(text, id string) (*gate.Admission, time.Duration) {
			r.fake.op = correct(text, id)
			began, call := time.Now(), r.call(r.fake.op)
			call.Backend.UpstreamTimeout = 2 * time.Minute
			a := r.gate.Admit(context.Background(), call)
			return a, time.Since(began)
		}
		sent := func(a *gate.Admission, waited time.Duration) *gate.Admission {
			t.Helper()
			expect.That(t, a.Reply == nil && waited == 0, "waited %v: %+v", waited, a.Decision)
			return a
		}
		first := sent(admit("tea", "m1"))
		r.gate.Return(context.Background(), sent(admit("tea", "m2")), memproxy.Reply{Status: 200})
		late, waited := admit("milk", "m1")
		wantCodes(t, late.Decision, memproxy.Deny, memproxy.LimitInFlight)
		expect.Equal(t, late.Decision.Status, 503, late.Decision)
		expect.Equal(t, waited, gate.DefaultFetchTimeout, late.Decision)
		r.gate.Abandon(context.Background(), first, memproxy.StreamWhole)
		if a, _ := admit("refused", "m1"); a.Reply == nil {
			t.Error("it is not refused")
		}
		sent(admit("lost", "m1"))
		time.Sleep(5 * time.Minute)
		if a, _ := admit("early", "m1"); a.Reply == nil {
			t.Error("the backend has time left for the change before")
		}
		time.Sleep(2 * time.Minute)
		r.gate.Return(context.Background(), sent(admit("beer", "m1")), memproxy.Reply{Status: 200})
		sent(admit("wine", "m1"))
	})
}

// Proves EDGE-4, TRL-5: a change that the ledger hears of after another process's is noted
// if the backend has it, and else leaves what is noted alone. A memory that both delete is
// credited to its author once.
func TestTheLastChangeIsWhatTheBackendHas(t *testing.T) {
	for name, tc := range map[string]struct {
		deletes, gone bool   // this change; the other's
		there         string // text in the backend, "" for none
		away          bool   // the backend does not say
		renames       bool   // this change leaves the text as it is
		mine          bool   // what is noted
	}{
		"the other's text":                  {there: "theirs"},
		"this text":                         {there: "mine", mine: true},
		"another deleted it":                {gone: true},
		"this one deleted it":               {deletes: true, mine: true},
		"both deleted it":                   {deletes: true, gone: true, mine: true},
		"another changed it and it is gone": {there: ""},
		"deleted, and there again":          {deletes: true, there: "theirs"},
		"nobody says":                       {there: "mine", away: true},
		"this name, the text as it was":     {renames: true, there: "before", mine: true},
		"this name, the other's text":       {renames: true, there: "theirs"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(r *rig) { r.fake.merges = true })
			row := by("agent:dev", memproxy.TrustAuthenticated, 500)
			row.ID, row.SHA256 = "m1", memproxy.Hash("before")
			r.ledger.rows["m1"] = row
			r.fake.located = map[string]memproxy.Memory{"m1": {ID: "m1", Text: "before"}}
			op := correct("mine", "m1")
			if tc.deletes {
				op = memproxy.Operation{Kind: memproxy.Forget, TargetKind: memproxy.TargetMemory, Targets: []string{"m1"}}
			}
			if tc.renames {
				op = rename("what it is for", "m1")
			}
			a := r.admit(op)
			must.That(t, a.Reply == nil, "%+v", a.Decision)
			theirs := row
			theirs.Decision, theirs.Deleted = "theirs", tc.gone
			r.ledger.rows["m1"] = theirs
			r.fake.located["m1"] = memproxy.Memory{ID: "m1", Text: tc.there, Missing: tc.there == ""}
			if tc.away {
				r.fetch.err = errBroken
			}
			r.gate.Return(t.Context(), a, memproxy.Reply{Status: 200})
			got, versions := r.ledger.rows["m1"], len(r.ledger.versions)
			mine := got != theirs
			expect.That(t, mine == tc.mine && (!mine || got.Deleted == tc.deletes) && (versions > 0) == tc.mine, "noted is %+v, with %d versions", got, versions)
			expect.Equal(t, len(r.budget.released) == 1, tc.deletes && mine && !tc.gone, "credited", r.budget.released)
			expect.Equal(t, len(r.unconfirmed) == 1, tc.away, "the backend is asked again later")
			left := slices.Contains(memproxy.Codes(r.recorder.last().Reasons), string(memproxy.LedgerUnavailable))
			expect.Equal(t, left, tc.away, "the next process asks, if this one ends before")
		})
	}
}
