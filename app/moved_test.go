package app_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/memproxy/memproxy/adapters/letta/embedded"
	"github.com/memproxy/memproxy/app"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
)

// interrupted is a backend in the same process. Before it serves the nth request of a
// method and path, or before the answer is returned, something else happens.
type interrupted struct {
	http.Handler
	mu           sync.Mutex // background jobs read from the backend at any time
	method, path string
	nth          int
	late         bool
	meanwhile    func(context.Context) error
}

func (s *interrupted) RoundTrip(q *http.Request) (*http.Response, error) {
	s.mu.Lock()
	nth, late, meanwhile := false, s.late, s.meanwhile
	if q.Method == s.method && q.URL.Path == s.path {
		s.nth--
		nth = s.nth == 0
	}
	s.mu.Unlock()
	if nth && !late {
		if err := meanwhile(q.Context()); err != nil {
			return nil, err
		}
	}
	if q.Body == nil {
		q.Body = http.NoBody
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, q)
	if nth && late {
		if err := meanwhile(q.Context()); err != nil {
			return nil, err
		}
	}
	return w.Result(), nil
}

func (s *interrupted) setLate() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.late = true
}

type request struct{ method, path, body string }

// movedRig is an agent with the caller's block "human", and another author's block of that
// label, in a bubble.
type movedRig struct {
	*rig
	back               interrupted
	agent, own, theirs string
}

func startMoved(t *testing.T) *movedRig {
	m := &movedRig{rig: &rig{t: t, dir: ring.Dir(t), log: &lockedBuffer{}}, back: interrupted{Handler: embedded.New()}}
	text := strings.NewReplacer(append(replacements(), "DIR/policies", "", "DIR", m.dir, "LETTA", "http://backend.invalid", "KEY", sha(devToken))...).Replace(withPeople(lettaConf))
	cfg := must.Get(config.Parse("memproxy.yaml", []byte(text), os.Getenv))(t)
	m.car = must.Get(assemble(context.Background(), unwatched(cfg), app.Options{Log: m.log, Getenv: allowing(cfg), Version: "test", Transport: &m.back, TimeoutFactor: 10}))(t)
	id := func(who string, c request) string {
		var it struct{ ID string }
		must.Do(t, json.Unmarshal([]byte(m.ask(t.Context(), c, who).want(t, 200).body), &it))
		return it.ID
	}
	m.agent = id("", request{"POST", "/v1/agents/", `{"name":"t","agent_type":"letta_v1_agent","tools":["memory_replace"],"memory_blocks":[{"label":"human","value":"Ann likes water"}]}`})
	m.own = id("", request{"GET", "/v1/agents/" + m.agent + "/core-memory/blocks/human", ""})
	m.theirs = id("human", request{"POST", "/v1/blocks/", `{"label":"human","value":"Ann likes green tea"}`})
	return m
}

// in puts ids in the places of AGENT, OWN and THEIRS.
func (m *movedRig) in(text string) string {
	return strings.NewReplacer("AGENT", m.agent, "OWN", m.own, "THEIRS", m.theirs).Replace(text)
}

func (m *movedRig) ask(ctx context.Context, c request, who string) got {
	q := httptest.NewRequestWithContext(ctx, c.method, m.in(c.path), strings.NewReader(m.in(c.body)))
	for h := as(who); len(h) > 0; h = h[2:] {
		q.Header.Set(h[0], h[1])
	}
	q.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	m.car.Handler("mem0").ServeHTTP(w, q)
	return got{status: w.Code, header: w.Header(), body: w.Body.String()}
}

// before lets something happen before the backend serves the nth of such requests.
func (m *movedRig) before(c request, nth int, f func(context.Context) error) {
	path, _, _ := strings.Cut(m.in(c.path), "?")
	m.back.mu.Lock()
	defer m.back.mu.Unlock()
	m.back.method, m.back.path, m.back.nth, m.back.meanwhile = c.method, path, nth, f
}

// begin begins requests, each when the one before is answered, and returns when nothing
// goes on without them or the clock; done is closed when they are answered.
func (m *movedRig) begin(who string, status int, list ...request) (done chan struct{}) {
	done = make(chan struct{})
	go func() {
		defer close(done)
		for _, c := range list {
			m.ask(m.t.Context(), c, who).want(m.t, status)
		}
	}()
	synctest.Wait()
	return done
}

// join waits for what was begun.
func (m *movedRig) join(done chan struct{}) {
	m.t.Helper()
	if done == nil {
		m.t.Fatal("the backend was not asked")
	}
	<-done
}

// values fails unless the two blocks have these texts.
func (m *movedRig) values(own, theirs string) {
	m.t.Helper()
	for block, text := range map[string]string{m.own: own, m.theirs: theirs} {
		m.ask(m.t.Context(), request{"GET", "/v1/blocks/" + block, ""}, "human").want(m.t, 200).has(m.t, `"value":"`+text+`"`)
	}
}

