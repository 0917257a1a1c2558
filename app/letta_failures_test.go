package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
)

// Proves EDGE-1: a caller that disconnects during a turn leaves no agent waiting: the
// turn is finished without it, under the same rules.
func TestTurnsFinishAfterAHangUp(t *testing.T) {
	t.Parallel()
	l := startLetta(t, someAgent)
	ctx, hangUp := context.WithCancel(context.Background())
	q := must.Get(http.NewRequestWithContext(ctx, "POST", l.base+"/v1/agents/"+l.agent+"/messages", strings.NewReader(fmt.Sprintf(`{"input":%q,"streaming":true}`, poisoned))))(t)
	q.Header.Set("Authorization", "Bearer "+devToken)
	q.Header.Set("Content-Type", "application/json")
	resp := must.Get(http.DefaultClient.Do(q))(t)
	hangUp() // after the first byte
	_ = resp.Body.Close()
	ring.Until(l.t, "the end of the turn", func() bool {
		return strings.Contains(l.letta.Value(l.agent, "human"), "plays go")
	})
	l.blocks("Ann\nlikes tea\nplays go", "helper")
	l.say("SAY hello", "").want(t, 200).has(t, "hello")
}

// Proves EDGE-1: a call whose approval the server got is not approved again by the next turn
// of the same caller if the connection breaks: a server that is interrupted may have run the
// call without storing its result, and would run it twice.
func TestAnsweredCallsAreNotMadeTwice(t *testing.T) {
	t.Parallel()
	for _, more := range []string{"", `,"streaming":true,"stream_tokens":true`} {
		t.Run(more, func(t *testing.T) {
			t.Parallel()
			f := &flaky{}
			l := startLettaWith(t, someAgent, strings.Replace(lettaConf, `upstream: "LETTA"`, `upstream: "LETTA", reconcile: 1h`, 1), func(whole http.Handler) http.Handler {
				f.Handler = whole
				return f
			})
			f.breaks = func(_ http.ResponseWriter, request int) bool {
				if request == 2 {
					w := httptest.NewRecorder()
					f.Handler.ServeHTTP(w, httptest.NewRequest("PATCH", "/v1/agents/"+l.agent+"/core-memory/blocks/human", strings.NewReader(`{"value":"Ann\nlikes tea"}`)))
					expect.Equal(t, w.Code, 200, w.Body)
					panic(http.ErrAbortHandler)
				}
				return false
			}
			l.say("CALL memory_insert {\"label\":\"human\",\"new_string\":\"likes tea\"}\nTHEN\nSAY done", more)
			l.say("SAY hello", "").want(t, 200).has(t, "hello", "this call may have been made or not")
			l.blocks("Ann\nlikes tea", "helper")
		})
	}
}

// Proves EDGE-1: a call that memproxy made itself, with changes, is not made again by the next
// turn of the same caller if the server refuses its result.
func TestAmendedCallsAreNotMadeTwice(t *testing.T) {
	t.Parallel()
	f := &flaky{breaks: atSecond(func(w http.ResponseWriter) { http.Error(w, "no", http.StatusTooManyRequests) })}
	l := startLettaBehind(t, someAgent, func(h http.Handler) http.Handler { f.Handler = h; return f })
	l.say("CALL memory_insert {\"label\":\"human\",\"new_string\":\"likes tea\",\"memproxy_trust\":\"system\"}\nTHEN\nSAY done", "").want(t, 429)
	l.blocks("Ann\nlikes tea", "helper")
	l.say("SAY hello", "").want(t, 200).has(t, "hello")
	l.blocks("Ann\nlikes tea", "helper")
}

// flaky is a server whose later requests fail.
type flaky struct {
	http.Handler
	mu       sync.Mutex
	breaks   func(w http.ResponseWriter, request int) bool
	requests int
}

func (f *flaky) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, "/messages") && r.Method == http.MethodPost {
		f.mu.Lock()
		f.requests++
		request := f.requests
		breaks := f.breaks
		f.mu.Unlock()
		if breaks != nil && breaks(w, request) {
			return
		}
	}
	f.Handler.ServeHTTP(w, r)
}

// atSecond has the second request answered.
func atSecond(answer func(http.ResponseWriter)) func(http.ResponseWriter, int) bool {
	return func(w http.ResponseWriter, request int) bool {
		if request == 2 {
			answer(w)
		}
		return request == 2
	}
}

func (f *flaky) set(breaks func(http.ResponseWriter, int) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.breaks = breaks
}

