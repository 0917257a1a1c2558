package app_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/letta/embedded"
	"github.com/memproxy/memproxy/internal/expect"
)

var toolReturn = regexp.MustCompile(`"tool_return":"[^"]*"`)

// quietTools is a server whose tools say nothing of what they wrote, so that it is read back:
// the result of a run from outside is replaced by result, with its status.
type quietTools struct {
	http.Handler
	status int
	result string
}

func (q *quietTools) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !strings.HasSuffix(r.URL.Path, "/run") {
		got := httptest.NewRecorder()
		q.Handler.ServeHTTP(got, r)
		maps.Copy(w.Header(), got.Header())
		w.WriteHeader(got.Code)
		_, _ = w.Write(toolReturn.ReplaceAll(got.Body.Bytes(), []byte(`"tool_return":"None"`)))
		return
	}
	q.Handler.ServeHTTP(httptest.NewRecorder(), r)
	replies(w, q.status, q.result)
}

const quietResult = `{"status":"success","func_return":"None","stdout":null,"stderr":null}`

func startQuietTools(t *testing.T, status int, result string) *racedBlocks {
	t.Helper()
	r := &racedBlocks{raced: startRaced(t, lettaConf, &quietTools{embedded.New(), status, result})}
	r.agent = r.made("human", "/v1/agents/", `{"name":"t","agent_type":"letta_v1_agent","tools":["memory_replace","core_memory_append"]}`)
	r.boat = r.made("peer", "/v1/blocks/", `{"label":"boat","value":"Ann has a boat"}`)
	r.attach("attach", r.boat).want(t, 200)
	return r
}

// afterCalls has something happen after the backend served the second request of a turn, in
// which its calls ran.
func (r *racedBlocks) afterCalls(do func()) {
	r.meanwhile("POST", "/messages", func() { r.afterServing("POST", "/messages", do) })
}

// atReadBack has something happen when the agent is read back after that.
func (r *racedBlocks) atReadBack(do func()) {
	r.afterCalls(func() { r.meanwhile("GET", "/v1/agents/"+r.agent, do) })
}

// plane changes the boat as a caller.
func (r *racedBlocks) plane(who string) got {
	return r.do(call{"PATCH", "/v1/blocks/" + r.boat, `{"value":"Ann has a plane"}`}, who)
}

// sailingCalls are calls of tools that change the boat.
var sailingCalls = map[string]string{"memory_replace": `{"label":"boat","old_string":"has","new_string":"sails"}`, "core_memory_append": `{"label":"boat","content":"sails"}`}

// startTools is startQuietTools, or a server whose tools say what they return.
func startTools(t *testing.T, quiet bool) *racedBlocks {
	t.Helper()
	r := startQuietTools(t, 200, quietResult)
	if !quiet {
		r.back.Handler = r.back.Handler.(*quietTools).Handler
	}
	return r
}

func (r *racedBlocks) run(tool, args, who string) got {
	return r.do(call{"POST", "/v1/agents/" + r.agent + "/tools/" + tool + "/run", `{"args":` + args + `}`}, who)
}

// holdReadBack holds the request that reads the agent back after a tool was run, until let is
// closed.
func (r *racedBlocks) holdReadBack() (let chan struct{}) {
	let = make(chan struct{})
	r.afterServing("POST", "/run", func() { r.meanwhile("GET", "/v1/agents/"+r.agent, func() { <-let }) })
	return let
}

// begin starts a request, and returns once it is answered or waits.
func begin(do func() got) <-chan got {
	done := make(chan got, 1)
	go func() { done <- do() }()
	synctest.Wait()
	return done
}

// together is begin for what happens meanwhile, while the test itself waits.
func together(do func() got) <-chan got {
	done := make(chan got, 1)
	go func() { done <- do() }()
	time.Sleep(time.Millisecond)
	return done
}

