package app_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/review"
)

// Proves DOL-3, EDGE-4: validation, at production's default interval, checks the text
// in the backend, and finds and reports changes behind memproxy, before the first
// validation or, once a sweep found them, later. A reviewer's decision holds while the
// text is unchanged.
func TestValidationReadsTheBackend(t *testing.T) {
	t.Parallel()
	p := newPaces()
	r := startRig(&rig{t: t, clock: p.now, pace: p.ticker, seals: true, noWait: true}, screeningConf, "SCREENING", "")
	must.Equal(t, r.car.cfg.Memories.Validate.Std(), 5*time.Minute, "the default is")
	ids := map[string]string{}
	for name, text := range map[string]string{
		"whole": "Ann likes green tea.", "early": "Ann plays go.", "late": "Ann sails.", "decided": "Ann has a cat.", "kept": "Ann has a dog.",
	} {
		ids[name] = r.written(text, "")
		r.versioned(ids[name])
	}
	poisoned := func(name string) { r.behind("PUT", "/v1/memories/"+ids[name]+"/", `{"text":"`+poison+`"}`) }
	state := func(name string) memproxy.MemoryState { return r.statusOf(ids[name]).State }
	poisoned("early")
	r.within(p, time.Minute, "the validation", func() bool {
		return state("whole") == memproxy.StateValidated && state("late") == memproxy.StateValidated && state("early") == memproxy.StateQuarantined
	})
	st := r.statusOf(ids["early"])
	expect.Equal(t, st.Unverified == memproxy.IntegrityMismatch && st.Text == memproxy.TextSHA256(poison), true, "changed before it was looked at", st)
	expect.Text(t, r.audit("--type", "integrity"), "on record").Times(1, `"type":"integrity"`).Has(ids["early"]).Lacks("invoices")

	for name, text := range map[string]string{"decided": "Ann has a cat.", "kept": "Ann has a dog."} {
		must.Get(r.car.Ledger.SetState(context.Background(), memproxy.StateChange{
			MemoryKey: memproxy.MemoryKey{Backend: "mem0", Kind: memproxy.TargetMemory, ID: ids[name]}, Tenant: "acme", State: memproxy.StateFlagged,
			Person: true, Reason: "somebody said so", Text: memproxy.TextSHA256(text),
		}))(t)
	}
	poisoned("late")
	poisoned("decided")
	r.within(p, 5*time.Minute, "what was changed later", func() bool {
		return state("late") == memproxy.StateQuarantined && state("decided") == memproxy.StateQuarantined
	})
	expect.Equal(t, state("kept"), memproxy.StateFlagged, "kept is")
	expect.Equal(t, state("whole"), memproxy.StateValidated, "kept is")
}

// Proves DOL-5, EDGE-4: where untrusted memories are withheld, a memory that was planted
// out-of-band stays withheld after the sweep found it and validation found nothing in it,
// unless a person decided on its text or audit seal adopted it. At production's default
// intervals.
func TestPlantedMemoriesAreNotValidated(t *testing.T) {
	t.Parallel()
	p := newPaces()
	r := startRig(&rig{t: t, clock: p.now, pace: p.ticker, seals: true, noWait: true}, screeningConf, "SCREENING", "memories: {untrusted: withhold}")
	mine := r.written("Ann likes green tea.", "")
	r.versioned(mine)
	ring.Until(r.t, "the seal", func() bool {
		return strings.Contains(r.get("/metrics").body, `memproxy_backend_sealed{backend="mem0"} 1`)
	})
	planted, adopted := r.planted("Ann has a horse."), r.planted("Ann has a boat.")
	status := func(id string) int { return r.do("GET", "/v1/memories/"+id+"/", "").status }
	expect.Equal(t, status(planted), 404, "before it is found")
	r.within(p, 10*time.Minute, "the sweep", func() bool {
		return r.statusOf(planted).Unverified == memproxy.IntegrityUnknown && r.statusOf(adopted).Unverified == memproxy.IntegrityUnknown
	})
	rules := r.rules()
	r.within(p, 5*time.Minute, "the validation", func() bool {
		return r.statusOf(planted).Rules == rules && r.statusOf(adopted).Rules == rules && r.statusOf(mine).State == memproxy.StateValidated
	})
	st := r.statusOf(planted)
	expect.Equal(t, st.State == memproxy.StateUntrusted && status(planted) == 404 && status(mine) == 200, true, st)
	_, err := r.car.Ledger.SetState(t.Context(), memproxy.StateChange{
		MemoryKey: memproxy.MemoryKey{Backend: "mem0", Kind: memproxy.TargetMemory, ID: planted}, Tenant: "acme", State: memproxy.StateValidated,
		Person: true, Reason: "it was checked", Text: memproxy.TextSHA256("Ann has a horse."),
	})
	expect.Equal(t, err == nil && status(planted) == 200, true, "a person's decision", err)
	ring.Until(r.t, "audit seal, once no sweep is under way", func() bool {
		_, err := r.car.Checker.Seal(t.Context(), review.SealRequest{Backend: "mem0", Tenant: "acme"})
		return err == nil
	})
	r.within(p, 5*time.Minute, "the validation of what was adopted", func() bool { return r.statusOf(adopted).State == memproxy.StateValidated })
	expect.Equal(t, status(adopted), 200, "adopted: answered with")
}