// Proves EDGE-1, CARD-1: after a server failure during a turn the caller gets the server's
// error, or a documented one if there is none or clients would repeat it, no call runs
// undecided, and the agent accepts further messages.
func TestServerFailsDuringATurn(t *testing.T) {
	t.Parallel()
	const limited = `{"error":{"type":"llm_rate_limit","message":"Rate limit exceeded for LLM model provider. Please wait before making another request."}}`
	answers := func(status int) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) { http.Error(w, "no", status) }
	}
	for name, tc := range map[string]struct {
		more   string
		second func(http.ResponseWriter)
		status int
		says   string
		human  string // after the next turn, which makes the pending call if the server has not
	}{
		"a later request fails":            {``, answers(http.StatusInternalServerError), 500, `"detail":"the backend answered 500"`, "Ann\nlikes tea"},
		"a later request fails in between": {``, answers(http.StatusBadGateway), 502, `"detail":"the backend answered 502"`, "Ann"},
		"the model refuses a later request": {``, func(w http.ResponseWriter) {
			w.Header().Set("X-Should-Retry", "true")
			replies(w, http.StatusTooManyRequests, limited)
		}, 429, limited, "Ann\nlikes tea"},
		"a later request is in conflict": {``, answers(http.StatusConflict), 502, "upstream.unavailable", "Ann\nlikes tea"},
		"a later request is cut off, streamed": {`,"streaming":true`, func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/event-stream")
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, 200, "event: error", "Ann"},
	} {
		t.Run(name, func(t *testing.T) {
			f := &flaky{breaks: atSecond(tc.second)}
			l := startLettaBehind(t, someAgent, func(h http.Handler) http.Handler { f.Handler = h; return f })
			a := l.say(poisoned, tc.more)
			a.want(t, tc.status).has(t, tc.says)
			if again := a.header.Get("X-Should-Retry"); again != "false" && a.status != 200 {
				t.Errorf("%d with X-Should-Retry %q: clients repeat the message", a.status, again)
			}
			l.blocks("Ann", "helper")
			f.set(nil)
			l.say("SAY hello", "").want(t, 200).has(t, "hello")
			l.blocks(tc.human, "helper")
		})
	}
}

// gateway delays a request and reports what arrives.
type gateway struct {
	http.Handler
	arrived, release chan string
}

func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && !strings.HasSuffix(r.URL.Path, "/agents/") {
		g.arrived <- r.Method
		if r.Method == http.MethodPost {
			<-g.release
		}
	}
	g.Handler.ServeHTTP(w, r)
}

// Proves EDGE-1: an agent gets no new tools during one of its turns: a tool added
// between the listing of tools and the turn would write without a pause (time-of-check
// to time-of-use).
func TestToolsDoNotChangeDuringATurn(t *testing.T) {
	t.Parallel()
	for _, approved := range []bool{false, true} { // the change waited for review
		g := &gateway{arrived: make(chan string, 8), release: make(chan string)}
		conf, policy := strings.Replace(lettaConf, `policy: {dir: "DIR/policies"}`, `policy: {dir: "OWN"}`, 1), noPersona
		if approved {
			policy = `@id("own.hold") @reason("policy.forbid") @verdict("hold") forbid (principal, action == Action::"correct", resource);`
		}
		l := startLettaWith(t, someAgent, conf, func(h http.Handler) http.Handler { g.Handler = h; return g }, "OWN", policyDir(t, policy))
		change := func() got {
			return l.do("PATCH", "/v1/agents/"+l.agent, `{"name":"renamed"}`)
		}
		if approved {
			id := heldID(t, change())
			change = func() (none got) { l.review(id, true); return none }
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			l.say("SAY done", "").want(t, 200)
		})
		must.Equal(t, <-g.arrived, http.MethodPost)
		changed := make(chan struct{})
		wg.Go(func() {
			defer close(changed)
			change()
		})
		// The change waits in the proxy; its recorded admission shows that it arrived.
		ring.Until(l.t, "the change at the gate", func() bool {
			return strings.Contains(l.audit("--type", "decision", "--verdict", "allow"), "letta.modify_agent")
		})
		select {
		case got := <-g.arrived:
			t.Errorf("%s arrived during the turn", got)
		default:
		}
		g.release <- ""
		expect.Equal(t, <-g.arrived, http.MethodPatch)
		<-changed
		wg.Wait()
	}
}

