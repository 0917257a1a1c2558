package app_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/proxy"
)

// pausedServer is a Letta server whose first look-up that at selects waits for goOn.
type pausedServer struct {
	http.Handler
	at            func(r *http.Request, messages int32) bool
	messages      atomic.Int32
	once          sync.Once
	reached, goOn chan struct{}
}

func (p *pausedServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, "/messages") && r.Method == http.MethodPost {
		p.messages.Add(1)
	} else if p.at(r, p.messages.Load()) {
		p.once.Do(func() { close(p.reached); <-p.goOn })
	}
	p.Handler.ServeHTTP(w, r)
}

// begins sends a message that reaches the pause, which ends with the test if not before.
func (p *pausedServer) begins(t *testing.T, send func() got) (said chan got, goOn func()) {
	t.Helper()
	goOn = sync.OnceFunc(func() { close(p.goOn) })
	t.Cleanup(goOn)
	said = make(chan got, 1)
	go func() { said <- send() }()
	receive(t, p.reached)
	return said, goOn
}

// lookUpAfter selects look-ups after a number of messages.
func lookUpAfter(n int32) func(*http.Request, int32) bool {
	return func(r *http.Request, messages int32) bool { return r.Method == http.MethodGet && messages == n }
}

// startPaused starts a rig whose server pauses.
func startPaused(t *testing.T, agent string, at func(*http.Request, int32) bool, next func(p *pausedServer, h http.Handler) http.HandlerFunc) (*lettaRig, *pausedServer) {
	t.Helper()
	p := &pausedServer{at: at, reached: make(chan struct{}), goOn: make(chan struct{})}
	return startStill(t, agent, lettaConf, func(h http.Handler) http.Handler {
		p.Handler = next(p, h)
		return p
	}), p
}

// Proves EDGE-1: a request to cancel that arrives between two requests of a turn, while the
// gate rules on a call, ends the turn, whether it names the run, the agent or the
// conversation: no request follows, both callers read that the run was cancelled, and neither
// this turn nor the next makes the pending call.
func TestTurnsAreCancelledBetweenRequests(t *testing.T) {
	t.Parallel()
	for _, more := range []string{`,"streaming":false`, `,"streaming":true`, `,"streaming":true,"stream_tokens":true,"background":true`} {
		for _, by := range []string{"run", "agent", "conversation", "own conversation"} {
			l, p := startPaused(t, someAgent, lookUpAfter(1), func(_ *pausedServer, h http.Handler) http.HandlerFunc {
				return answering(func(w http.ResponseWriter, r *http.Request) bool {
					return strings.HasPrefix(r.URL.Path, "/v1/conversations/") && strings.HasSuffix(r.URL.Path, "/cancel") && replies(w, http.StatusConflict, `{"detail":"No active runs to cancel"}`)
				})(h).ServeHTTP
			})
			path, cancel, body := "/v1/agents/"+l.agent+"/messages", "/v1/agents/"+l.agent+"/messages/cancel", `{}`
			switch by {
			case "run":
				body = `{"run_ids":["run-00000000-0000-4000-8000-000000000007"]}`
			case "conversation":
				conv := l.do("POST", "/v1/conversations/?agent_id="+l.agent, `{}`).want(t, 200).id(t)
				path, cancel = "/v1/conversations/"+conv+"/messages", "/v1/conversations/"+conv+"/cancel"
			case "own conversation":
				cancel = "/v1/conversations/default/cancel?agent_id=" + l.agent
			}
			said, goOn := p.begins(t, func() got {
				return l.do("POST", path, fmt.Sprintf(`{"input":%q%s}`, poisoned, more))
			})
			ch := l.do("POST", cancel, body)
			expect.Equal(t, ch.status == 200 && strings.HasPrefix(ch.body, `{"run-`) && strings.HasSuffix(strings.TrimSpace(ch.body), `":"cancelled"}`), true, more, by, "the canceller reads", ch.status, ch.body)
			goOn()
			a := <-said
			expect.Equal(t, a.status == 200 && strings.Contains(a.body, `"stop_reason":"cancelled"`) && !strings.Contains(a.body, "requires_approval") && p.messages.Load() == 1, true, more, by, p.messages.Load(), "requests, the caller reads", a.status, a.body)
			if by != "conversation" { // the embedded server keeps a conversation's pause with the agent
				l.left(true, 1, more, by)
				l.once("runs:mem0", l.in(proxy.DefaultReconcile))
				l.left(false, 0, more, by)
				expect.Equal(t, p.messages.Load(), 2, more, by, "requests")
			}
			l.do("POST", path, `{"input":"SAY hello","streaming":false}`).want(t, 200).has(t, "hello")
			l.blocks("Ann", "helper")
		}
	}
}

