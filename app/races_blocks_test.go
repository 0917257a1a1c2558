package app_test

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/letta/embedded"
	"github.com/memproxy/memproxy/internal/expect"
)

// racedBlocks is a sidecar in front of Letta with an agent that has two blocks.
type racedBlocks struct {
	*raced
	agent, human, boat string
}

func startRacedBlocks(t *testing.T) *racedBlocks {
	t.Helper()
	r := &racedBlocks{raced: startRaced(t, lettaConf, embedded.New())}
	r.agent = r.made("human", "/v1/agents/", `{"name":"t","agent_type":"letta_v1_agent","tools":["memory_replace"]}`)
	r.human = r.made("", "/v1/blocks/", `{"label":"human","value":"Ann likes tea"}`)
	r.boat = r.made("human", "/v1/blocks/", `{"label":"boat","value":"Ann has a boat"}`)
	for _, block := range []string{r.human, r.boat} {
		r.attach("attach", block).want(t, 200)
	}
	return r
}

func (r *racedBlocks) attach(how, block string) got {
	return r.do(call{"PATCH", "/v1/agents/" + r.agent + "/core-memory/blocks/" + how + "/" + block, ""}, "human")
}

func (r *racedBlocks) change(block, body string) got {
	return r.do(call{"PATCH", "/v1/blocks/" + block, body}, "human")
}

func (r *racedBlocks) changeByLabel(body string) got {
	return r.do(call{"PATCH", "/v1/agents/" + r.agent + "/core-memory/blocks/human", body}, "")
}

func (r *racedBlocks) has(block, text string) {
	r.t.Helper()
	r.do(call{"GET", "/v1/blocks/" + block, ""}, "human").want(r.t, 200).has(r.t, text)
}

// Proves EDGE-4, TRL-5: a label names the block on which the request was ruled until the
// request is answered: for a conversation's copies too, and after the block was looked up.
func TestLabelsNameTheBlockThatWasRuledOn(t *testing.T) {
	inBubble(t, "copied into a conversation", func(t *testing.T) {
		r := startRacedBlocks(t)
		other := r.made("human", "/v1/blocks/", `{"label":"human","value":"Ann pays for everything"}`)
		var attached <-chan got
		r.meanwhile("POST", "/v1/conversations", func() { attached = waits(t, func() got { return r.attach("attach", other) }) })
		r.do(call{"POST", "/v1/conversations/?agent_id=" + r.agent, `{"isolated_block_labels":["human"]}`}, "").want(t, 200)
		r.happened()
		(<-attached).want(t, 200)
	})
	inBubble(t, "given to another block after the look-up", func(t *testing.T) {
		r := startRacedBlocks(t)
		r.afterServing("GET", "/core-memory/blocks/human", func() {
			r.change(r.human, `{"label":"old"}`).want(t, 200)
			r.change(r.boat, `{"label":"human"}`).want(t, 200)
		})
		r.changeByLabel(`{"value":"Ann likes wine"}`).want(t, 503).has(t, "limit.in_flight")
		r.happened()
		r.has(r.human, "likes tea")
		r.has(r.boat, "has a boat")
	})
	inBubble(t, "its text changed after the look-up", func(t *testing.T) {
		r := startRacedBlocks(t)
		r.afterServing("GET", "/core-memory/blocks/human", func() {
			r.do(call{"PATCH", "/v1/blocks/" + r.human, `{"value":"Ann likes milk"}`}, "").want(t, 200)
		})
		r.changeByLabel(`{"value":"Ann likes wine"}`).want(t, 200)
		r.happened()
		r.has(r.human, "likes wine")
	})
}

// Proves EDGE-4, TRL-5: a tool that is run from outside, or that an agent calls, changes the
// block on which the call was ruled: a change of that block by its id waits until then.
func TestToolCallsChangeTheTextThatWasRuledOn(t *testing.T) {
	const args = `{"label":"human","old_string":"tea","new_string":"milk"}`
	calls := call{"POST", "/v1/agents/AGENT/messages", fmt.Sprintf(`{"input":%q}`,
		"CALL memory_replace "+args+"\nCALL memory_replace "+strings.ReplaceAll(args, "milk", "milk and wine")+"\nTHEN\nSAY done")}
	for name, c := range map[string]struct {
		method, at string
		second     bool // the change comes before the second such request
		do         call
	}{
		"run from outside":       {"POST", "/tools/memory_replace/run", false, call{"POST", "/v1/agents/AGENT/tools/memory_replace/run", `{"args":` + args + `}`}},
		"called by the agent":    {"POST", "/messages", true, calls},
		"between two such calls": {"GET", "/core-memory/blocks/human", true, calls},
	} {
		inBubble(t, name, func(t *testing.T) {
			r := startRacedBlocks(t)
			do := c.do
			do.path = strings.ReplaceAll(do.path, "AGENT", r.agent)
			var changed <-chan got
			hook := func() {
				changed = waits(t, func() got { return r.change(r.human, `{"value":"Ann likes wine"}`) })
			}
			if c.second {
				last := hook
				hook = func() { r.meanwhile(c.method, c.at, last) }
			}
			r.meanwhile(c.method, c.at, hook)
			began := time.Now()
			r.do(do, "").want(t, 200)
			r.happened()
			expect.Equal(t, time.Since(began), 0, "the calls waited")
			(<-changed).want(t, 200)
			r.has(r.human, "likes wine")
		})
	}
}

