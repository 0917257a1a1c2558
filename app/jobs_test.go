package app_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"github.com/memproxy/memproxy/review"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/ledger/ledgertest"
	"github.com/memproxy/memproxy/screen"
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
		expect.OK(r.t, errors.Join(err, db.Close()))
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
	receiver := serving(t, hook)
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
	for name := range car.Jobs.All() {
		expect.Equal(t, strings.HasPrefix(name, "runs:"), false, name, "of a backend without agents")
		over := make(chan error, 1)
		asked[name] = over
		go func() { over <- car.Once(context.Background(), name, time.Now()) }()
	}
	slow := []string{"ageing", "clock", "replays", "retention", "seal:mem0", "sweeps", "upkeep", "webhooks"}
	ring.Until(t, "rounds of all that are slow", func() bool { return rounds() >= len(slow) })
	for name, over := range asked {
		if !slices.Contains(slow, name) {
			expect.OK(t, <-over, name)
		}
	}
	must.Equal(t, rounds(), len(slow))
	car.Group.Own(stageSending, func(context.Context) error { car.Runner.AbortAll(); return nil }) // as at the end of the drain
	car.Group.Own(stageLoops, func(context.Context) error { go func() { <-car.Group.Context().Done(); let() }(); return nil })
	car.Group.Own(stageProxies, func(context.Context) error {
		expect.Equal(t, rounds(), 0, "rounds once the loops are over")
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

	before := r.rules()
	writeBundle(t, dir, harmless)
	r.within(p, 10*time.Millisecond, "other rules", func() bool { return r.rules() != before })
	ring.Until(t, "what they say", func() bool {
		return r.heldWrite(first).CurrentVerdict == "allow" && r.heldWrite(second).CurrentVerdict == "allow"
	})

	late := memproxy.HeldWrite{ID: "late", Backend: "mem0", Route: "mem0.server.add", Method: "POST", EscapedPath: "/memories", Principal: "agent:dev", Tenant: "acme", Trust: memproxy.TrustAuthenticated, Policy: before}
	must.Get(r.car.Ledger.Holds.Put(t.Context(), late, memproxy.HoldContent{Body: []byte(noted("Ann likes tea.")), Header: memproxy.Header{"Content-Type": {"application/json"}}}))(t)
	r.within(p, 100*time.Millisecond, "what they say of it", func() bool { return r.heldWrite("late").CurrentVerdict == "allow" })

	r.review(first, true)
	ring.Until(t, "the approved write", func() bool { return r.heldWrite(first).State == memproxy.HoldDone })
}

// paces is a manual clock and ticker for a sidecar and all its loops.
type paces struct {
	mu      sync.Mutex
	at      time.Time
	tickers map[*pacing]bool
}

type pacing struct {
	every time.Duration
	next  time.Time
	tick  chan time.Time
}

func newPaces() *paces { return &paces{at: time.Now(), tickers: map[*pacing]bool{}} }

func (p *paces) now() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.at
}

func (p *paces) ticker(every time.Duration) (<-chan time.Time, func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := &pacing{every, p.at.Add(every), make(chan time.Time, 1)}
	p.tickers[t] = true
	return t.tick, func() { p.mu.Lock(); defer p.mu.Unlock(); delete(p.tickers, t) }
}

// pass advances time. A busy loop gets one tick for all that it missed, as with the
// system's ticker.
func (p *paces) pass(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at = p.at.Add(d)
	for t := range p.tickers {
		if p.at.Before(t.next) {
			continue
		}
		t.next = p.at.Add(t.every)
		select {
		case t.tick <- p.at:
		default:
		}
	}
}

// within advances time in steps until a condition holds.
func (r *rig) within(p *paces, step time.Duration, what string, ok func() bool) {
	r.t.Helper()
	ring.Until(r.t, what, func() bool {
		if ok() {
			return true
		}
		p.pass(step)
		return false
	})
}

// A memory that a reviewer approved or promoted stays visible whatever the background loops,
// at production's default intervals, changed rules or packs, a month or a restart would
// decide; a different verdict is recorded and reported for another review. Once its text
// changes it is judged again.
//
// Proves EDGE-15, MFW-10, DOL-3.
func TestReviewDecisionsSurviveBackgroundLoops(t *testing.T) {
	t.Parallel()
	stores := map[string]func(*testing.T) string{"a file": func(*testing.T) string { return "" }}
	if url := os.Getenv("MEMPROXY_TEST_POSTGRES"); url != "" { // set where the test environment has a database
		stores["Postgres"] = func(t *testing.T) string { return fmt.Sprintf("ledger: {url: %q}\n", ledgertest.Schema(t, url)) }
	}
	for name, store := range stores {
		t.Run(name, func(t *testing.T) { decisionsOutliveLoops(t, store(t)) })
	}
}

