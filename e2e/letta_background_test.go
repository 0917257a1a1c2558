//go:build e2e

package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// told are the run ids and the numbers of a stream's events.
func told(body string) (runs map[string]bool, seqs []int64) {
	runs = map[string]bool{}
	for line := range strings.Lines(body) {
		data, ok := strings.CutPrefix(line, "data: {")
		if !ok {
			continue
		}
		var ev struct {
			Run  string `json:"run_id"`
			Seq  *int64 `json:"seq_id"`
			Kind string `json:"message_type"`
		}
		_ = json.Unmarshal([]byte("{"+data), &ev)
		if ev.Run != "" {
			runs[ev.Run] = true
		}
		if ev.Seq != nil && ev.Kind != "ping" { // which keep a connection open, and repeat the last number
			seqs = append(seqs, *ev.Seq)
		}
	}
	return runs, seqs
}

// Proves EDGE-1, CARD-1: on the real server a gated background run is one run
// to its caller, who can read its stream again by the run and by the same
// messages sent twice, in a conversation too, which has no active run then.
func TestLettaBackground(t *testing.T) {
	t.Parallel()
	direct := lettaServer(t)
	car := serveLetta(t, direct)
	agent := newLettaAgent(t, direct, "background")
	conversation := newConversation(t, direct, agent)
	for name, path := range map[string]string{
		"agent": "/v1/agents/" + agent + "/messages", "conversation": "/v1/conversations/" + conversation + "/messages",
	} {
		for _, tokens := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " tokens ", tokens), func(t *testing.T) {
				body := fmt.Sprintf(`{"messages":[{"role":"user","content":%q,"otid":"otid-%s-%v"}],"streaming":true,"background":true,"stream_tokens":%v}`, selfEdits, name, tokens, tokens)
				first := call(t, http.MethodPost, car.base+path, "", body, sdk...)
				runs, seqs := told(first.body)
				must.That(t, len(runs) == 1 && len(seqs) > 0 && strings.Contains(first.body, "[DONE]") && !strings.Contains(first.body, "approval"),
					"runs %v, numbers %v\n%s", runs, seqs, tail(first.body, 3000))
				for i := range seqs {
					must.That(t, i == 0 || seqs[i] > seqs[i-1], "the numbers do not rise: %v", seqs)
				}
				b := lettaBlocks(t, direct, agent)
				expect.That(t, b["persona"] == "helper" && strings.Contains(b["human"], "plays go"), "blocks %v", b)
				var run string
				for run = range runs {
				}
				again := call(t, http.MethodPost, car.base+"/v1/runs/"+run+"/stream", "", `{"starting_after":0}`, sdk...)
				expect.That(t, again.body == first.body, "read again: %d %s", again.status, tail(again.body, 2000))
				middle := seqs[len(seqs)/2]
				rest := call(t, http.MethodPost, car.base+"/v1/runs/"+run+"/stream", "", fmt.Sprintf(`{"starting_after":%d}`, middle), sdk...)
				expect.That(t, rest.body != "" && strings.HasSuffix(first.body, rest.body), "from %d on: %s", middle, tail(rest.body, 2000))
				before := lettaBlocks(t, direct, agent)["human"]
				twice := call(t, http.MethodPost, car.base+path, "", body, sdk...)
				expect.That(t, twice.body == first.body, "the same messages again: %s", tail(twice.body, 2000))
				expect.Equal(t, lettaBlocks(t, direct, agent)["human"], before, "a repeated request wrote again")
				call(t, http.MethodGet, car.base+"/v1/runs/"+run, "", "", sdk...).about("the run").has(t, `"stop_reason":"end_turn"`, run)
				var usage struct {
					Total int `json:"total_tokens"`
				}
				numbers := call(t, http.MethodGet, car.base+"/v1/runs/"+run+"/usage", "", "", sdk...)
				steps := call(t, http.MethodGet, car.base+"/v1/runs/"+run+"/steps", "", "", sdk...)
				n := strings.Count(steps.body, `"run_id":"`+run+`"`)
				expect.That(t, n >= 2 && json.Unmarshal([]byte(numbers.body), &usage) == nil && usage.Total == 15*n, "the numbers are not the turn's: %s of %s", numbers.body, steps.body)
				all := call(t, http.MethodGet, car.base+"/v1/runs/"+run+"/messages", "", "", sdk...)
				expect.That(t, !strings.Contains(all.body, "approval") && strings.Contains(all.body, "plays go") && strings.Contains(all.body, "done"),
					"its messages: %s", tail(all.body, 3000))
				if name == "conversation" {
					// The server reads again only a turn that lasts.
					over := call(t, http.MethodPost, car.base+"/v1/conversations/"+conversation+"/stream", "", `{}`, sdk...)
					expect.That(t, over.status == http.StatusBadRequest && strings.Contains(over.body, "No active runs"),
						"by the conversation, whose turn is over: %d %s", over.status, tail(over.body, 2000))
				}
			})
		}
	}
}

// Proves EDGE-1: a run that is cancelled stops, whichever of its requests is in progress, and
// the agent is free.
func TestLettaCancel(t *testing.T) {
	t.Parallel()
	direct := lettaServer(t)
	car := serveLetta(t, direct)
	agent := newLettaAgent(t, direct, "cancel")
	path := car.base + "/v1/agents/" + agent + "/messages"
	for _, named := range []bool{true, false} {
		done := make(chan answer, 1)
		run := make(chan string, 1)
		go func() {
			done <- streamed(t, path, `{"input":"CALL memory_insert {\"label\":\"human\",\"new_string\":\"first\"}\nTHEN\nSLEEP 4\nCALL memory_insert {\"label\":\"human\",\"new_string\":\"never\"}\nTHEN\nSAY done","streaming":true,"background":true}`, "tool_return_message", run)
		}()
		id := <-run
		body := `{}`
		if named {
			body = fmt.Sprintf(`{"run_ids":[%q]}`, id)
		}
		a := call(t, http.MethodPost, car.base+"/v1/agents/"+agent+"/messages/cancel", "", body, sdk...)
		expect.That(t, a.status == 200 && (!named || strings.Contains(a.body, id)), "cancel: %d %s", a.status, a.body)
		t.Logf("cancelled: %s", a.body)
		got := <-done
		expect.Text(t, lettaBlocks(t, direct, agent)["human"], "named", named, "human is", tail(got.body, 2000)).Has("first").Lacks("never")
		next := call(t, http.MethodPost, path, "", `{"input":"SAY hello"}`, sdk...)
		expect.That(t, next.status == 200 && strings.Contains(next.body, "hello"), "named %v: the agent is not free: %d %s", named, next.status, tail(next.body, 1000))
	}
}

// streamed reads a stream and says which run it is of at the first event of a
// type.
func streamed(t *testing.T, url, body, kind string, run chan<- string) answer {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return answer{}
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(sdk[0], sdk[1])
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		run <- err.Error()
		return answer{}
	}
	defer resp.Body.Close()
	var got strings.Builder
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	said := false
	for lines.Scan() {
		got.WriteString(lines.Text() + "\n")
		if !said && strings.Contains(lines.Text(), `"`+kind+`"`) {
			said = true
			for id := range mapOf(told(got.String())) {
				run <- id
				break
			}
		}
	}
	if !said {
		run <- ""
	}
	return answer{status: resp.StatusCode, body: got.String()}
}

func mapOf(runs map[string]bool, _ []int64) map[string]bool { return runs }