// Proves EDGE-4, TRL-5: what a tool that is run from outside changed is read back before its
// answer, and until then the next change of the block waits: each is recorded as its own
// caller's, with its own text, in whichever way the next one comes and the answer goes.
func TestNextChangesAreNotTheToolRuns(t *testing.T) {
	const replaces = `{"label":"boat","old_string":"boat","new_string":"plane"}`
	answers := map[string]*quietTools{
		"answered":   {nil, 200, quietResult},
		"lost":       {nil, 500, `{"detail":"away"}`},
		"unreadable": {nil, 200, `{"status":`},
	}
	next := map[string]func(r *racedBlocks) got{
		"the same caller": func(r *racedBlocks) got { return r.plane("peer") },
		"another":         func(r *racedBlocks) got { return r.plane("human") },
		"by label": func(r *racedBlocks) got {
			return r.do(call{"PATCH", "/v1/agents/" + r.agent + "/core-memory/blocks/boat", `{"value":"Ann has a plane"}`}, "human")
		},
		"another run": func(r *racedBlocks) got { return r.run("memory_replace", replaces, "human") },
		"an agent's turn": func(r *racedBlocks) got {
			return r.do(call{"POST", "/v1/agents/" + r.agent + "/messages", fmt.Sprintf(`{"input":%q}`, "CALL memory_replace "+replaces+"\nTHEN\nSAY done")}, "human")
		},
	}
	for tool, args := range sailingCalls {
		for answer, how := range answers {
			for who, change := range next {
				inBubble(t, tool+", "+answer+", "+who, func(t *testing.T) {
					r := startQuietTools(t, how.status, how.result)
					let := r.holdReadBack()
					first := begin(func() got { return r.run(tool, args, "peer") })
					r.happened()
					changed := begin(func() got { return change(r) })
					expect.Len(t, first, 0, "answered before it was read back")
					expect.Len(t, changed, 0, "the next change did not wait")
					close(let)
					<-first
					<-changed
					r.recorded(who)
				})
			}
		}
	}
}

// recorded checks the versions of the boat: what the tool made is the first caller's, and
// what came next another's, unless it is the same caller.
func (r *racedBlocks) recorded(who string) {
	r.t.Helper()
	other := "human:ann"
	if who == "the same caller" {
		other = "agent:peer"
	}
	h := r.history(r.boat)
	first := slices.IndexFunc(h, func(v string) bool { return strings.HasPrefix(v, "self_edit") && strings.Contains(v, "sails") })
	expect.Equal(r.t, len(h) == 3 && first == 1 && strings.HasSuffix(h[1], "by agent:peer") && !strings.Contains(h[1], "plane") && strings.Contains(h[2], "plane") && strings.HasSuffix(h[2], "by "+other), true, who, strings.Join(h, "\n"))
}

// Proves EDGE-4: a change of a tool that could not be read back is nobody's once the next
// caller has changed the block: not that caller's.
func TestChangesThatWereNotReadBackAreNobodys(t *testing.T) {
	inBubble(t, "", func(t *testing.T) {
		r := startQuietTools(t, 200, quietResult)
		away := r.back.Handler
		r.afterServing("POST", "/run", func() {
			r.meanwhile("GET", "/v1/agents/"+r.agent, func() { r.back.Handler = http.NotFoundHandler() })
		})
		r.run("core_memory_append", `{"label":"boat","content":"sails"}`, "peer").want(t, 200)
		r.happened()
		r.back.Handler = away
		r.plane("human").want(t, 200)
		r.became(`seal "Ann has a boat\nsails" before "Ann has a boat" by `, `update "Ann has a plane" before "Ann has a boat\nsails" by human:ann`)
	})
}

// turns sends a message to the agent, as a caller, and returns what the caller has received and
// a channel that is closed at the end.
func (r *racedBlocks) turns(text, more, who string) (w *httptest.ResponseRecorder, over <-chan struct{}) {
	q := httptest.NewRequestWithContext(context.Background(), "POST", "http://127.0.0.1/v1/agents/"+r.agent+"/messages", strings.NewReader(fmt.Sprintf(`{"input":%q%s}`, text, more)))
	for header := as(who); len(header) > 0; header = header[2:] {
		q.Header.Set(header[0], header[1])
	}
	q.Header.Set("Content-Type", "application/json")
	w = httptest.NewRecorder()
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.car.Handler("mem0").ServeHTTP(w, q)
	}()
	synctest.Wait()
	return w, done
}

// turn is turns until the end.
func (r *racedBlocks) turn(text, more, who string) *httptest.ResponseRecorder {
	w, over := r.turns(text, more, who)
	<-over
	return w
}