func decisionsOutliveLoops(t *testing.T, store string) {
	pack := t.TempDir()
	must.Do(t, os.CopyFS(pack, screen.Files()))
	p := newPaces()
	w, dir := newTold(t), policyDir(t, holdingPolicy)
	r := startRig(&rig{t: t, clock: p.now, pace: p.ticker}, screeningConf, workflow(w, fmt.Sprintf("memories: {validate: 5m}\nscreening: {pack: %q}\n%s", pack, store), dir)...)
	const pass = 5 * time.Minute
	enacts := func(file, text string) {
		t.Helper()
		before := r.rules()
		writeFile(t, file, text)
		r.within(p, 10*time.Second, "other rules", func() bool { return r.rules() != before })
	}
	rule := func(name, words string) {
		t.Helper()
		path := filepath.Join(pack, "lexicon.txt")
		enacts(path, string(must.Get(os.ReadFile(path))(t))+fmt.Sprintf("\n\ntest.%s critical 950 overrides\n  \\b%s\\b\n", name, words))
	}
	state := func(id string, want memproxy.MemoryState) {
		t.Helper()
		r.within(p, pass, fmt.Sprintf("%s being %s", id, want), func() bool { return r.statusOf(id).State == want })
	}
	told := func(kind memproxy.NoticeKind, id string) (n []review.WebhookBody) {
		t.Helper()
		r.within(p, 2*time.Second, "a notice", func() bool { n = w.of(kind, id); return len(n) > 0 })
		return n
	}

	// Bob's write is held and approved.
	id := heldID(t, r.do("POST", "/memories", sailing(7)))
	r.does("holds", "approve", "--reason", "harmless", id)
	r.within(p, time.Second, "the approved write", func() bool { return r.heldWrite(id).State == memproxy.HoldDone })
	bobs := r.heldWrite(id).Result.Memories[0]
	// Ann's memory is quarantined by a later rule, which is reported, and promoted.
	cat := r.written("Ann keeps a tabby cat.", "")
	ring.Until(r.t, "its state", func() bool { return r.statusOf(cat).State == memproxy.StateUntrusted })
	state(cat, memproxy.StateValidated)
	rule("cat", "tabby cat")
	state(cat, memproxy.StateQuarantined)
	expect.Text(t, r.listed(), "quarantined").Lacks("tabby")
	n := told(memproxy.NoticeQuarantined, cat)
	must.Len(t, n, 1)
	expect.Text(t, n[0].Text+string(n[0].Data), "told").Has("quarantined").Lacks("tabby")
	r.does("memory", "promote", "--backend", "mem0", "--reason", "it is a cat", cat)
	decided := func(when string) {
		t.Helper()
		r.within(p, pass, "a look at both under the rules in force", func() bool {
			now := r.rules()
			return r.statusOf(bobs).Rules == now && r.statusOf(cat).Rules == now
		})
		for _, id := range []string{bobs, cat} {
			st := r.statusOf(id)
			expect.Equal(t, st.State == memproxy.StateValidated && st.Attestation == memproxy.HumanConfirmed && st.CurrentRules == memproxy.StateQuarantined, true, when, st)
		}
		r.do("GET", "/memories?user_id=bob", "").about(when).has(t, "lake number 7")
		expect.Text(t, r.listed(), when).Has("tabby")
	}
	rule("lake", "lake number")
	decided("at once")
	enacts(filepath.Join(dir, "own.cedar"), harmless)
	expect.Text(t, r.do("POST", "/memories", noted("Ann rows.")).header.Get("X-Memproxy-Decision"), "under other policies").Lacks("hold")
	decided("under other policies")
	for range 24 {
		p.pass(pass)
		r.once("upkeep", p.now())
	}
	decided("after two hours of looks")
	r.stop()
	r.run()
	decided("after a restart")
	told(memproxy.NoticeMemoryRuled, bobs)
	out, code := r.as(reviewToken, "memory", "trace", "--backend", "mem0", bobs)
	expect.Equal(t, code, 0, out)
	expect.Text(t, out).Has("current rules")
	// Its author may change anything else about it. New texts, and another field, are judged.
	for body, status := range map[string]int{
		`{"metadata":{"colour":"grey"}}`: 200, `{"text":"Ann keeps a tabby cat."}`: 200, `{"expiration_date":"2099-01-01"}`: 200,
		`{"metadata":{"note":"a tabby cat"}}`: 403, `{"metadata":{"category":"learnings"}}`: 403,
	} {
		r.do("PUT", "/memories/"+cat, body).want(t, status, body)
	}
	p.pass(31 * 24 * time.Hour)
	r.once("upkeep", p.now())
	for _, id := range []string{bobs, cat} {
		expect.Equal(t, r.statusOf(id).State, memproxy.StateValidated, "after a month")
	}
	r.do("PUT", "/memories/"+cat, `{"text":"Ann keeps a dog."}`).want(t, 200)
	ring.Until(r.t, "another text is judged anew", func() bool { st := r.statusOf(cat); return st.State == memproxy.StateUntrusted && st.Reviewed == "" })
}
