package embedded

//lint:file-ignore ST1005 the sentences are the real server's, word for word

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// selfHostedRoutes have no prefix and no slash at the end.
func (b *Backend) selfHostedRoutes() []route {
	server := &server{b.store}
	return []route{
		{"POST", "/memories", writes, object(
			field{"messages", "messages", true}, field{"user_id", "string", false}, field{"agent_id", "string", false},
			field{"run_id", "string", false}, field{"metadata", "object", false}, field{"expiration_date", "string", false},
			field{"infer", "boolean", false}, field{"memory_type", "string", false}, field{"prompt", "string", false},
		), server.add},
		{"GET", "/memories", reads, noBody, server.list},
		{"DELETE", "/memories", adminWrites, noBody, server.deleteAll},
		{"GET", "/memories/{}", reads, noBody, server.get},
		{"PUT", "/memories/{}", writes, object(
			field{"text", "string", false}, field{"metadata", "object", false}, field{"expiration_date", "string", false},
		), server.update},
		{"DELETE", "/memories/{}", writes, noBody, server.drop},
		{"GET", "/memories/{}/history", reads, noBody, server.history},
		{"POST", "/search", reads, object(
			field{"query", "string", true}, field{"filters", "object", false}, field{"user_id", "string", false},
			field{"agent_id", "string", false}, field{"run_id", "string", false}, field{"top_k", "integer", false},
			field{"threshold", "number", false}, field{"explain", "boolean", false}, field{"show_expired", "boolean", false},
		), server.search},
		{"GET", "/configure", reads, noBody, b.settings.getConfig},
		{"POST", "/configure", adminWrites, object(), b.settings.configure},
		{"GET", "/configure/providers", reads, noBody, providers},
		{"POST", "/generate-instructions", reads, object(field{"use_case", "string", true}), instructions},
		{"POST", "/reset", adminWrites, noBody, server.reset},
		{"GET", "/entities", reads, noBody, server.entities},
		{"DELETE", "/entities/{}/{/}", adminWrites, noBody, server.dropEntity},
		{"GET", "/requests", adminReads, noBody, b.requests},
		{"GET", "/auth/setup-status", nothing, noBody, setupStatus},
		{"GET", "/", nothing, noBody, home},
	}
}

const needID = "At least one of user_id, agent_id or run_id is required."

func text(body map[string]any, key string) string {
	s, _ := body[key].(string)
	return s
}

// server are the self-hosted server's routes to memories.
type server struct{ store *store }

// add believes the ids of the payload. Keys that the server does not know,
// app_id among them, are ignored.
func (s *server) add(c *call) *reply {
	template := memory{user: text(c.body, "user_id"), agent: text(c.body, "agent_id"), run: text(c.body, "run_id")}
	if template.user == "" && template.agent == "" && template.run == "" {
		return detailed(http.StatusBadRequest, needID)
	}
	if kind := c.body["memory_type"]; kind != nil && kind != "procedural_memory" {
		return c.engineFailure()
	}
	if meta, isObject := c.body["metadata"].(map[string]any); isObject {
		template.tag(meta)
		template.created = text(meta, "created_at") // backdating through metadata
	}
	if day := c.body["expiration_date"]; day != nil {
		template.expires = day
	}
	messages := c.body["messages"].([]any)
	input := make([]any, len(messages))
	for i, v := range messages {
		msg := v.(map[string]any)
		input[i] = map[string]any{"role": msg["role"], "content": msg["content"]}
	}
	template.input = input
	infer := c.body["infer"] != false
	made, err := s.store.remember(template, input, infer, c.now)
	if err != nil {
		return detailed(http.StatusBadRequest, err.Error())
	}
	results := make([]any, len(made))
	for i, m := range made {
		if infer {
			results[i] = extracted{m.id, m.text, "ADD"}
		} else {
			results[i] = verbatim{extracted{m.id, m.text, "ADD"}, m.actor, m.role}
		}
	}
	return ok(resultList{results})
}

type extracted struct {
	ID     string `json:"id"`
	Memory string `json:"memory"`
	Event  string `json:"event"`
}

type verbatim struct {
	extracted
	Actor any `json:"actor_id"`
	Role  any `json:"role"`
}

type resultList struct {
	Results []any `json:"results"`
}

