package app

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/upkeep"
)

// hanging never answers, and sends the method of each request to the channel.
type hanging chan string

func (h hanging) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body) // so that a disconnect is noticed
	h <- r.Method
	<-r.Context().Done()
}

// silentServer accepts connections and never answers.
func silentServer(t *testing.T) (addr string) {
	ln := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	var open sync.WaitGroup
	t.Cleanup(func() { ln.Close(); open.Wait() })
	open.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { c.Close() })
		}
	})
	return ln.Addr().String()
}

// locked locks the ledger's file against writes until let is called.
func (r *rig) locked() (let func()) {
	r.t.Helper()
	db := must.Get(sql.Open("sqlite", filepath.Join(r.dir, "state", "ledger.db")))(r.t)
	db.SetMaxOpenConns(1)
	ring.Until(r.t, "the lock", func() bool { _, err := db.Exec("BEGIN IMMEDIATE"); return err == nil })
	return func() {
		_, err := db.Exec("ROLLBACK")
		if err := errors.Join(err, db.Close()); err != nil {
			r.t.Error(err)
		}
	}
}

// rounds counts the job rounds running in the process.
func rounds() int {
	buf := make([]byte, 4<<20)
	return strings.Count(string(buf[:runtime.Stack(buf, true)]), "upkeep.(*runner).round(")
}

// A stop cancels jobs that wait for the backend, the webhook, the ledger or a silent
// Redis. Each returns before its dependencies are closed, callers that requested a
// round get the error, and no goroutine is left.
//
// Proves EDGE-14, EDGE-15.
func TestStopCancelsJobs(t *testing.T) {
	hook, backend := make(hanging, 64), make(hanging, 64)
	receiver := httptest.NewServer(hook)
	t.Cleanup(receiver.Close)
	redis := silentServer(t)
	before := goroutines()
	r := &rig{t: t, seals: true}
	r.before = func() { r.back.handle(backend) }
	startRig(r, screeningConf, workflow(&told{url: receiver.URL}, "memories: {sweep: 1h}\nscreening: {baseline: {}}\nbudgets: {redis: {url: \"redis://"+redis+"\"}}", policyDir(t, holdingPolicy))...)
	id := heldID(t, r.do("POST", "/memories", sailing(1)))
	r.review(id, true)
	<-hook
	for arrived := map[string]bool{}; !arrived["GET"] || !arrived["POST"]; { // the seal and the approved write
		arrived[<-backend] = true
	}
	let := r.locked()
	asked := map[string]chan error{}
	car := r.car // the rig drops it when it stops
	for name := range car.jobs.All() {
		over := make(chan error, 1)
		asked[name] = over
		go func() { over <- car.jobs.Once(context.Background(), name, time.Now()) }()
	}
	slow := []string{"ageing", "clock", "replays", "retention", "seal:mem0", "sweeps", "upkeep", "webhooks"}
	ring.Until(t, "rounds of all that are slow", func() bool { return rounds() >= len(slow) })
	for name, over := range asked {
		if !slices.Contains(slow, name) {
			if err := <-over; err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if n := rounds(); n != len(slow) {
		t.Fatalf("%d rounds are being made, want %d", n, len(slow))
	}
	car.group.Own(stageSending, func(context.Context) error { car.runner.Cut(); return nil }) // as at the end of the drain
	car.group.Own(stageLoops, func(context.Context) error { go func() { <-car.group.Context().Done(); let() }(); return nil })
	car.group.Own(stageProxies, func(context.Context) error {
		if n := rounds(); n > 0 {
			t.Errorf("%d rounds are being made once the loops are over", n)
		}
		return nil
	})
	r.stopped(func() {})
	for _, name := range slow {
		if err := <-asked[name]; !errors.Is(err, context.Canceled) && !errors.Is(err, upkeep.ErrEnded) && (err != nil || name != "replays") {
			t.Errorf("%s: %v", name, err)
		}
	}
	nothingLeft(t, before)
}

// Jobs run on events without a tick: a notice is delivered, and retried when due;
// changed rules re-evaluate held writes, and then those held under the old rules
// meanwhile; approved writes are sent.
//
// Proves EDGE-11, MFW-10.
func TestJobsRunOnWakeUp(t *testing.T) {
	t.Parallel()
	p := newPaces()
	w, dir := newTold(t), policyDir(t, holdingPolicy)
	r := startRig(&rig{t: t, clock: p.now, pace: p.ticker}, screeningConf, workflow(w, "", dir)...)
	first := heldID(t, r.do("POST", "/memories", sailing(1)))
	ring.Until(t, "the notice", func() bool { return len(w.of(memproxy.NoticeHold, first)) == 1 })
	w.fails(1)
	second := heldID(t, r.do("POST", "/memories", sailing(2)))
	// In steps, because each wake-up may reset the timer.
	r.within(p, 100*time.Millisecond, "the notice that failed", func() bool { return len(w.of(memproxy.NoticeHold, second)) == 1 })

	before := r.car.rules.current().Version
	writeBundle(t, dir, harmless)
	r.within(p, 10*time.Millisecond, "other rules", func() bool { return r.car.rules.current().Version != before })
	ring.Until(t, "what they say", func() bool { return r.heldWrite(first).Today == "allow" && r.heldWrite(second).Today == "allow" })

	late := memproxy.HeldWrite{ID: "late", Backend: "mem0", Route: "mem0.server.add", Method: "POST", EscapedPath: "/memories", Principal: "agent:dev", Tenant: "acme", Trust: memproxy.TrustAuthenticated, Policy: before}
	if _, err := r.car.ledger.Holds.Put(t.Context(), late, memproxy.HoldContent{Body: []byte(noted("Ann likes tea.")), Header: memproxy.Header{"Content-Type": {"application/json"}}}); err != nil {
		t.Fatal(err)
	}
	r.within(p, 100*time.Millisecond, "what they say of it", func() bool { return r.heldWrite("late").Today == "allow" })

	r.review(first, true)
	ring.Until(t, "the approved write", func() bool { return r.heldWrite(first).State == memproxy.HoldDone })
}
