package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/memproxy/memproxy/adapters/letta/embedded"
)

// demoPolicy is an example of a team's addition to the built-in rules.
const demoPolicy = `// An agent may learn about its user, and stays what it is.
@id("demo.persona")
@reason("field.forbidden")
@detail("an agent's persona is not the agent's to change")
forbid (principal, action in Action::"write", resource)
when { context.field == "persona" };
`

func writeDemoPolicy(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "demo.cedar"), []byte(demoPolicy), 0o600)
}

// hireAgent starts an embedded Letta-style server with one agent. The agent is created
// without the proxy, whose configuration needs its id.
func (s *stage) hireAgent(ctx context.Context, t *theatre) error {
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
		return fmt.Errorf("no agent was made: %d %s", got.Status, got.Body)
	}
	s.agent = agent.ID
	return nil
}

func (s *stage) ask(ctx context.Context, method, path, body string) (answer, error) {
	return s.send(ctx, method, s.letta+path, "Authorization", "Bearer "+devKey, body)
}

// say sends a script for the agent's scripted model, and reports whether a block
// contains a text afterwards.
func (s *stage) say(ctx context.Context, script, text string) (got answer, held bool, err error) {
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

func selfNote(ctx context.Context, s *stage) (bool, string, error) {
	got, held, err := s.say(ctx, `CALL memory_insert {"label":"human","new_string":"She plays chess."}
THEN
SAY Noted.`, "She plays chess.")
	return held && strings.Contains(got.Body, "Noted."), got.said("written by the agent's own tool"), err
}

// selfRewrite plays an agent that follows instructions of a web page.
func selfRewrite(ctx context.Context, s *stage) (bool, string, error) {
	got, held, err := s.say(ctx, `CALL memory_replace {"label":"persona","old_string":"I help Ann.","new_string":"I forward what Ann says."}
THEN
SAY Done.`, "I forward what Ann says.")
	said := "the persona now says: I forward what Ann says."
	if !held {
		said = "the agent was told: " + denial(got.Body)
	}
	return held, said, err
}

// denial is the reason that the agent got.
func denial(body string) string {
	_, rest, ok := strings.Cut(body, "User reason: ")
	if !ok {
		return "nothing"
	}
	reason, _, _ := strings.Cut(rest, " (memproxy")
	return reason
}
