package app_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/memproxy/memproxy/adapters/letta/embedded"
	"github.com/memproxy/memproxy/internal/expect"
)

// quietTools is a server whose tools say nothing of what they wrote, so that it is read back:
// the result of a run from outside is replaced by result, with its status.
type quietTools struct {
	http.Handler
	status int
	result string
}

func (q *quietTools) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !strings.HasSuffix(r.URL.Path, "/run") {
		q.Handler.ServeHTTP(w, r)
		return
	}
	q.Handler.ServeHTTP(httptest.NewRecorder(), r)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(q.status)
	_, _ = w.Write([]byte(q.result))
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

// Proves EDGE-4, TRL-5: what a tool that is run from outside changed is read back before its
// answer, and until then the next change of the block waits: each is recorded as its own
// caller's, with its own text, in whichever way the next one comes and the answer goes.
func TestNextChangesAreNotTheToolRuns(t *testing.T) {
	const replaces = `{"label":"boat","old_string":"boat","new_string":"plane"}`
	tools := map[string]string{"memory_replace": `{"label":"boat","old_string":"has","new_string":"sails"}`, "core_memory_append": `{"label":"boat","content":"sails"}`}
	answers := map[string]*quietTools{
		"answered":   {nil, 200, quietResult},
		"lost":       {nil, 500, `{"detail":"away"}`},
		"unreadable": {nil, 200, `{"status":`},
	}
	next := map[string]func(r *racedBlocks) got{
		"the same caller": func(r *racedBlocks) got {
			return r.do(call{"PATCH", "/v1/blocks/" + r.boat, `{"value":"Ann has a plane"}`}, "peer")
		},
		"another": func(r *racedBlocks) got {
			return r.do(call{"PATCH", "/v1/blocks/" + r.boat, `{"value":"Ann has a plane"}`}, "human")
		},
		"by label": func(r *racedBlocks) got {
			return r.do(call{"PATCH", "/v1/agents/" + r.agent + "/core-memory/blocks/boat", `{"value":"Ann has a plane"}`}, "human")
		},
		"another run": func(r *racedBlocks) got { return r.run("memory_replace", replaces, "human") },
		"an agent's turn": func(r *racedBlocks) got {
			return r.do(call{"POST", "/v1/agents/" + r.agent + "/messages", fmt.Sprintf(`{"input":%q}`, "CALL memory_replace "+replaces+"\nTHEN\nSAY done")}, "human")
		},
	}
	for tool, args := range tools {
		for answer, how := range answers {
			for who, change := range next {
				t.Run(tool+", "+answer+", "+who, func(t *testing.T) {
					inBubble(t, func(t *testing.T) {
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
	if len(h) != 3 || first != 1 || !strings.HasSuffix(h[1], "by agent:peer") || strings.Contains(h[1], "plane") || !strings.Contains(h[2], "plane") || !strings.HasSuffix(h[2], "by "+other) {
		r.t.Errorf("%s: %s", who, strings.Join(h, "\n"))
	}
}

// Proves EDGE-4: a change of a tool that could not be read back is nobody's once the next
// caller has changed the block: not that caller's.
func TestChangesThatWereNotReadBackAreNobodys(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := startQuietTools(t, 200, quietResult)
		away := r.back.Handler
		r.afterServing("POST", "/run", func() {
			r.meanwhile("GET", "/v1/agents/"+r.agent, func() { r.back.Handler = http.NotFoundHandler() })
		})
		r.run("core_memory_append", `{"label":"boat","content":"sails"}`, "peer").want(t, 200)
		r.happened()
		r.back.Handler = away
		r.do(call{"PATCH", "/v1/blocks/" + r.boat, `{"value":"Ann has a plane"}`}, "human").want(t, 200)
		h := r.history(r.boat)
		if len(h) != 3 || h[1] != `seal "Ann has a boat\nsails" before "Ann has a boat" by ` || h[2] != `update "Ann has a plane" before "Ann has a boat\nsails" by human:ann` {
			t.Error(strings.Join(h, "\n"))
		}
	})
}
