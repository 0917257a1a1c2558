package app_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/mem0/embedded"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// startRacedMem0 is a sidecar in front of Mem0, with a part of its configuration.
func startRacedMem0(t *testing.T, more string) *raced {
	t.Helper()
	return startRaced(t, screeningConf, must.Get(embedded.New(embedded.Options{}))(t), "SCREENING", more)
}

// added adds a memory and returns its id.
func (r *raced) added(text string) string {
	r.t.Helper()
	return r.do(call{"POST", "/memories", noted(text)}, "").id(r.t)
}

// shows fails the test unless a memory is shown with a text, without a warning.
func (r *raced) shows(id, text string) {
	r.t.Helper()
	a := r.do(call{"GET", "/memories/" + id, ""}, "").want(r.t, 200).has(r.t, text)
	expect.Equal(r.t, a.header.Get("X-Memproxy-Unverified"), "", "unverified")
}

// Proves EDGE-4, EDGE-15: a change that waited for another is judged by what that left, and
// its record reports no tampering.
func TestWaitingChangesAreJudgedAfterTheirTurn(t *testing.T) {
	inBubble(t, "", func(t *testing.T) {
		r := startRacedMem0(t, "memories: {validate: 0}")
		id := r.added("Ann likes tea.")
		done := make(chan got, 1)
		r.meanwhile("PUT", "/memories/"+id, func() {
			go func() { done <- r.do(call{"PUT", "/memories/" + id, `{"text":"Ann likes wine."}`}, "human") }()
			synctest.Wait()
		})
		r.do(call{"PUT", "/memories/" + id, `{"text":"Ann likes milk."}`}, "").want(t, 200)
		r.happened()
		_, decision, _ := strings.Cut((<-done).want(t, 200).header.Get("X-Memproxy-Decision"), "id=")
		expect.Text(t, r.audit("--decision", decision)).Has("trust.correction").Lacks("integrity.")
		r.shows(id, "likes wine")
	})
}

// Proves EDGE-8, GOV-7: an approved write that is claimed when everything of its owner is
// deleted is not sent afterwards.
func TestClaimedWritesOfADeletedOwnerAreNotSent(t *testing.T) {
	inBubble(t, "", func(t *testing.T) {
		r := startRacedMem0(t, "memories: {validate: 0}\npolicy: {dir: "+policyDir(t, holdingPolicy)+"}")
		sails := call{"POST", "/memories", strings.Replace(noted("Bob sails."), "ann", "bob", 1)}
		send := func(meanwhile func()) memproxy.SendResult {
			id := heldID(t, r.do(sails, ""))
			must.Get(r.car.Ledger.Holds.Approve(t.Context(), id, memproxy.Review{Reviewer: "eve"}))(t)
			claim := must.Get(r.car.Ledger.Holds.Claim(t.Context(), id, time.Minute))(t)
			meanwhile()
			return r.car.client().Replay(t.Context(), claim.Hold, claim.Content)
		}
		expect.Equal(t, send(func() {}).Outcome, memproxy.OutcomeDone)
		sent := send(func() { r.do(call{"DELETE", "/memories?user_id=bob", ""}, "human").want(t, 200) })
		expect.Equal(t, sent.Outcome == memproxy.OutcomeRefused && strings.Contains(sent.Result.Detail, "was deleted after it was held"), true, sent)
		r.do(call{"GET", "/memories?user_id=bob", ""}, "human").want(t, 200).lacks(t, "sails")
	})
}

// Proves TRL-5, DOL-2: a promotion approves the text that the ledger had, and not the one
// of a change under way, whichever of them is recorded first.
func TestPromotionsAreOfTheTextBeforeAChange(t *testing.T) {
	inBubble(t, "", func(t *testing.T) {
		r := startRacedMem0(t, "memories: {validate: 0}")
		id := r.added("Ann likes tea.")
		k := memproxy.MemoryKey{Backend: "mem0", Kind: memproxy.TargetMemory, ID: id}
		promote := func() {
			r.reviews("/v1/memories/mem0/"+id+"/promote", `{"reason":"read it"}`).want(t, 200)
			st := must.Get(r.car.Ledger.Lookup(t.Context(), k))(t).Of(k).Status
			expect.Equal(t, st.State == memproxy.StateValidated && st.Reviewed == sha("Ann likes tea."), true, "promoted", st)
		}
		r.meanwhile("PUT", "/memories/"+id, promote)
		r.do(call{"PUT", "/memories/" + id, `{"text":"Ann likes milk."}`}, "").want(t, 200)
		r.happened()
		st := must.Get(r.car.Ledger.Lookup(t.Context(), k))(t).Of(k).Status
		expect.Equal(t, st.State != memproxy.StateValidated && st.Attestation != memproxy.HumanConfirmed && st.Reviewed == "", true, "changed", st)
		r.shows(id, "likes milk")
	})
}