const replaceAnn = `CALL memory_replace {\"label\":\"human\",\"old_string\":\"Ann\",\"new_string\":\"Coffee, Ann\"}\n`

// saying is a turn of the agent that changes its block.
func saying(script, more string) request {
	return request{"POST", "/v1/agents/AGENT/messages", `{"input":"` + script + `THEN\nSAY done"` + more + `}`}
}

// turnPlace is for how long a turn keeps its place once its calls are sent, in a bubble.
const turnPlace = 10 * gate.DefaultFetchTimeout

var (
	swapped   = []request{{"PATCH", "/v1/agents/AGENT/core-memory/blocks/detach/OWN", ""}, {"PATCH", "/v1/agents/AGENT/core-memory/blocks/attach/THEIRS", ""}}
	relisted  = []request{{"PATCH", "/v1/agents/AGENT", `{"block_ids":["THEIRS"]}`}}
	detaching = swapped[0]
	byLabel   = request{"PATCH", "/v1/agents/AGENT/core-memory/blocks/human", `{"value":"Coffee, Ann likes water"}`}
)

// inBubbles runs cases in bubbles of their own.
func inBubbles(t *testing.T) func(name string, f func(*testing.T, *movedRig)) {
	heard := make(chan os.Signal, 1)
	signal.Notify(heard, syscall.SIGHUP) // the runtime's signal goroutine starts outside of the bubbles
	t.Cleanup(func() { signal.Stop(heard) })
	return func(name string, f func(*testing.T, *movedRig)) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := startMoved(t)
				defer m.stop()
				f(t, m)
			})
		})
	}
}

// Proves EDGE-5, EDGE-3, EDGE-1: a block that takes another's place in an agent between the
// ruling on a change of it by its label and the change is not changed by it. What gives it
// the place waits.
func TestBlocksThatTakeAnothersPlaceAreNotChanged(t *testing.T) {
	inBubble := inBubbles(t)
	for name, write := range map[string]request{
		"by its label":                    byLabel,
		"by a tool's run":                 {"POST", "/v1/agents/AGENT/tools/memory_rethink/run", `{"args":{"label":"human","new_memory":"Coffee, Ann likes water"}}`},
		"by the agent":                    saying(replaceAnn, ""),
		"by the agent, streamed":          saying(replaceAnn, `,"streaming":true`),
		"by the agent, in the background": saying(replaceAnn, `,"streaming":true,"background":true`),
	} {
		for how, swap := range map[string][]request{"detached and attached": swapped, "in a change of the agent": relisted} {
			inBubble(name+", "+how, func(t *testing.T, m *movedRig) {
				nth, done := 1, chan struct{}(nil)
				if strings.HasSuffix(write.path, "/messages") {
					nth = 2 // the approval of its call
				}
				m.before(write, nth, func(context.Context) error { done = m.begin("", 200, swap...); return nil })
				m.ask(t.Context(), write, "").want(t, 200)
				m.join(done)
				m.values("Coffee, Ann likes water", "Ann likes green tea")
			})
		}
	}
}

// Proves EDGE-1, EDGE-4: a turn keeps its agent's place until its calls are answered, and for
// no longer than the backend may take to begin, however the turn ends.
func TestTurnsLeaveTheirPlaces(t *testing.T) {
	inBubble := inBubbles(t)
	write := saying(replaceAnn, "")
	for name, tc := range map[string]struct {
		ends   func(gone func()) error
		status int
		waits  time.Duration
	}{
		"a call calls back":    {func(func()) error { return nil }, 200, turnPlace},
		"the backend is slow":  {func(func()) error { time.Sleep(time.Minute); return nil }, 200, turnPlace},
		"the run fails":        {func(func()) error { return errors.New("reset") }, 502, 0},
		"the caller is gone":   {func(gone func()) error { gone(); return nil }, 200, 0},
		"it goes, and a fault": {func(gone func()) error { gone(); return errors.New("reset") }, 502, 0},
	} {
		inBubble(name, func(t *testing.T, m *movedRig) {
			ctx, gone := context.WithCancel(t.Context())
			defer gone()
			detach := func() (waited time.Duration) {
				began := time.Now()
				m.ask(t.Context(), detaching, "").want(t, 200)
				return time.Since(began)
			}
			var waited time.Duration
			m.before(write, 2, func(context.Context) error {
				if tc.waits > 0 {
					waited = detach()
				}
				return tc.ends(gone)
			})
			m.ask(ctx, write, "").want(t, tc.status)
			if tc.waits == 0 {
				waited = detach()
			}
			expect.Equal(t, waited, tc.waits, "a change of the agent waited")
		})
	}
	inBubble("the process stops", func(t *testing.T, m *movedRig) { // whose goroutines end with the bubble
		var done chan struct{}
		m.before(write, 2, func(ctx context.Context) error {
			done = make(chan struct{})
			go func() { defer close(done); m.stop() }()
			<-ctx.Done()
			return ctx.Err()
		})
		m.ask(t.Context(), write, "").lacks(t, "Coffee")
		m.join(done)
	})
}

