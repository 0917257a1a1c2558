package app_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/letta/embedded"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/proxy"
)

// Proves EDGE-4: a stop while a turn's changes are read back leaves no text that is nobody's, at
// the end of the turn and between two of its pauses.
func TestStopsWhileEditsAreReadBack(t *testing.T) {
	for _, rest := range []string{"", "\nTHEN\nCALL core_memory_append {\"label\":\"boat\",\"content\":\"swims\"}"} {
		for _, more := range []string{``, `,"streaming":true`} {
			inBubble(t, rest+more, func(t *testing.T) {
				r := startQuietTools(t, 200, quietResult)
				r.back.Handler = answering(func(w http.ResponseWriter, q *http.Request) bool {
					return q.Context().Err() != nil && replies(w, http.StatusGatewayTimeout, "")
				})(r.back.Handler)
				r.atReadBack(func() {
					r.car.Handler("mem0").(*proxy.Proxy).AbortAll()
					time.Sleep(time.Millisecond)
				})
				r.turn("CALL core_memory_append {\"label\":\"boat\",\"content\":\"sails\"}"+rest+"\nTHEN\nSAY done", more, "peer")
				r.happened()
				r.became(`self_edit "Ann has a boat\nsails" before "Ann has a boat" by agent:peer`)
			})
		}
	}
}

// Proves EDGE-4, TRL-5, EDGE-15: an approved write, and a call of an agent or a tool that is run
// from outside, one right after the other, are each its own author's; a write is not approved for
// the text that a call made. If the process is killed before the first is recorded, the next
// process records an approved write as its author's; what a tool made is nobody's.
func TestApprovedWritesNextToCalls(t *testing.T) {
	const append1 = `{"label":"boat","content":"sails"}`
	calls := map[string]struct {
		at string
		do func(r *racedBlocks)
	}{
		"turn": {"/messages", func(r *racedBlocks) {
			r.do(call{"POST", "/v1/agents/" + r.agent + "/messages", fmt.Sprintf(`{"input":%q}`, "CALL core_memory_append "+append1+"\nTHEN\nSAY done")}, "human")
		}},
		"tool": {"/run", func(r *racedBlocks) { r.run("core_memory_append", append1, "human") }},
	}
	for name, c := range calls {
		for _, approvedFirst := range []bool{true, false} {
			for _, quiet := range []bool{true, false} {
				for _, killed := range []bool{true, false} {
					inBubble(t, fmt.Sprintf("%s, approved first: %v, quiet: %v, killed: %v", name, approvedFirst, quiet, killed), func(t *testing.T) {
						r := startTools(t, quiet)
						r.do(call{"PATCH", "/v1/blocks/" + r.boat, `{"value":"Ann has boats"}`}, "human").want(t, 200)
						held := heldID(t, r.plane(""))
						approve := func() {
							must.Get(r.car.Ledger.Holds.Approve(t.Context(), held, memproxy.Review{Reviewer: "eve"}))(t)
							r.once("replays", r.car.clock())
						}
						first, next := func() { c.do(r) }, approve
						method, at := "POST", c.at
						if approvedFirst {
							first, next, method, at = next, first, "PATCH", "/v1/blocks/"+r.boat
						}
						over := make(chan struct{})
						then := func() { // the backend has made the first change
							if killed {
								r.kills()
								close(over)
								return
							}
							go func() { defer close(over); next() }()
							time.Sleep(time.Millisecond)
						}
						hook := func() { r.afterServing(method, at, then) }
						if method == "POST" && name == "turn" {
							r.meanwhile(method, at, hook) // the second request makes the call
						} else {
							hook()
						}
						first()
						<-over
						r.happened()
						if killed {
							r.revives(r.begin)
							r.once("outcomes", time.Now())
							next()
						}
						want, state := []string{`self_edit "Ann has boats\nsails" before "Ann has boats" by human:ann`}, memproxy.HoldFailed
						switch {
						case approvedFirst:
							want, state = []string{`update "Ann has a plane" before "Ann has boats" by agent:dev`, `self_edit "Ann has a plane\nsails" before "Ann has a plane" by human:ann`}, memproxy.HoldDone
							if killed {
								state = memproxy.HoldReplaying // a reviewer says whether it was sent
							}
						case killed:
							want, state = []string{`seal "Ann has boats\nsails" before "Ann has boats" by `, `update "Ann has a plane" before "Ann has boats\nsails" by agent:dev`}, memproxy.HoldDone
						}
						expect.Equal(t, must.Get(r.car.Ledger.Holds.Get(t.Context(), held))(t).State, state)
						r.became(append([]string{`update "Ann has boats" before "Ann has a boat" by human:ann`}, want...)...)
					})
				}
			}
		}
	}
}