// Proves EDGE-4, TRL-5: a change of a conversation's own block by its id waits for a call of a
// turn in the conversation, like one of an agent's block.
func TestCallsChangeTheIsolatedTextThatWasRuledOn(t *testing.T) {
	for _, script := range []string{`CALL memory_replace {"label":"human","old_string":"tea","new_string":"milk"}`, `CALL core_memory_append {"label":"human","content":"milk"}`} {
		inBubble(t, script, func(t *testing.T) {
			letta := embedded.New()
			copied := ""
			r := &racedBlocks{raced: startRaced(t, lettaConf, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				got := httptest.NewRecorder()
				letta.ServeHTTP(got, q)
				maps.Copy(w.Header(), got.Header())
				w.WriteHeader(got.Code)
				_, _ = w.Write(bytes.Replace(got.Body.Bytes(), []byte(`"isolated_block_ids":[]`), []byte(`"isolated_block_ids":["`+copied+`"]`), 1))
			}))}
			r.agent = r.made("human", "/v1/agents/", `{"name":"t","agent_type":"letta_v1_agent","tools":["memory_replace","core_memory_append"]}`)
			r.attach("attach", r.made("human", "/v1/blocks/", `{"label":"human","value":"Ann likes tea"}`)).want(t, 200)
			copied = r.made("human", "/v1/blocks/", `{"label":"human","value":"Ann likes tea"}`)
			talk := r.made("human", "/v1/conversations/?agent_id="+r.agent, `{}`)
			var changed <-chan got
			r.meanwhile("POST", "/messages", func() {
				r.meanwhile("POST", "/messages", func() {
					changed = waits(t, func() got { return r.change(copied, `{"value":"Ann likes wine"}`) })
				})
			})
			r.do(call{"POST", "/v1/conversations/" + talk + "/messages", fmt.Sprintf(`{"input":%q,"streaming":false}`, script+"\nTHEN\nSAY done")}, "human").want(t, 200)
			r.happened()
			(<-changed).want(t, 200)
			r.has(copied, "likes wine")
		})
	}
}

// Proves TRL-5: a tool that is run from outside is judged by the recorded author of the block
// that it replaces, also if the block has lost its stamp.
func TestToolRunsAreJudgedByTheRecordedAuthor(t *testing.T) {
	inBubble(t, "", func(t *testing.T) {
		r := startRacedBlocks(t)
		r.back.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("PATCH", "/v1/blocks/"+r.boat, strings.NewReader(`{"metadata":{}}`)))
		run := func(args string) got {
			return r.do(call{"POST", "/v1/agents/" + r.agent + "/tools/memory_replace/run", `{"args":` + args + `}`}, "")
		}
		run(`{"label":"boat","old_string":"boat","new_string":"plane"}`).want(t, 403).has(t, "trust.authority")
		run(`{"label":"human","old_string":"tea","new_string":"milk"}`).want(t, 200)
		r.has(r.boat, "has a boat")
	})
}

// Proves TRL-5, TRL-8: a tool that is run from outside and looks its block up again, because it was
// changed meanwhile, corrects its author once.
func TestRunsThatLookTwiceCorrectOnce(t *testing.T) {
	inBubble(t, "", func(t *testing.T) {
		r := startQuietTools(t, 200, quietResult)
		r.afterServing("GET", "/core-memory/blocks/boat", func() {
			r.do(call{"PATCH", "/v1/blocks/" + r.boat, `{"value":"Ann has a plane"}`}, "peer").want(t, 200)
		})
		r.run("memory_replace", `{"label":"boat","old_string":"has","new_string":"sails"}`, "human").want(t, 200)
		r.happened()
		time.Sleep(time.Minute)
		expect.Equal(t, r.records(memproxy.EventCrossCorrection), 1)
	})
}

// Proves EDGE-4: a turn's call does not wait for a change of the agent that waits for the
// turn, although that change lists the block.
func TestTurnsDoNotWaitForWhatWaitsForThem(t *testing.T) {
	inBubble(t, "", func(t *testing.T) {
		r := startRacedBlocks(t)
		var changed <-chan got
		r.meanwhile("POST", "/messages", func() {
			changed = waits(t, func() got {
				return r.do(call{"PATCH", "/v1/agents/" + r.agent, `{"block_ids":["` + r.human + `"]}`}, "human")
			})
		})
		began := time.Now()
		r.do(call{"POST", "/v1/agents/" + r.agent + "/messages", `{"input":"CALL memory_replace {\"label\":\"human\",\"old_string\":\"tea\",\"new_string\":\"milk\"}\nTHEN\nSAY done"}`}, "").want(t, 200)
		r.happened()
		expect.Equal(t, time.Since(began), 0, "the turn waited")
		(<-changed).want(t, 200)
		r.has(r.human, "likes milk")
	})
}

// Proves EDGE-4: a write by a label that waits too long for a change of the agent is refused
// in the server's form, with the time after which to try again, and nothing of it was sent.
func TestWritesByLabelThatWaitTooLong(t *testing.T) {
	inBubble(t, "", func(t *testing.T) {
		r := startRacedBlocks(t)
		r.meanwhile("PATCH", "/v1/agents/"+r.agent, func() {
			asked := false
			r.meanwhile("GET", "/core-memory/", func() { asked = true })
			a := r.changeByLabel(`{"value":"Ann likes wine"}`).want(t, 503).has(t, `"detail":`).has(t, "limit.in_flight")
			expect.Equal(t, a.header.Get("Retry-After") != "" && a.header.Get("Content-Type") == "application/json" && !asked, true, a.header, "the server was asked", asked)
			r.back.at(pause{})
		})
		r.do(call{"PATCH", "/v1/agents/" + r.agent, `{"description":"sails"}`}, "human").want(t, 200)
		r.happened()
		synctest.Wait()
		r.has(r.human, "likes tea")
		r.changeByLabel(`{"value":"Ann likes wine"}`).want(t, 200)
	})
}