// became fails the test unless the boat has had these versions after the first.
func (r *racedBlocks) became(want ...string) {
	r.t.Helper()
	expect.List(r.t, r.history(r.boat)[1:], want, "versions")
}

const streamEnd = `data: {"message_type":"stop_reason","stop_reason":"end_turn"}`

// replaceInAnswers replaces a text in the backend's answers.
func (r *racedBlocks) replaceInAnswers(text, by string, most int) {
	back := r.back.Handler
	r.back.Handler = http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		got := httptest.NewRecorder()
		back.ServeHTTP(got, q)
		maps.Copy(w.Header(), got.Header())
		w.WriteHeader(got.Code)
		_, _ = w.Write(bytes.Replace(got.Body.Bytes(), []byte(text), []byte(by), most))
	})
}

// Proves EDGE-4, TRL-5: what an agent's call changed is read back before the end of its turn's
// answer, and the next change of the block waits for that; the rest of a stream does not.
func TestNextChangesAreNotTheTurns(t *testing.T) {
	const failed, unnamed = `,"streaming":true, "stream_tokens":true`, `,"streaming": true`
	for tool, args := range sailingCalls {
		for _, more := range []string{``, `,"streaming":true`, `,"streaming":true,"stream_tokens":true`, failed, unnamed} {
			inBubble(t, tool+more, func(t *testing.T) {
				r := startQuietTools(t, 200, quietResult)
				switch more {
				case failed:
					r.replaceInAnswers(streamEnd, strings.Replace(streamEnd, "end_turn", "llm_api_error", 1)+"\n\nevent: error\ndata: {\"message_type\":\"error_message\",\"detail\":\"x\"}", 1)
				case unnamed: // each event has a name, which is empty
					r.replaceInAnswers("data: ", "event:\ndata: ", -1)
				}
				let := make(chan struct{})
				r.atReadBack(func() { <-let })
				w, over := r.turns("CALL "+tool+" "+args+"\nTHEN\nSAY done", more, "peer")
				r.happened()
				if sent := w.Body.String(); strings.Contains(sent, "stop_reason") || strings.Contains(sent, "event: error") || more != "" && !strings.Contains(sent, "done") {
					t.Errorf("sent before it was read back: %s", sent)
				}
				changed := begin(func() got { return r.plane("human") })
				expect.Len(t, changed, 0, "the next change did not wait")
				close(let)
				<-over
				<-changed
				expect.Text(t, w.Body.String()).Has("stop_reason")
				r.recorded("another")
			})
		}
	}
}

// Proves EDGE-4, TRL-5: a call of a turn that waited for another change of its block is
// recorded with the text that this change left before it.
func TestCallsThatWaitedFollowTheOtherChange(t *testing.T) {
	for tool, args := range sailingCalls {
		for _, quiet := range []bool{true, false} {
			inBubble(t, fmt.Sprint(tool, ", quiet: ", quiet), func(t *testing.T) {
				r := startTools(t, quiet)
				var changed <-chan got
				r.meanwhile("POST", "/messages", func() {
					r.afterServing("GET", "/v1/agents/"+r.agent, func() {
						r.meanwhile("PATCH", "/v1/blocks/"+r.boat, func() { time.Sleep(time.Second) })
						changed = together(func() got { return r.plane("human") })
					})
				})
				w := r.turn("CALL "+tool+" "+args+"\nTHEN\nSAY done", "", "human")
				r.happened()
				(<-changed).want(t, 200)
				expect.Equal(t, w.Code, 200)
				want := map[string]string{"memory_replace": "Ann sails a plane", "core_memory_append": `Ann has a plane\nsails`}[tool]
				r.became(`update "Ann has a plane" before "Ann has a boat" by human:ann`, `self_edit "`+want+`" before "Ann has a plane" by human:ann`)
				time.Sleep(time.Minute)                                                           // until the log is signed
				corrections := map[string]int{"memory_replace": 2, "core_memory_append": 1}[tool] // also the other change's
				expect.Equal(t, r.records(memproxy.EventCrossCorrection), corrections)
			})
		}
	}
}

