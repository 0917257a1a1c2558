package app_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/memproxy/memproxy/adapters/letta/embedded"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/internal/expect"
)

// movedRig is an agent with the caller's block "human", and another author's block of that
// label, in a bubble.
type movedRig struct {
	*raced
	agent, own, theirs string
}

// moved is a part of a test with such an agent.
func moved(f func(*testing.T, *movedRig)) func(*testing.T) {
	return func(t *testing.T) {
		m := &movedRig{raced: startRaced(t, lettaConf, embedded.New())}
		m.agent = m.made("", "/v1/agents/", `{"name":"t","agent_type":"letta_v1_agent","tools":["memory_replace"],"memory_blocks":[{"label":"human","value":"Ann likes water"}]}`)
		m.own = m.ask(t.Context(), call{"GET", "/v1/agents/AGENT/core-memory/blocks/human", ""}, "").want(t, 200).id(t)
		m.theirs = m.made("human", "/v1/blocks/", `{"label":"human","value":"Ann likes green tea"}`)
		f(t, m)
	}
}

// in puts ids in the places of AGENT, OWN and THEIRS.
func (m *movedRig) in(text string) string {
	return strings.NewReplacer("AGENT", m.agent, "OWN", m.own, "THEIRS", m.theirs).Replace(text)
}

func (m *movedRig) ask(ctx context.Context, c call, who string) got {
	return m.serve(ctx, "mem0", call{c.method, m.in(c.path), m.in(c.body)}, as(who))
}

// before lets something happen before the backend serves the nth of such requests.
func (m *movedRig) before(c call, nth int, f func(context.Context) error) {
	path, _, _ := strings.Cut(m.in(c.path), "?")
	m.back.at(pause{method: c.method, at: path, nth: nth, do: f})
}

// begin begins requests, each when the one before is answered, and returns when nothing
// goes on without them or the clock; done is closed when they are answered.
func (m *movedRig) begin(who string, status int, list ...call) (done chan struct{}) {
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
		m.ask(m.t.Context(), call{"GET", "/v1/blocks/" + block, ""}, "human").want(m.t, 200).has(m.t, `"value":"`+text+`"`)
	}
}

const replaceAnn = `CALL memory_replace {\"label\":\"human\",\"old_string\":\"Ann\",\"new_string\":\"Coffee, Ann\"}\n`

// saying is a turn of the agent that changes its block.
func saying(script, more string) call {
	return call{"POST", "/v1/agents/AGENT/messages", `{"input":"` + script + `THEN\nSAY done"` + more + `}`}
}

// turnPlace is for how long a turn keeps its place once its calls are sent, in a bubble.
const turnPlace = 10 * gate.DefaultFetchTimeout

var (
	swapped   = []call{{"PATCH", "/v1/agents/AGENT/core-memory/blocks/detach/OWN", ""}, {"PATCH", "/v1/agents/AGENT/core-memory/blocks/attach/THEIRS", ""}}
	relisted  = []call{{"PATCH", "/v1/agents/AGENT", `{"block_ids":["THEIRS"]}`}}
	detaching = swapped[0]
	byLabel   = call{"PATCH", "/v1/agents/AGENT/core-memory/blocks/human", `{"value":"Coffee, Ann likes water"}`}
)

// Proves EDGE-5, EDGE-3, EDGE-1: a block that takes another's place in an agent between the
// ruling on a change of it by its label and the change is not changed by it. What gives it
// the place waits.
func TestBlocksThatTakeAnothersPlaceAreNotChanged(t *testing.T) {
	for name, write := range map[string]call{
		"by its label":                    byLabel,
		"by a tool's run":                 {"POST", "/v1/agents/AGENT/tools/memory_rethink/run", `{"args":{"label":"human","new_memory":"Coffee, Ann likes water"}}`},
		"by the agent":                    saying(replaceAnn, ""),
		"by the agent, streamed":          saying(replaceAnn, `,"streaming":true`),
		"by the agent, in the background": saying(replaceAnn, `,"streaming":true,"background":true`),
	} {
		for how, swap := range map[string][]call{"detached and attached": swapped, "in a change of the agent": relisted} {
			inBubble(t, name+", "+how, moved(func(t *testing.T, m *movedRig) {
				nth, done := 1, chan struct{}(nil)
				if strings.HasSuffix(write.path, "/messages") {
					nth = 2 // the approval of its call
				}
				m.before(write, nth, func(context.Context) error { done = m.begin("", 200, swap...); return nil })
				m.ask(t.Context(), write, "").want(t, 200)
				m.join(done)
				m.values("Coffee, Ann likes water", "Ann likes green tea")
			}))
		}
	}
}

// Proves EDGE-1, EDGE-4: a turn keeps its agent's place until its calls are answered, and for
// no longer than the backend may take to begin, however the turn ends.
func TestTurnsLeaveTheirPlaces(t *testing.T) {
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
		inBubble(t, name, moved(func(t *testing.T, m *movedRig) {
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
		}))
	}
	inBubble(t, "the process stops", moved(func(t *testing.T, m *movedRig) { // whose goroutines end with the bubble
		var done chan struct{}
		m.before(write, 2, func(ctx context.Context) error {
			done = make(chan struct{})
			go func() { defer close(done); m.stop() }()
			<-ctx.Done()
			return ctx.Err()
		})
		m.ask(t.Context(), write, "").lacks(t, "Coffee")
		m.join(done)
	}))
}