// Proves EDGE-1: a model timeout gives the caller a 504 that clients do not retry; the
// next turn answers the pause that was left.
func TestModelTimesOut(t *testing.T) {
	ring.Slow(t, "waits for a real deadline")
	t.Parallel()
	over := make(chan struct{})
	defer close(over) // the servers' Close waits for it
	for name, more := range map[string]string{"whole": ``, "streamed": `,"streaming":true`} {
		f := &flaky{}
		l := startLettaWith(t, someAgent, strings.Replace(lettaConf, `upstream: "LETTA"`, `upstream: "LETTA", timeouts: {run: 1s}`, 1), func(h http.Handler) http.Handler { f.Handler = h; return f })
		f.set(atSecond(func(http.ResponseWriter) { <-over })) // the first call was decided, and the model is thinking
		a := l.say(poisoned, more)
		switch name {
		case "whole":
			a.want(t, 504, name).carries(t, "X-Should-Retry", "false").has(t, `"detail"`)
		case "streamed":
			a.want(t, 200, name).has(t, "event: error")
		}
		f.set(nil)
		l.say("SAY hello", "").want(t, 200, name, "the next turn").has(t, "hello")
	}
}

// Proves EDGE-1: a pause that another client answers while it is decided gives the
// caller an error that clients do not retry; nothing is written twice, and the agent
// continues.
func TestPausesAnsweredByAnotherClient(t *testing.T) {
	t.Parallel()
	for name, more := range map[string]string{"whole": ``, "streamed": `,"streaming":true`} {
		f := &flaky{}
		l := startLettaBehind(t, someAgent, func(h http.Handler) http.Handler { f.Handler = h; return f })
		f.set(func(_ http.ResponseWriter, request int) bool {
			if request == 2 {
				agent := httptest.NewRecorder()
				l.letta.ServeHTTP(agent, httptest.NewRequest("GET", "/v1/agents/"+l.agent, nil))
				var waits struct {
					Pending struct {
						Calls []struct {
							ID string `json:"tool_call_id"`
						} `json:"tool_calls"`
					} `json:"pending_approval"`
				}
				expect.OK(t, json.Unmarshal(agent.Body.Bytes(), &waits), agent.Body)
				expect.Len(t, waits.Pending.Calls, 1, agent.Body)
				for _, c := range waits.Pending.Calls {
					l.letta.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", "/v1/agents/"+l.agent+"/messages",
						strings.NewReader(fmt.Sprintf(`{"messages":[{"type":"approval","approvals":[{"type":"approval","tool_call_id":%q,"approve":true}]}]}`, c.ID))))
				}
			}
			return false
		})
		a := l.say("CALL memory_insert {\"label\":\"human\",\"new_string\":\"likes tea\"}\nTHEN\nSAY done", more)
		if more == "" && (a.status != 400 || !strings.Contains(a.body, `"detail"`)) { // which clients do not repeat
			t.Errorf("%s: %d %v %s", name, a.status, a.header, a.body)
		}
		if more != "" && !strings.Contains(a.body, "event: error") {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
		f.set(nil)
		l.say("SAY hello", "").want(t, 200, name, "the next turn").has(t, "hello")
		l.blocks("Ann\nlikes tea", "helper")
	}
}

// Proves EDGE-4: a passage that a deletion without an answer removed is recorded as
// deleted by the next sweep, because the server shows passages in lists only. Another one
// that is missing is reported.
func TestDeletionsOfPassagesWithoutAnAnswerAreRecorded(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		killed, made bool
	}{
		"lost":                {false, true},
		"killed":              {true, true},
		"lost before it came": {false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var lose func(*http.Request)
			l := startLettaWith(t, someAgent, lettaConf, answering(func(w http.ResponseWriter, q *http.Request) bool {
				if q.Method == http.MethodDelete && lose != nil {
					lose(q)
					panic(http.ErrAbortHandler)
				}
				return false
			}))
			made := l.do("POST", "/v1/agents/", `{"name":"t","agent_type":"letta_v1_agent"}`, as("")...).want(t, 200).id(t)
			agent := "/v1/agents/" + made
			add := func(text string) string {
				id := l.do("POST", agent+"/archival-memory", `{"text":"`+text+`"}`, as("")...).want(t, 200).id(t)
				l.versioned(id)
				return id
			}
			id, other := add("likes tea"), add("Ann likes coffee")
			lose = func(q *http.Request) {
				if tc.killed {
					l.kills()
				}
				if tc.made {
					l.letta.ServeHTTP(httptest.NewRecorder(), q)
				}
			}
			l.do("DELETE", agent+"/archival-memory/"+id, "", as("")...).want(t, http.StatusBadGateway)
			if tc.killed {
				l.revives(l.run)
			}
			l.once("outcomes", time.Now())
			must.Do(t, l.car.Ledger.Sync(t.Context()))
			l.clean(name)
			expect.Equal(t, len(l.history(id)) == 2, tc.made, l.history(id))
			l.letta.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("DELETE", agent+"/archival-memory/"+other, nil))
			expect.Equal(t, classes(l.sweep())[other], "delete integrity.missing", "a passage that was deleted around memproxy")
		})
	}
}