// Proves DOL-3: while a backend does not answer, none of its memories is validated by
// an earlier answer; validation continues when it answers again.
func TestNothingIsValidatedDuringAnOutage(t *testing.T) {
	t.Parallel()
	p := newPaces()
	r := &rig{t: t, clock: p.now, pace: p.ticker}
	startRig(r, screeningConf, "SCREENING", "memories: {validate: 5m}", "level: error", "level: warn")
	id := r.written("Ann likes green tea.", "")
	r.versioned(id)
	whole := r.meddle(func(w http.ResponseWriter, _ *http.Request) bool { return unavailable(w) })
	r.within(p, time.Minute, "the attempt", func() bool { return strings.Contains(r.log.String(), "their backend is unavailable") })
	expect.Equal(t, r.statusOf(id).State, memproxy.StateUntrusted)
	r.back.handle(whole)
	r.within(p, time.Minute, "the validation", func() bool { return r.statusOf(id).State == memproxy.StateValidated })
}

// Proves DOL-3: validation checks ten memories per round.
func TestValidationRunsInBatches(t *testing.T) {
	t.Parallel()
	r := start(t, screeningConf, "SCREENING", "memories: {validate: 0}")
	var ids []string
	for n := range 13 {
		ids = append(ids, r.written(fmt.Sprintf("Ann keeps %d bees.", n+2), ""))
	}
	r.versioned(ids...)
	for _, want := range []int{10, 13} {
		r.once("upkeep", time.Now())
		looked := 0
		for _, id := range ids {
			if r.statusOf(id).State == memproxy.StateValidated {
				looked++
			}
		}
		expect.Equal(t, looked, want)
	}
}

// Proves DOL-3, EDGE-11: each tenant has its batch, so that one tenant's many memories
// do not delay another's.
func TestValidationIsFair(t *testing.T) {
	t.Parallel()
	r := start(t, screeningConf, "SCREENING", "memories: {validate: 0}")
	due := func(tenant, id string) {
		k := memproxy.MemoryKey{Backend: "mem0", Kind: memproxy.TargetMemory, ID: id}
		must.Get(r.car.Ledger.SetState(t.Context(), memproxy.StateChange{MemoryKey: k, Tenant: tenant, State: memproxy.StateUntrusted}))(t)
	}
	for n := range 25 {
		due("evil", fmt.Sprintf("a%08d-0000-4000-8000-000000000000", n)[1:])
	}
	const last = "ffffffff-0000-4000-8000-000000000000"
	due("acme", last)
	left := func() int {
		return len(must.Get(r.car.Ledger.ListStatuses(t.Context(), memproxy.StatusFilter{Tenant: new("evil"), NotRules: r.rules(), Limit: 1000}))(t))
	}
	for pass, want := range []int{15, 5, 0} {
		r.once("upkeep", time.Now())
		must.Equal(t, r.statusOf(last).Rules, r.rules(), "the other tenant's memory waits in pass", pass)
		expect.Equal(t, left(), want, "after pass", pass)
	}
}

// Proves DOL-5: where untrusted memories are withheld, an agent, which has no text that
// could be validated, is listed, without the texts of its blocks.
func TestAgentsAreListedWhereUntrustedIsWithheld(t *testing.T) {
	t.Parallel()
	l := startLettaWith(t, someAgent, lettaConf+"memories: {untrusted: withhold, validate: 0}\n", plainly)
	l.do("POST", "/v1/agents/", `{"name":"mine","agent_type":"letta_v1_agent","memory_blocks":[{"label":"human","value":"likes liquorice"}]}`).want(t, 200)
	l.do("GET", "/v1/agents/", "").want(t, 200).has(t, `"name":"mine"`).about("a text that was not validated is shown").lacks(t, "liquorice")
}
