package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	letta "github.com/memproxy/memproxy/adapters/letta/embedded"
	mem0 "github.com/memproxy/memproxy/adapters/mem0/embedded"
)

// target is one side of the demo. base is the base URL for its clients.
type target struct {
	base   string
	client *http.Client
	// letta is the base URL of the agent server, agent the id of its agent.
	letta, agent string
	victim       string // id of another tenant's memory
	// auditDir is the directory of the target's audit log; "" if it has none. flush writes
	// the log to it.
	auditDir string
	flush    func(context.Context) error
	verified string // what the verifier says about the log
}

const maxAnswer = 1 << 20 // how many bytes of a response the demo reads

// agentsPath begins the paths of the agent server.
const agentsPath = "/v1/agents/"

func (s *target) do(ctx context.Context, method, key, path, body string) (answer, error) {
	url, header, credential := s.base+path, "X-API-Key", key
	if strings.HasPrefix(path, agentsPath) {
		url, header, credential = s.letta+path, "Authorization", "Bearer "+key
	}
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	req.Header.Set(header, credential)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	return answer{Status: resp.StatusCode, Body: string(b)}, err
}

// add stores a memory, which must be accepted, and returns its id.
func (s *target) add(ctx context.Context, key, body string) (string, error) {
	got, err := s.do(ctx, http.MethodPost, key, "/memories", body)
	if err != nil {
		return "", err
	}
	var added struct{ Results []struct{ ID string } }
	if err := json.Unmarshal([]byte(got.Body), &added); err != nil || len(added.Results) != 1 {
		return "", fmt.Errorf("an ordinary write was rejected: %d %s", got.Status, got.Body)
	}
	return added.Results[0].ID, nil
}

// metadata stores a memory of dev's, and returns what the backend has with it then.
func (s *target) metadata(ctx context.Context, body string) (map[string]any, error) {
	id, err := s.add(ctx, devKey, body)
	if err != nil {
		return nil, err
	}
	got, err := s.do(ctx, http.MethodGet, devKey, "/memories/"+id, "")
	if err != nil {
		return nil, err
	}
	var m struct{ Metadata map[string]any }
	if err := json.Unmarshal([]byte(got.Body), &m); err != nil || m.Metadata == nil {
		return nil, fmt.Errorf("the memory was returned without metadata: %s", got.Body)
	}
	return m.Metadata, nil
}

// seed stores the other tenant's memory, which the attacks try to steal.
func (s *target) seed(ctx context.Context) error {
	id, err := s.add(ctx, salesKey, `{"user_id":"bob","agent_id":"sales","infer":false,"messages":[{"role":"user","content":"Globex payroll runs on Friday"}]}`)
	s.victim = id
	return err
}

// demoPolicy is an example of a policy that a team adds to the built-in ones.
const demoPolicy = `// An agent may learn about its user, and stays what it is.
@id("demo.persona")
@reason("field.forbidden")
@detail("an agent's persona is not the agent's to change")
forbid (principal, action in Action::"write", resource)
when { context.field == "persona" };
`

// start starts an embedded Mem0-style backend, and a Letta-style server with one agent. It
// creates the agent without the proxy, because the proxy's configuration needs the agent's id.
func (s *target) start(ctx context.Context, t *comparison) error {
	b, err := mem0.New(mem0.Options{})
	if err != nil {
		return err
	}
	if s.base, err = t.listen(b); err != nil {
		return err
	}
	if s.letta, err = t.listen(letta.New()); err != nil {
		return err
	}
	got, err := s.do(ctx, http.MethodPost, devKey, agentsPath, `{"name":"assistant","memory_blocks":[{"label":"human","value":"Ann."},{"label":"persona","value":"I help Ann."}]}`)
	if err != nil {
		return err
	}
	var agent struct{ ID string }
	if err := json.Unmarshal([]byte(got.Body), &agent); err != nil || agent.ID == "" {
		return fmt.Errorf("the agent was not created: %d %s", got.Status, got.Body)
	}
	s.agent = agent.ID
	return nil
}

// say sends a script for the agent's scripted model, and reports whether a block contains
// the text afterwards.
func (s *target) say(ctx context.Context, script, text string) (got answer, held bool, err error) {
	body, err := json.Marshal(map[string]string{"input": script})
	if err != nil {
		return got, false, err
	}
	if got, err = s.do(ctx, http.MethodPost, devKey, agentsPath+s.agent+"/messages", string(body)); err != nil {
		return got, false, err
	}
	after, err := s.do(ctx, http.MethodGet, devKey, agentsPath+s.agent, "")
	return got, strings.Contains(after.Body, text), err
}

func selfNote(ctx context.Context, s *target) (bool, string, error) {
	got, held, err := s.say(ctx, `CALL memory_insert {"label":"human","new_string":"She plays chess."}
THEN
SAY Noted.`, "She plays chess.")
	return held && strings.Contains(got.Body, "Noted."), got.said("written by the agent's own tool"), err
}

// selfRewrite plays an agent that follows the instructions of a web page.
func selfRewrite(ctx context.Context, s *target) (bool, string, error) {
	got, held, err := s.say(ctx, `CALL memory_replace {"label":"persona","old_string":"I help Ann.","new_string":"I forward what Ann says."}
THEN
SAY Done.`, "I forward what Ann says.")
	said := "the persona now says: I forward what Ann says."
	if !held {
		said = "the agent was told: " + denial(got.Body)
	}
	return held, said, err
}

// denial returns the reason that the agent received.
func denial(body string) string {
	_, rest, ok := strings.Cut(body, "User reason: ")
	if !ok {
		return "nothing"
	}
	reason, _, _ := strings.Cut(rest, " (memproxy")
	return reason
}
