package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/memproxy/memproxy/adapters/letta/embedded"
)

// target is one side of the demo. base is the base URL for its clients.
type target struct {
	base   string
	client *http.Client
	// letta is the base URL of the agent server, agent the id of its agent.
	letta, agent string
	// victim is the id of another tenant's memory.
	victim string
	// auditDir is the directory of the target's audit log; "" if it has none.
	auditDir string
	// tamper changes a word in a copy of the log, and verifies the copy.
	tamper func(context.Context) (bool, string, error)
}

// maxAnswer is how many bytes of a response the demo reads.
const maxAnswer = 1 << 20

func (s *target) do(ctx context.Context, method, key, path, body string) (answer, error) {
	return s.send(ctx, method, s.base+path, "X-API-Key", key, body)
}

func (s *target) send(ctx context.Context, method, url, header, credential, body string) (answer, error) {
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
	var added struct {
		Results []struct {
			ID string `json:"id"`
		} `json:"results"`
	}
	if err := json.Unmarshal([]byte(got.Body), &added); err != nil || len(added.Results) != 1 {
		return "", fmt.Errorf("an ordinary write was rejected: %d %s", got.Status, got.Body)
	}
	return added.Results[0].ID, nil
}

// metadata returns what the backend stored with a memory.
func (s *target) metadata(ctx context.Context, id string) (map[string]any, error) {
	got, err := s.do(ctx, http.MethodGet, devKey, "/memories/"+id, "")
	if err != nil {
		return nil, err
	}
	var m struct {
		Metadata map[string]any `json:"metadata"`
	}
	if err := json.Unmarshal([]byte(got.Body), &m); err != nil {
		return nil, err
	}
	if m.Metadata == nil {
		return nil, errors.New("the memory was returned without metadata")
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

// startAgent starts an embedded Letta-style server with one agent. It creates the agent
// without the proxy, because the proxy's configuration needs the agent's id.
func (s *target) startAgent(ctx context.Context, t *comparison) error {
	base, err := t.listen(embedded.New())
	if err != nil {
		return err
	}
	s.letta = base
	got, err := s.ask(ctx, http.MethodPost, "/v1/agents/", `{"name":"assistant","memory_blocks":[{"label":"human","value":"Ann."},{"label":"persona","value":"I help Ann."}]}`)
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

func (s *target) ask(ctx context.Context, method, path, body string) (answer, error) {
	return s.send(ctx, method, s.letta+path, "Authorization", "Bearer "+devKey, body)
}

// say sends a script for the agent's scripted model, and reports whether a block contains
// the text afterwards.
func (s *target) say(ctx context.Context, script, text string) (got answer, held bool, err error) {
	body, err := json.Marshal(map[string]string{"input": script})
	if err != nil {
		return got, false, err
	}
	if got, err = s.ask(ctx, http.MethodPost, "/v1/agents/"+s.agent+"/messages", string(body)); err != nil {
		return got, false, err
	}
	after, err := s.ask(ctx, http.MethodGet, "/v1/agents/"+s.agent, "")
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