// Proves EDGE-4: what waits for an agent does not wait for ever, and is refused so that the
// client tries again; nothing else of the agent is.
func TestWaitsForAnAgentEnd(t *testing.T) {
	inBubble(t, "a slow write", moved(func(t *testing.T, m *movedRig) {
		m.before(byLabel, 1, func(context.Context) error {
			began := time.Now()
			a := m.ask(t.Context(), detaching, "").want(t, 503).has(t, `"limit.in_flight"`, `"detail"`)
			waited := time.Since(began)
			expect.Equal(t, waited == 2*turnPlace && a.header.Get("Retry-After") != "", true, "after", waited, a.header)
			return nil
		})
		m.ask(t.Context(), byLabel, "").want(t, 200)
		m.ask(t.Context(), detaching, "").want(t, 200)
	}))
	for name, write := range map[string]call{"a write": byLabel, "a turn": saying(replaceAnn, "")} {
		inBubble(t, name+" that looks up the block", moved(func(t *testing.T, m *movedRig) { // what comes meanwhile has no place of the block
			var done chan struct{}
			m.before(call{"GET", "/v1/agents/AGENT/core-memory/blocks/human", ""}, 1, func(context.Context) error { done = m.begin("", 200, swapped...); return nil })
			began := time.Now()
			m.ask(t.Context(), write, "").want(t, 200)
			m.join(done)
			expect.Equal(t, time.Since(began), 0, "they waited")
			m.values("Coffee, Ann likes water", "Ann likes green tea")
		}))
	}
	other := call{"PATCH", "/v1/blocks/OWN", `{"value":"Ann likes juice","metadata":{"kind":"drink"}}`}
	inBubble(t, "the same block, by its id", moved(func(t *testing.T, m *movedRig) {
		var done chan struct{}
		m.before(other, 1, func(context.Context) error { done = m.begin("", 200, byLabel); return nil })
		m.ask(t.Context(), other, "").want(t, 200)
		m.join(done)
		m.values("Coffee, Ann likes water", "Ann likes green tea")
		m.ask(t.Context(), call{"GET", "/v1/blocks/OWN", ""}, "").has(t, `"kind":"drink"`) // what it changes was looked up again
	}))
	inBubble(t, "another's block, by its id", moved(func(t *testing.T, m *movedRig) { // its author is looked up again
		var done chan struct{}
		m.before(other, 1, func(context.Context) error { done = m.begin("", 403, byLabel); return nil })
		m.ask(t.Context(), other, "human").want(t, 200)
		m.join(done)
		m.values("Ann likes juice", "Ann likes green tea")
	}))
	inBubble(t, "two conversations", moved(func(t *testing.T, m *movedRig) {
		second := saying(`CALL memory_replace {\"label\":\"human\",\"old_string\":\"water\",\"new_string\":\"juice\"}\n`, `,"streaming":false`)
		talk := m.ask(t.Context(), call{"POST", "/v1/conversations/?agent_id=AGENT", `{}`}, "").want(t, 200).id(t)
		second.path = "/v1/conversations/" + talk + "/messages"
		m.before(saying("", ""), 2, func(context.Context) error {
			began := time.Now()
			m.ask(t.Context(), second, "").want(t, 200).lacks(t, "rror")
			expect.Equal(t, time.Since(began), 0, "the second turn waited")
			return nil
		})
		m.back.next.served = true // Letta takes no message of another conversation while the agent is paused
		m.ask(t.Context(), saying(replaceAnn, ""), "").want(t, 200)
		m.values("Coffee, Ann likes juice", "Ann likes green tea")
	}))
	inBubble(t, "two clients in one conversation", moved(func(t *testing.T, m *movedRig) {
		var done chan struct{}
		m.before(saying("", ""), 2, func(context.Context) error {
			done = m.begin("", 200, saying(`CALL memory_replace {\"label\":\"human\",\"old_string\":\"water\",\"new_string\":\"juice\"}\n`, ""))
			return nil
		})
		m.ask(t.Context(), saying(replaceAnn, ""), "").want(t, 200)
		m.join(done)
		m.values("Coffee, Ann likes juice", "Ann likes green tea")
	}))
	inBubble(t, "a change of the tools in a turn", moved(func(t *testing.T, m *movedRig) { // it waits for the turn, whose calls do not wait for it
		twice := saying(replaceAnn+`THEN\nCALL memory_replace {\"label\":\"human\",\"old_string\":\"water\",\"new_string\":\"juice\"}\n`, "")
		var done chan struct{}
		m.before(twice, 2, func(context.Context) error {
			done = m.begin("", 200, call{"PATCH", "/v1/agents/AGENT", `{"description":"d"}`})
			return nil
		})
		m.ask(t.Context(), twice, "").want(t, 200)
		m.join(done)
		m.values("Coffee, Ann likes juice", "Ann likes green tea")
	}))
}
