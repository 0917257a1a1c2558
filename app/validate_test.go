package app

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
)

// Proves DOL-3, EDGE-4: validation, at production's default interval, checks the text
// in the backend, and finds and reports changes behind memproxy, before the first
// validation or, once a sweep found them, later. A reviewer's decision holds while the
// text is unchanged.
func TestValidationReadsTheBackend(t *testing.T) {
	t.Parallel()
	p := newPaces()
	r := startRig(&rig{t: t, clock: p.now, pace: p.ticker, seals: true, noWait: true}, screeningConf, "SCREENING", "")
	if d := r.car.cfg.Memories.Validate.Time(); d != 5*time.Minute {
		t.Fatalf("the default is %v", d)
	}
	ids := map[string]string{}
	for name, text := range map[string]string{
		"whole": "Ann likes green tea.", "early": "Ann plays go.", "late": "Ann sails.", "decided": "Ann has a cat.", "kept": "Ann has a dog.",
	} {
		ids[name] = r.written(text, "")
		r.versioned(ids[name])
	}
	poisoned := func(name string) { r.behind("PUT", "/v1/memories/"+ids[name]+"/", `{"text":"`+poison+`"}`) }
	state := func(name string) memproxy.MemoryState { return r.stands(ids[name]).State }
	poisoned("early")
	r.within(p, time.Minute, "the validation", func() bool {
		return state("whole") == memproxy.StateValidated && state("late") == memproxy.StateValidated && state("early") == memproxy.StateQuarantined
	})
	if st := r.stands(ids["early"]); st.Unverified != memproxy.IntegrityMismatch || st.Text != memproxy.TextSHA256(poison) {
		t.Errorf("changed before it was looked at: %+v", st)
	}
	if log := r.audit("--type", "integrity"); strings.Count(log, `"type":"integrity"`) != 1 || !strings.Contains(log, ids["early"]) || strings.Contains(log, "invoices") {
		t.Errorf("on record: %s", log)
	}

	for name, text := range map[string]string{"decided": "Ann has a cat.", "kept": "Ann has a dog."} {
		_, err := r.car.ledger.SetState(context.Background(), memproxy.StateChange{
			MemoryKey: memproxy.MemoryKey{Backend: "mem0", Kind: memproxy.TargetMemory, ID: ids[name]}, Tenant: "acme", State: memproxy.StateFlagged,
			Person: true, Reason: "somebody said so", Text: memproxy.TextSHA256(text),
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	poisoned("late")
	poisoned("decided")
	r.within(p, 5*time.Minute, "what was changed later", func() bool {
		return state("late") == memproxy.StateQuarantined && state("decided") == memproxy.StateQuarantined
	})
	if state("kept") != memproxy.StateFlagged || state("whole") != memproxy.StateValidated {
		t.Errorf("kept is %s, whole %s", state("kept"), state("whole"))
	}
}

// Proves DOL-3: while a backend does not answer, none of its memories is validated by
// an earlier answer; validation continues when it answers again.
func TestNothingIsValidatedDuringAnOutage(t *testing.T) {
	t.Parallel()
	p := newPaces()
	r := &rig{t: t, clock: p.now, pace: p.ticker}
	var away atomic.Bool
	r.before = func() {
		back := r.back.handler()
		r.back.handle(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			if away.Load() {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			back.ServeHTTP(w, q)
		}))
	}
	startRig(r, screeningConf, "SCREENING", "", "level: error", "level: warn")
	id := r.written("Ann likes green tea.", "")
	r.versioned(id)
	away.Store(true)
	r.within(p, time.Minute, "the attempt", func() bool { return strings.Contains(r.log.String(), "does not answer") })
	if st := r.stands(id); st.State != memproxy.StateUntrusted {
		t.Errorf("%+v", st)
	}
	away.Store(false)
	r.within(p, time.Minute, "the validation", func() bool { return r.stands(id).State == memproxy.StateValidated })
}
