package app

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/memproxy/memproxy/internal/ring"
)

// Proves EDGE-1: a request to cancel that arrives between two requests of a turn, while the
// gate rules on a call, ends the turn, whether it names the run, the agent or the
// conversation: no request follows, both callers read that the run was cancelled, and neither
// this turn nor the next makes the pending call.
func TestTurnsAreCancelledBetweenRequests(t *testing.T) {
	t.Parallel()
	auth := []string{"Authorization", "Bearer " + devToken}
	for _, more := range []string{`,"streaming":false`, `,"streaming":true`, `,"streaming":true,"stream_tokens":true,"background":true`} {
		for _, by := range []string{"run", "agent", "conversation", "own conversation"} {
			var requests atomic.Int32
			release, reached := make(chan struct{}), make(chan struct{})
			var pause sync.Once
			l := startLettaBehind(t, someAgent, func(h http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					switch {
					case strings.HasSuffix(r.URL.Path, "/messages") && r.Method == http.MethodPost:
						requests.Add(1)
					case r.Method == http.MethodGet && requests.Load() == 1:
						pause.Do(func() { close(reached); <-release })
					case strings.HasPrefix(r.URL.Path, "/v1/conversations/") && strings.HasSuffix(r.URL.Path, "/cancel"):
						http.Error(w, `{"detail":"No active runs to cancel"}`, http.StatusConflict)
						return
					}
					h.ServeHTTP(w, r)
				})
			})
			path, cancel, body := "/v1/agents/"+l.agent+"/messages", "/v1/agents/"+l.agent+"/messages/cancel", `{}`
			switch by {
			case "run":
				body = `{"run_ids":["run-00000000-0000-4000-8000-000000000007"]}`
			case "conversation":
				var conv struct{ ID string }
				l.into(&conv, "POST", "/v1/conversations/?agent_id="+l.agent, `{}`, auth...)
				path, cancel = "/v1/conversations/"+conv.ID+"/messages", "/v1/conversations/"+conv.ID+"/cancel"
			case "own conversation":
				cancel = "/v1/conversations/default/cancel?agent_id=" + l.agent
			}
			said := make(chan got, 1)
			go func() {
				said <- l.do("POST", path, fmt.Sprintf(`{"input":%q%s}`, poisoned, more), auth...)
			}()
			select {
			case <-reached:
			case <-time.After(ring.Limit):
				t.Fatal("the gate asks for nothing")
			}
			if ch := l.do("POST", cancel, body, auth...); ch.status != 200 || !strings.HasPrefix(ch.body, `{"run-`) || !strings.HasSuffix(strings.TrimSpace(ch.body), `":"cancelled"}`) {
				t.Errorf("%s, %s: the canceller reads %d %s", more, by, ch.status, ch.body)
			}
			close(release)
			a := <-said
			if a.status != 200 || !strings.Contains(a.body, `"stop_reason":"cancelled"`) || strings.Contains(a.body, "requires_approval") || requests.Load() != 1 {
				t.Errorf("%s, %s: %d requests, the caller reads %d %s", more, by, requests.Load(), a.status, a.body)
			}
			l.do("POST", path, `{"input":"SAY hello","streaming":false}`, auth...).want(t, 200).has(t, "hello")
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
		var requests atomic.Int32
		release, reached := make(chan struct{}), make(chan struct{})
		var pause sync.Once
		l := startLettaBehind(t, someAgent, func(h http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch {
				case strings.HasSuffix(r.URL.Path, "/messages") && r.Method == http.MethodPost && requests.Add(1) == 2:
					rec := httptest.NewRecorder()
					h.ServeHTTP(rec, r)
					w.Header().Set("Content-Type", rec.Header().Get("Content-Type"))
					_, _ = io.WriteString(w, strings.ReplaceAll(rec.Body.String(), "plays go", "plays chess")) // not the predicted text: it is looked up
					return
				case r.Method == http.MethodGet && requests.Load() == 2:
					pause.Do(func() { close(reached); <-release })
				}
				h.ServeHTTP(w, r)
			})
		})
		goOn := sync.OnceFunc(func() { close(release) })
		t.Cleanup(goOn)
		said := make(chan got, 1)
		go func() {
			said <- l.say("CALL memory_insert {\"label\":\"human\",\"new_string\":\"plays go\"}\nTHEN\nSAY done", more)
		}()
		select {
		case <-reached:
		case <-time.After(ring.Limit):
			t.Fatal("the gate looks up nothing after the last request")
		}
		l.do("POST", "/v1/agents/"+l.agent+"/messages/cancel", `{}`, "Authorization", "Bearer "+devToken).want(t, 409, more).has(t, "No active runs")
		goOn()
		(<-said).want(t, 200, more).has(t, `"stop_reason":"end_turn"`)
	}
}