// Proves EDGE-4: what waits for an agent does not wait for ever, and is refused so that the
// client tries again; nothing else of the agent is.
func TestWaitsForAnAgentEnd(t *testing.T) {
	inBubble := inBubbles(t)
	inBubble("a slow write", func(t *testing.T, m *movedRig) {
		m.before(byLabel, 1, func(context.Context) error {
			began := time.Now()
			a := m.ask(t.Context(), detaching, "").want(t, 503).has(t, `"limit.in_flight"`, `"detail"`)
			if waited := time.Since(began); waited != 2*turnPlace || a.header.Get("Retry-After") == "" {
				t.Errorf("after %v: %v", waited, a.header)
			}
			return nil
		})
		m.ask(t.Context(), byLabel, "").want(t, 200)
		m.ask(t.Context(), detaching, "").want(t, 200)
	})
	for name, write := range map[string]request{"a write": byLabel, "a turn": saying(replaceAnn, "")} {
		inBubble(name+" that looks up the block", func(t *testing.T, m *movedRig) { // what comes meanwhile has no place of the block
			var done chan struct{}
			m.before(request{"GET", "/v1/agents/AGENT/core-memory/blocks/human", ""}, 1, func(context.Context) error { done = m.begin("", 200, swapped...); return nil })
			began := time.Now()
			m.ask(t.Context(), write, "").want(t, 200)
			m.join(done)
			if waited := time.Since(began); waited != 0 {
				t.Errorf("they waited %v", waited)
			}
			m.values("Coffee, Ann likes water", "Ann likes green tea")
		})
	}
	other := request{"PATCH", "/v1/blocks/OWN", `{"value":"Ann likes juice","metadata":{"kind":"drink"}}`}
	inBubble("the same block, by its id", func(t *testing.T, m *movedRig) {
		var done chan struct{}
		m.before(other, 1, func(context.Context) error { done = m.begin("", 200, byLabel); return nil })
		m.ask(t.Context(), other, "").want(t, 200)
		m.join(done)
		m.values("Coffee, Ann likes water", "Ann likes green tea")
		m.ask(t.Context(), request{"GET", "/v1/blocks/OWN", ""}, "").has(t, `"kind":"drink"`) // what it changes was looked up again
	})
	inBubble("another's block, by its id", func(t *testing.T, m *movedRig) { // its author is looked up again
		var done chan struct{}
		m.before(other, 1, func(context.Context) error { done = m.begin("", 403, byLabel); return nil })
		m.ask(t.Context(), other, "human").want(t, 200)
		m.join(done)
		m.values("Ann likes juice", "Ann likes green tea")
	})
	inBubble("two conversations", func(t *testing.T, m *movedRig) {
		second := saying(`CALL memory_replace {\"label\":\"human\",\"old_string\":\"water\",\"new_string\":\"juice\"}\n`, `,"streaming":false`)
		var talk struct{ ID string }
		must.Do(t, json.Unmarshal([]byte(m.ask(t.Context(), request{"POST", "/v1/conversations/?agent_id=AGENT", `{}`}, "").want(t, 200).body), &talk))
		second.path = "/v1/conversations/" + talk.ID + "/messages"
		m.back.setLate() // Letta takes no message of another conversation while the agent is paused
		m.before(saying("", ""), 2, func(context.Context) error {
			began := time.Now()
			m.ask(t.Context(), second, "").want(t, 200).lacks(t, "rror")
			if waited := time.Since(began); waited != 0 {
				t.Errorf("the second turn waited %v", waited)
			}
			return nil
		})
		m.ask(t.Context(), saying(replaceAnn, ""), "").want(t, 200)
		m.values("Coffee, Ann likes juice", "Ann likes green tea")
	})
	inBubble("two clients in one conversation", func(t *testing.T, m *movedRig) {
		var done chan struct{}
		m.before(saying("", ""), 2, func(context.Context) error {
			done = m.begin("", 200, saying(`CALL memory_replace {\"label\":\"human\",\"old_string\":\"water\",\"new_string\":\"juice\"}\n`, ""))
			return nil
		})
		m.ask(t.Context(), saying(replaceAnn, ""), "").want(t, 200)
		m.join(done)
		m.values("Coffee, Ann likes juice", "Ann likes green tea")
	})
	inBubble("a change of the tools in a turn", func(t *testing.T, m *movedRig) { // it waits for the turn, whose calls do not wait for it
		twice := saying(replaceAnn+`THEN\nCALL memory_replace {\"label\":\"human\",\"old_string\":\"water\",\"new_string\":\"juice\"}\n`, "")
		var done chan struct{}
		m.before(twice, 2, func(context.Context) error {
			done = m.begin("", 200, request{"PATCH", "/v1/agents/AGENT", `{"description":"d"}`})
			return nil
		})
		m.ask(t.Context(), twice, "").want(t, 200)
		m.join(done)
		m.values("Coffee, Ann likes juice", "Ann likes green tea")
	})
}