// Proves EDGE-4, TRL-5: a change of a block between two pauses of a turn waits until what the
// first call made is read back and recorded.
func TestNextChangesWaitBetweenTwoPauses(t *testing.T) {
	for _, more := range []string{``, `,"streaming":true`} {
		inBubble(t, more, func(t *testing.T) {
			r := startQuietTools(t, 200, quietResult)
			let := make(chan struct{})
			r.atReadBack(func() { <-let })
			_, over := r.turns("CALL core_memory_append {\"label\":\"boat\",\"content\":\"sails\"}\nTHEN\nCALL core_memory_append {\"label\":\"boat\",\"content\":\"swims\"}\nTHEN\nSAY done", more, "peer")
			r.happened()
			changed := begin(func() got { return r.plane("human") })
			expect.Len(t, changed, 0, "the next change did not wait")
			close(let)
			<-over
			(<-changed).want(t, 200)
			r.became(`self_edit "Ann has a boat\nsails" before "Ann has a boat" by agent:peer`, `update "Ann has a plane" before "Ann has a boat\nsails" by human:ann`, `self_edit "Ann has a plane\nswims" before "Ann has a plane" by agent:peer`)
		})
	}
}

// Proves EDGE-4, TRL-5: a change of a block during a turn that takes longer than changes wait is
// its caller's alone, whether the agent's call is read back or reports its text: what the call
// wrote before is nobody's.
func TestChangesDuringATurnAreTheirCallers(t *testing.T) {
	for name, change := range map[string]func(r *racedBlocks) got{
		"by id": func(r *racedBlocks) got { return r.plane("human") },
		"by a tool": func(r *racedBlocks) got {
			return r.run("memory_rethink", `{"label":"boat","new_memory":"Ann has a plane"}`, "human")
		},
	} {
		for _, quiet := range []bool{true, false} {
			inBubble(t, fmt.Sprint(name, ", quiet: ", quiet), func(t *testing.T) {
				r := startTools(t, quiet)
				r.afterCalls(func() {
					time.Sleep(5 * time.Minute)
					change(r).want(t, 200)
				})
				w := r.turn("CALL core_memory_append {\"label\":\"boat\",\"content\":\"sails\"}\nTHEN\nSAY done", "", "peer")
				r.happened()
				expect.Equal(t, w.Code, 200)
				h := r.history(r.boat)
				expect.Equal(t, len(h) == 3 && h[1] == `seal "Ann has a boat\nsails" before "Ann has a boat" by ` && strings.Contains(h[2], `"Ann has a plane" before "Ann has a boat\nsails" by human:ann`), true, strings.Join(h, "\n"))
			})
		}
	}
}

// Proves EDGE-4, TRL-5: an approved write during a turn has a decision that is older than the
// turn, and is its author's all the same; and a forged stamp takes no change of the agent's out
// of the record.
func TestOlderDecisionsAndForgedStamps(t *testing.T) {
	const turn = "CALL core_memory_append {\"label\":\"boat\",\"content\":\"sails\"}\nTHEN\nSAY done"
	for _, quiet := range []bool{true, false} {
		inBubble(t, fmt.Sprint("approved, quiet: ", quiet), func(t *testing.T) {
			r := startTools(t, quiet)
			r.do(call{"PATCH", "/v1/blocks/" + r.boat, `{"value":"Ann has boats"}`}, "human").want(t, 200)
			held := heldID(t, r.plane(""))
			r.afterCalls(func() {
				time.Sleep(5 * time.Minute)
				expect.Equal(t, r.approved(held).State, memproxy.HoldDone)
			})
			r.turn(turn, "", "human")
			r.happened()
			r.became(`update "Ann has boats" before "Ann has a boat" by human:ann`, `seal "Ann has boats\nsails" before "Ann has boats" by `, `update "Ann has a plane" before "Ann has boats\nsails" by agent:dev`)
		})
		inBubble(t, fmt.Sprint("forged, quiet: ", quiet), func(t *testing.T) {
			r := startTools(t, quiet)
			forged := fmt.Sprintf(`{"metadata":{"memproxy_id":"ffffffff-ffff-7fff-bfff-ffffffffffff","memproxy_sig":"AAAA","memproxy_sha256":%q}}`, sha("Ann has a boat\nsails"))
			r.back.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPatch, "/v1/blocks/"+r.boat, strings.NewReader(forged)))
			r.turn(turn, "", "peer")
			r.became(`self_edit "Ann has a boat\nsails" before "Ann has a boat" by agent:peer`)
		})
	}
}