// earlyApprovals is a server that has not stored a pause yet when its first approvals come, and
// does not answer the request with the number hangs. To a stream it has given its status by then.
type earlyApprovals struct {
	http.Handler
	refusals, hangs, asked int
}

func (e *earlyApprovals) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, "/messages") {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		switch e.asked++; {
		case e.asked == e.hangs:
			<-r.Context().Done()
			w.WriteHeader(http.StatusGatewayTimeout)
			return
		case e.asked == 1 || e.asked > e.refusals+1:
		case bytes.Contains(body, []byte(`"streaming":true`)):
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "data: {\"message_type\":\"ping\",\"run_id\":\"run-e%d\"}\n\ndata: {\"message_type\":\"stop_reason\",\"stop_reason\":\"error\"}\n\n", e.asked)
			fmt.Fprintf(w, "event: error\ndata: {\"message_type\":\"error_message\",\"run_id\":\"run-e%d\",\"error_type\":\"internal_error\",\"message\":\"An unknown error occurred with the LLM streaming request.\",\"detail\":\"StepMetrics not found with id='step-1'\"}\n\ndata: [DONE]\n\n", e.asked)
			return
		default:
			http.Error(w, `{"detail":"StepMetrics not found with ?"}`, http.StatusNotFound)
			return
		}
	}
	e.Handler.ServeHTTP(w, r)
}

const renamed = `CALL memory_replace {"label":"boat","old_string":"Ann","new_string":"Bea"}` + "\nTHEN\nSAY done"

// start starts a sidecar in front of the server, with an agent that has a block.
func (e *earlyApprovals) start(t *testing.T, conf string) *racedBlocks {
	t.Helper()
	r := &racedBlocks{raced: startRaced(t, conf, e)}
	r.agent = r.made("human", "/v1/agents/", `{"name":"t","agent_type":"letta_v1_agent","tools":["memory_replace"]}`)
	r.boat = r.made("human", "/v1/blocks/", `{"label":"boat","value":"Ann has a boat"}`)
	r.attach("attach", r.boat).want(t, 200)
	return r
}

// Proves EDGE-16: a Letta server refuses an approval that comes before it has stored the pause;
// the turn repeats it, and passes a refusal that lasts. It does not wait longer for the answer.
func TestApprovalsWaitUntilThePauseIsStored(t *testing.T) {
	for name, c := range map[string]struct {
		refusals, hangs, status, asked int
		want                           string
	}{"stored soon": {3, 0, 200, 5, "Bea"}, "never": {100, 0, 404, 8, "Ann has"}, "hangs": {3, 3, 504, 3, "Ann has"}} {
		for _, more := range []string{``, `,"streaming":true`, `,"streaming":true,"stream_tokens":true`, `,"streaming":true,"background":true`} {
			inBubble(t, name+more, func(t *testing.T) {
				e := &earlyApprovals{Handler: embedded.New(), refusals: c.refusals, hangs: c.hangs}
				r := e.start(t, lettaConf)
				a := r.do(call{"POST", "/v1/agents/" + r.agent + "/messages", fmt.Sprintf(`{"input":%q%s}`, renamed, more)}, "human")
				if more != "" {
					c.status = 200
					expect.Equal(t, strings.Count(a.body, "event: error"), map[bool]int{true: 1}[name != "stored soon"], a.body)
					ends := map[bool]int{true: 1}[name != "hangs"]
					expect.Equal(t, strings.Count(a.body, `"stop_reason":`), ends, a.body)
					expect.Equal(t, strings.Count(a.body, "[DONE]"), ends, a.body)
				}
				a.want(t, c.status, a.body)
				expect.Equal(t, e.asked, c.asked, "requests")
				r.do(call{"GET", "/v1/blocks/" + r.boat, ""}, "human").want(t, 200).has(t, c.want)
			})
		}
	}
}

