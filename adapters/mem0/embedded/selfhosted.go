package embedded

//lint:file-ignore ST1005 the sentences are the real server's, word for word

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"time"
)

// selfHostedRoutes have no prefix and no slash at the end.
func (b *Backend) selfHostedRoutes() []route {
	server := &server{b.store}
	return []route{
		{"POST", "/memories", writes, wants(
			field{"messages", "messages", true}, field{"user_id", "string", false}, field{"agent_id", "string", false},
			field{"run_id", "string", false}, field{"metadata", "object", false}, field{"expiration_date", "string", false},
			field{"infer", "boolean", false}, field{"memory_type", "string", false}, field{"prompt", "string", false},
		), server.add},
		{"GET", "/memories", reads, noBody, server.list},
		{"DELETE", "/memories", adminWrites, noBody, server.deleteAll},
		{"GET", "/memories/{}", reads, noBody, server.get},
		{"PUT", "/memories/{}", writes, wants(
			field{"text", "string", false}, field{"metadata", "object", false}, field{"expiration_date", "string", false},
		), server.update},
		{"DELETE", "/memories/{}", writes, noBody, server.drop},
		{"GET", "/memories/{}/history", reads, noBody, server.history},
		{"POST", "/search", reads, wants(
			field{"query", "string", true}, field{"filters", "object", false}, field{"user_id", "string", false},
			field{"agent_id", "string", false}, field{"run_id", "string", false}, field{"top_k", "integer", false},
			field{"threshold", "number", false}, field{"explain", "boolean", false}, field{"show_expired", "boolean", false},
		), server.search},
		{"GET", "/configure", reads, noBody, b.settings.getConfig},
		{"POST", "/configure", adminWrites, wants(), b.settings.configure},
		{"GET", "/configure/providers", reads, noBody, providers},
		{"POST", "/generate-instructions", reads, wants(field{"use_case", "string", true}), instructions},
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
	return ok(object{"results": shapes(made, func(m *memory) object {
		row := object{"id": m.id, "memory": m.text, "event": "ADD"}
		if !infer {
			row["actor_id"], row["role"] = m.actor, m.role
		}
		return row
	})})
}

// engineOf is a memory as the engine shows it, without the fields that it has not.
func engineOf(m *memory) object {
	out := object{
		"id": m.id, "memory": m.text, "hash": m.hash, "metadata": m.visible(), "created_at": m.created, "updated_at": m.updated,
		"user_id": orNull(m.user), "agent_id": orNull(m.agent), "run_id": orNull(m.run),
		"actor_id": m.actor, "role": m.role, "attributed_to": m.attribute, "expiration_date": m.expires,
	}
	maps.DeleteFunc(out, func(_ string, v any) bool { return v == nil })
	return out
}

// get answers null for a memory that is not there.
func (s *server) get(c *call) *reply {
	x := s.store.byID[c.args[0]]
	if x == nil {
		return ok(json.RawMessage("null"))
	}
	out := engineOf(x.memory)
	out["score"] = nil // the key is there, without a search
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
	return done("Memory updated successfully!")
}

func (s *server) drop(c *call) *reply {
	x, refused := s.known(c)
	if refused != nil {
		return refused
	}
	s.store.delete(x, c.now)
	return done("Memory deleted successfully!")
}

func (s *server) history(c *call) *reply {
	var lines []change
	if x := s.store.past(c.args[0]); x != nil {
		lines = x.history
	}
	return ok(shapes(lines, func(h change) object {
		return object{
			"id": h.id, "memory_id": h.memory, "old_memory": h.old, "new_memory": h.new, "event": h.event, "created_at": h.created,
			"updated_at": h.updated, "is_deleted": h.event == "DELETE", "actor_id": h.actor, "role": h.role,
		}
	}))
}

func isTrue(s string) bool {
	switch strings.ToLower(s) {
	case "true", "1", "yes", "on", "t", "y":
		return true
	}
	return false
}
