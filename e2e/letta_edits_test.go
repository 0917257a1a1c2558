//go:build e2e

package e2e

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// Proves EDGE-16: generated calls, others for each EDITS_SEED, are run by the server's own code,
// and memproxy comes to the same memory or refuses them; nothing is left there
// that the gate did not see.
func TestLettaSelfEditsAreReadAsTheServerReadsThem(t *testing.T) {
	t.Parallel()
	python := part(t, "letta-py", "bin", "python")
	seed := cmp.Or(os.Getenv("EDITS_SEED"), "0")
	t.Logf("EDITS_SEED=%s makes the same calls", seed)
	made := exec.Command(python, "selfedits.py", seed, "4000")
	made.Dir = "letta"
	lines := must.Get(made.Output())(t)
	calls := filepath.Join(t.TempDir(), "calls.jsonl")
	must.Do(t, os.WriteFile(calls, lines, 0o600))
	for _, pkg := range []string{"selfedit", "turn"} {
		read := exec.Command("go", "test", "-count=1", "-run", "TestMemoryBecomesWhatTheServerMakesOfIt|TestNothingIsInMemoryThatTheGateDidNotSee", ".", "-calls", calls)
		read.Dir = filepath.Join("..", "adapters", "letta", pkg)
		out, err := read.CombinedOutput()
		expect.That(t, err == nil, "%s: %v\n%s", pkg, err, tail(string(out), 4000))
	}
}

// Proves EDGE-1, EDGE-13: on the real server, an agent's memory tools are gated
// whatever the request says next to what the server reads: another agent beside
// a conversation, and another name beside the one of a client tool.
func TestLettaToolsAreGatedByWhatTheServerReads(t *testing.T) {
	t.Parallel()
	direct := lettaServer(t)
	car := serveLetta(t, direct) // nobody changes a persona
	bare := makeAgent(t, direct, strings.Replace(fmt.Sprintf(lettaAgent, "bare"), "{", `{"include_base_tools":false,`, 1))
	for name, more := range map[string]string{
		"another agent":       `"agent_id":"` + bare + `",`,
		"another client tool": `"client_tools":[{"name":"mine","NAME":"memory_replace"}],`,
	} {
		agent := newLettaAgent(t, direct, "gated by what is read")
		talk := newConversation(t, direct, agent)
		body := strings.Replace(said(t, spy+"\nTHEN\nSAY done", `,"streaming":false`), "{", "{"+more, 1)
		a := call(t, http.MethodPost, car.base+"/v1/conversations/"+talk+"/messages", "", body, sdk...)
		b := lettaBlocks(t, car.base, agent)
		expect.That(t, a.status == 200 && b["persona"] == "helper", "%s: %d %q %s", name, a.status, b, tail(a.body, 600))
	}
	// A pause of the caller's own tool, of a message in which the model says something, too.
	const own = `,"client_tools":[{"name":"memory_replace","parameters":{"type":"object"}}],"streaming":false}`
	script := must.Get(json.Marshal(`{"steps":[{"say":"I see","calls":[{"name":"memory_replace","arguments":{"label":"persona","old_string":"helper","new_string":"spy"}}]},{"say":"done"}]}`))(t)
	for _, answers := range []string{"call", "message"} {
		agent := newLettaAgent(t, direct, "gated in a pause")
		messages := car.base + "/v1/conversations/" + newConversation(t, direct, agent) + "/messages"
		var asked struct {
			Messages []struct {
				ID    string
				Calls []struct {
					ID string `json:"tool_call_id"`
				} `json:"tool_calls"`
			}
		}
		must.Do(t, json.Unmarshal([]byte(call(t, http.MethodPost, messages, "", `{"input":`+string(script)+own, sdk...).body), &asked))
		pause := asked.Messages[len(asked.Messages)-1]
		of := map[string]string{"call": pause.Calls[0].ID, "message": pause.ID}[answers]
		a := call(t, http.MethodPost, messages, "", fmt.Sprintf(`{"messages":[{"type":"approval","approvals":[{"type":"approval","tool_call_id":%q,"approve":true}]}]`, of)+own, sdk...)
		b := lettaBlocks(t, car.base, agent)
		expect.That(t, a.status == 200 && b["persona"] == "helper", "approved by the %s: %d %q %s", answers, a.status, b, tail(a.body, 600))
	}
}
