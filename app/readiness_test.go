package app

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/memproxy/memproxy/group"
	"github.com/memproxy/memproxy/internal/ring"
)

// Every store that does not answer in time is named, besides the others. A hanging
// store, whether or not it respects its context, is probed once until it answers. A
// failing required store makes the sidecar unready, others degrade it.
//
// Proves CARD-8, EDGE-14.
func TestReadinessNamesHangingStores(t *testing.T) { synctest.Test(t, testReadinessNamesHangingStores) }

func testReadinessNamesHangingStores(t *testing.T) {
	l := group.New(t.Context(), group.Options{Stages: stages, Loops: stageLoops})
	r := &readiness{begin: l.Go, within: answerTime, clock: time.Now}
	let := make(chan struct{})
	var questions atomic.Int32
	well := func() string { return "well" }
	r.add(probe{name: "quick", needed: true, well: well, ask: func(context.Context) error { return nil }})
	r.add(probe{name: "frozen", needed: true, well: well, ask: func(context.Context) error { questions.Add(1); <-let; return nil }})
	r.add(probe{name: "slow", well: well, ask: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }})
	r.add(probe{name: "broken", well: well, ask: func(context.Context) error { return errors.New("disk full") }})
	look := func(most time.Duration) map[string]string {
		t.Helper()
		begun, got := time.Now(), map[string]string{}
		for _, c := range r.checks() {
			state := "ok"
			switch {
			case !c.OK:
				state = "not ready"
			case c.Degraded:
				state = "degraded"
			}
			got[c.Name] = state + ": " + c.Detail
		}
		if took := time.Since(begun); took > most {
			t.Errorf("it took %v", took)
		}
		return got
	}
	want := func(got map[string]string, name, state string) {
		t.Helper()
		if !strings.HasPrefix(got[name], state) {
			t.Errorf("%s: %q, want %q", name, got[name], state)
		}
	}
	for _, most := range []time.Duration{2 * answerTime, answerTime / 2} { // the second request does not wait again
		got := look(most)
		want(got, "quick", "ok: well")
		want(got, "frozen", "not ready: it does not answer")
		want(got, "slow", "degraded: it does not answer")
		want(got, "broken", "degraded: disk full")
	}
	for range 5 {
		look(2 * answerTime)
	}
	if n := questions.Load(); n != 1 {
		t.Errorf("it was asked %d times while it hung", n)
	}
	close(let)
	if err := l.Close(t.Context()); err != nil {
		t.Error(err)
	}
	want(look(answerTime), "frozen", "ok: well")
}

// A real sidecar lists its stores in readiness; liveness probes none.
//
// Proves CARD-8.
func TestReadinessNamesEveryStore(t *testing.T) {
	t.Parallel()
	r := start(t, screeningConf, "SCREENING", "")
	ready := r.get("/readyz")
	for _, name := range []string{"audit", "ledger", "review", "rules"} {
		if ready.status != 200 || !strings.Contains(ready.body, `"name":"`+name+`","ok":true`) {
			t.Errorf("%s: %d %s", name, ready.status, ready.body)
		}
	}
	if err := r.car.ledger.Close(); err != nil { // simulates an outage
		t.Fatal(err)
	}
	ring.Until(r.t, "the ledger is named", func() bool { return strings.Contains(r.get("/readyz").body, `"name":"ledger","ok":false`) })
	r.get("/readyz").want(t, 503).has(t, `"name":"audit","ok":true`)
	if live := r.get("/healthz"); live.status != 200 {
		t.Errorf("liveness: %d", live.status)
	}
	if err := r.car.Close(t.Context()); err == nil { // the chain ends cannot be anchored
		t.Error("a stop without a ledger says nothing")
	}
	r.car = nil
}