// engineMemory is a memory as the engine shows it.
type engineMemory struct {
	ID         string         `json:"id"`
	Memory     string         `json:"memory"`
	Hash       string         `json:"hash"`
	Metadata   map[string]any `json:"metadata"`
	Score      any            `json:"score,omitempty"`
	Created    string         `json:"created_at"`
	Updated    string         `json:"updated_at"`
	UserID     string         `json:"user_id,omitempty"`
	AgentID    string         `json:"agent_id,omitempty"`
	RunID      string         `json:"run_id,omitempty"`
	ActorID    any            `json:"actor_id,omitempty"`
	Role       any            `json:"role,omitempty"`
	Attributed any            `json:"attributed_to,omitempty"`
	Expiration any            `json:"expiration_date,omitempty"`
	Details    any            `json:"score_details,omitempty"`
}

func engineOf(m *memory) engineMemory {
	return engineMemory{
		ID: m.id, Memory: m.text, Hash: m.hash, Metadata: m.visible(), Created: m.created, Updated: m.updated,
		UserID: m.user, AgentID: m.agent, RunID: m.run,
		ActorID: m.actor, Role: m.role, Attributed: m.attribute, Expiration: m.expires,
	}
}

// getMemory answers null for a memory that is not there.
func (s *server) get(c *call) *reply {
	x := s.store.byID[c.args[0]]
	if x == nil {
		return ok(json.RawMessage("null"))
	}
	out := engineOf(x.memory)
	out.Score = json.RawMessage("null") // the key is there, without a search
	return ok(out)
}

func (s *server) known(c *call) (*slot, *reply) {
	x := s.store.byID[c.args[0]]
	if x == nil {
		return nil, detailed(http.StatusNotFound, fmt.Sprintf("Memory %s not found", c.args[0]))
	}
	return x, nil
}

func checkDay(v any) error {
	if v == nil {
		return nil
	}
	day, isText := v.(string)
	if _, err := time.Parse(time.DateOnly, day); err != nil || !isText {
		return errors.New("expiration_date must be a valid date in YYYY-MM-DD format.")
	}
	return nil
}

// updateMemory merges metadata into what is there.
func (s *server) update(c *call) *reply {
	day, dated := c.body["expiration_date"]
	_, worded := c.body["text"]
	_, tagged := c.body["metadata"]
	if !dated && !worded && !tagged {
		return detailed(http.StatusBadRequest, "At least one of text, metadata or expiration_date is required.")
	}
	x, refused := s.known(c)
	if refused != nil {
		return refused
	}
	meta, hasMeta := c.body["metadata"].(map[string]any)
	words, hasWords := c.body["text"].(string)
	if !dated && !hasMeta && !hasWords {
		return detailed(http.StatusBadRequest, "At least one of text, metadata, or expiration_date must be provided.")
	}
	if err := checkDay(day); err != nil {
		return detailed(http.StatusBadRequest, err.Error())
	}
	next := *x.memory
	if hasMeta {
		next.tag(meta)
	}
	if dated {
		next.expires = shown(day)
	}
	if hasWords {
		next.say(words)
	}
	s.store.replace(x, &next, c.now)
	return ok(message{"Memory updated successfully!"})
}

func (s *server) drop(c *call) *reply {
	x, refused := s.known(c)
	if refused != nil {
		return refused
	}
	s.store.delete(x, c.now)
	return ok(message{"Memory deleted successfully!"})
}

func (s *server) history(c *call) *reply {
	type line struct {
		ID       string  `json:"id"`
		MemoryID string  `json:"memory_id"`
		Old      *string `json:"old_memory"`
		New      *string `json:"new_memory"`
		Event    string  `json:"event"`
		Created  string  `json:"created_at"`
		Updated  string  `json:"updated_at"`
		Deleted  bool    `json:"is_deleted"`
		Actor    any     `json:"actor_id"`
		Role     any     `json:"role"`
	}
	out := []line{}
	if x := s.store.past(c.args[0]); x != nil {
		for _, h := range x.history {
			out = append(out, line{h.id, h.memory, h.old, h.new, h.event, h.created, h.updated, h.event == "DELETE", h.actor, h.role})
		}
	}
	return ok(out)
}

func isTrue(s string) bool {
	switch strings.ToLower(s) {
	case "true", "1", "yes", "on", "t", "y":
		return true
	}
	return false
}