// Proves EDGE-1, TRL-6: a turn broke off if the server refuses an approval to the end, or if a stop
// comes while the approval waits to be repeated: the call was not made, is not charged, and is
// declined.
func TestTurnsWhosePauseIsNeverStoredBreakOff(t *testing.T) {
	for name, end := range map[string]func(*racedBlocks){
		"refused": func(*racedBlocks) {},
		"stopped": func(r *racedBlocks) { r.car.Handler("mem0").(*proxy.Proxy).AbortAll() },
	} {
		for _, more := range []string{``, `,"streaming":true`} {
			inBubble(t, name+more, func(t *testing.T) {
				letta := embedded.New()
				e := &earlyApprovals{Handler: letta, refusals: 100}
				r := e.start(t, strings.Replace(lettaConf, "policy:", "budgets: {default: {writes_per_hour: 3}}\npolicy:", 1))
				_, over := r.turns(renamed, more, "human")
				time.Sleep(50 * time.Millisecond)
				end(r)
				<-over
				r.made("human", "/v1/blocks/", `{"label":"tea","value":"Ann likes tea"}`)
				e.refusals = 0
				r.once("runs:mem0", r.car.clock().Add(time.Minute))
				expect.Text(t, r.audit("--type", "outcome"), "calls").Times(1, memproxy.NotReached)
				expect.Text(t, r.audit("--type", "decision"), "declined").Times(1, `"id":"system:reconciler"`)
				expect.Equal(t, letta.Value(r.agent, "boat"), "Ann has a boat")
			})
		}
	}
}

// Proves EDGE-4: a backend that does not answer when a turn's changes are read back delays the
// end of the answer by one deadline.
func TestReadBacksThatHangCostOneDeadline(t *testing.T) {
	for _, more := range []string{``, `,"streaming":true`} {
		inBubble(t, "", func(t *testing.T) {
			r := startQuietTools(t, 200, quietResult)
			hung, back := 0, r.back.Handler
			r.afterCalls(func() {
				r.back.Handler = answering(func(w http.ResponseWriter, q *http.Request) bool {
					if !strings.HasSuffix(q.URL.Path, r.agent) {
						return false
					}
					hung++
					<-q.Context().Done()
					return replies(w, http.StatusGatewayTimeout, "")
				})(back)
			})
			w := r.turn("CALL core_memory_append {\"label\":\"boat\",\"content\":\"sails\"}\nTHEN\nSAY done", more, "peer")
			expect.Equal(t, hung, 1)
			expect.Text(t, w.Body.String()).Has("stop_reason")
		})
	}
}

// Proves EDGE-1: a run that cannot be settled when it ends is settled later by the same
// process, after a delay.
func TestUnsettledRunsAreTriedAgain(t *testing.T) {
	inBubble(t, "", func(t *testing.T) {
		letta := embedded.New()
		m := &meddler{Handler: letta}
		r := &racedBlocks{raced: startRaced(t, compensating, m)}
		r.agent = r.made("human", "/v1/agents/", `{"name":"t","agent_type":"memgpt_agent","tools":["memory_replace"]}`)
		r.boat = r.made("human", "/v1/blocks/", `{"label":"boat","value":"Ann has a boat"}`)
		r.attach("attach", r.boat).want(t, 200)
		m.set(func(w http.ResponseWriter, q *http.Request) bool { return q.Method == http.MethodPatch && refusal(w) })
		w := r.turn("CALL memory_replace {\"label\":\"boat\",\"old_string\":\"has\",\"new_string\":\"sells\"}\nTHEN\nSAY done", "", "")
		expect.Equal(t, w.Code, 200)
		m.set(nil)
		settle := func(want, when string) {
			t.Helper()
			expect.OK(t, r.car.Once(t.Context(), "runs:mem0", time.Now()))
			time.Sleep(10 * time.Second)
			expect.Equal(t, letta.Value(r.agent, "boat"), want, when)
		}
		settle("Ann sells a boat", "at once")
		time.Sleep(5 * time.Second)
		settle("Ann has a boat", "after the delay")
	})
}
