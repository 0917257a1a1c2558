package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// stage is one side of the demo: the base URL for its clients.
type stage struct {
	base   string
	client *http.Client
	// letta is the base URL of the agents' server, agent the id of its agent.
	letta, agent string
	// victim is the id of another tenant's memory.
	victim string
	// auditDir is the stage's audit log, or "".
	auditDir string
	// tamper changes a byte in a copy of the log and verifies it.
	tamper func(context.Context) (bool, string, error)
}

// maxAnswer bounds the response bytes that the demo reads.
const maxAnswer = 1 << 20

func (s *stage) do(ctx context.Context, method, key, path, body string) (answer, error) {
	return s.send(ctx, method, s.base+path, "X-API-Key", key, body)
}

func (s *stage) send(ctx context.Context, method, url, header, credential, body string) (answer, error) {
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

func (s *stage) post(ctx context.Context, key, path, body string) (answer, error) {
	return s.do(ctx, http.MethodPost, key, path, body)
}

// add stores a memory, which must be accepted, and returns its id.
func (s *stage) add(ctx context.Context, key, body string) (string, error) {
	got, err := s.post(ctx, key, "/memories", body)
	if err != nil {
		return "", err
	}
	var added struct {
		Results []struct {
			ID string `json:"id"`
		} `json:"results"`
	}
	if err := json.Unmarshal([]byte(got.Body), &added); err != nil || len(added.Results) != 1 {
		return "", fmt.Errorf("an ordinary write was not accepted: %d %s", got.Status, got.Body)
	}
	return added.Results[0].ID, nil
}

// metadata returns what the backend stored with a memory.
func (s *stage) metadata(ctx context.Context, id string) (map[string]any, error) {
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
		return nil, errors.New("the memory came back without metadata")
	}
	return m.Metadata, nil
}

// seed makes the other tenant store the memory to be stolen.
func (s *stage) seed(ctx context.Context) error {
	id, err := s.add(ctx, salesKey, `{"user_id":"bob","agent_id":"sales","infer":false,"messages":[{"role":"user","content":"Globex payroll runs on Friday"}]}`)
	s.victim = id
	return err
}