// Proves EDGE-1: when the last request of a turn has been answered the server has nothing to
// cancel, and its conflict is the answer, also while the gate still looks up what the turn
// changed: both callers read what happened.
func TestEndedTurnsAreNotCancelled(t *testing.T) {
	t.Parallel()
	for _, more := range []string{`,"streaming":false`, `,"streaming":true`} {
		l, p := startPaused(t, someAgent, lookUpAfter(2), func(p *pausedServer, h http.Handler) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodPost || p.messages.Load() != 2 || !strings.HasSuffix(r.URL.Path, "/messages") {
					h.ServeHTTP(w, r)
					return
				}
				rec := httptest.NewRecorder()
				h.ServeHTTP(rec, r)
				w.Header().Set("Content-Type", rec.Header().Get("Content-Type"))
				_, _ = io.WriteString(w, strings.ReplaceAll(rec.Body.String(), "plays go", "plays chess")) // not the predicted text: it is looked up
			}
		})
		said, goOn := p.begins(t, func() got {
			return l.say("CALL memory_insert {\"label\":\"human\",\"new_string\":\"plays go\"}\nTHEN\nSAY done", more)
		})
		l.do("POST", "/v1/agents/"+l.agent+"/messages/cancel", `{}`).want(t, 409, more).has(t, "No active runs")
		goOn()
		(<-said).want(t, 200, more).has(t, `"stop_reason":"end_turn"`)
	}
}

// Proves EDGE-1: a turn ends as cancelled only if the server has cancelled its run: neither
// the caller's own request to cancel nor memproxy's counts if the server did not carry it out.
func TestCancellationsThatFail(t *testing.T) {
	t.Parallel()
	failed := func(w http.ResponseWriter) {
		replies(w, http.StatusOK, `{"run-00000000-0000-4000-8000-000000000007":"failed"}`)
	}
	conflict := func(w http.ResponseWriter) {
		replies(w, http.StatusConflict, `{"detail":"No active runs to cancel"}`)
	}
	for name, tc := range map[string]struct {
		callers, own   func(http.ResponseWriter)
		messages       int32
		canceller, say string
		status         int
		human          string // after the next turn
	}{
		"the caller's":             {failed, conflict, 2, `"failed"`, `"end_turn"`, 200, "Ann\nlikes tea"},
		"memproxy's":               {conflict, failed, 1, `"cancelled"`, "upstream.unavailable", 502, "Ann"},
		"memproxy's, by a refusal": {conflict, conflict, 1, `"cancelled"`, "upstream.unavailable", 502, "Ann"},
	} {
		t.Run(name, func(t *testing.T) {
			l, p := startPaused(t, someAgent, lookUpAfter(1), func(_ *pausedServer, h http.Handler) http.HandlerFunc {
				var cancels atomic.Int32
				return func(w http.ResponseWriter, r *http.Request) {
					switch {
					case !strings.HasSuffix(r.URL.Path, "/cancel"):
						h.ServeHTTP(w, r)
					case cancels.Add(1) == 1:
						tc.callers(w)
					default:
						tc.own(w)
					}
				}
			})
			said, goOn := p.begins(t, func() got {
				return l.say("CALL memory_insert {\"label\":\"human\",\"new_string\":\"likes tea\"}\nTHEN\nSAY done", "")
			})
			l.do("POST", "/v1/agents/"+l.agent+"/messages/cancel", `{}`).want(t, 200).has(t, tc.canceller)
			goOn()
			(<-said).want(t, tc.status).has(t, tc.say)
			expect.Equal(t, p.messages.Load(), tc.messages, "messages")
			l.say("SAY hello", "").want(t, 200).has(t, "hello")
			l.blocks(tc.human, "helper")
		})
	}
}

// Proves TRL-2: a call that was admitted and not sent, because the turn was cancelled
// meanwhile, is recorded as that.
func TestCallsThatACancellationOvertakes(t *testing.T) {
	t.Parallel()
	l, p := startPaused(t, searchingAgent, func(r *http.Request, _ int32) bool {
		return strings.HasSuffix(r.URL.Path, "/archival_memory_search/run")
	}, func(_ *pausedServer, h http.Handler) http.HandlerFunc { return h.ServeHTTP })
	said, goOn := p.begins(t, func() got {
		return l.say("CALL memory_insert {\"label\":\"human\",\"new_string\":\"likes tea\"}\nCALL archival_memory_search {\"query\":\"tea\"}\nTHEN\nSAY done", "")
	})
	l.do("POST", "/v1/agents/"+l.agent+"/messages/cancel", `{}`).want(t, 200)
	goOn()
	(<-said).want(t, 200).has(t, `"stop_reason":"cancelled"`)
	l.outcomes(`the request did not reach the backend`)
	l.blocks("Ann", "helper")
}
