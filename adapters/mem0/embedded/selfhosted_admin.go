package embedded

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// deleteAll is the administrator's bulk deletion.
func (s *server) deleteAll(c *call) *reply {
	want, refused := queryScope(c)
	if refused != nil {
		return refused
	}
	if want == (memoryScope{}) {
		return detailed(http.StatusBadRequest, needID)
	}
	s.dropAll(want, c.now)
	return done("Memories deleted successfully!")
}

func (s *server) dropAll(want memoryScope, now string) {
	for _, m := range s.store.inScope(want, always) {
		s.store.delete(s.store.byID[m.id], now)
	}
}

func (s *server) dropEntity(c *call) *reply {
	var want memoryScope
	id := want.at(c.args[0] + "_id")
	if id == nil {
		return detailed(http.StatusBadRequest, "Unknown entity type "+c.args[0])
	}
	*id = c.args[1]
	s.dropAll(want, c.now)
	return done("Entity deleted successfully")
}

func (s *server) entities(*call) *reply {
	out := []object{}
	for _, e := range s.store.listed() {
		if e.Type != "app" {
			out = append(out, object{"id": e.Name, "type": e.Type, "total_memories": e.Total, "created_at": e.Created, "updated_at": e.Updated})
		}
	}
	return ok(out)
}

// reset forgets the memories; settings stay.
func (s *server) reset(*call) *reply {
	s.store.reset()
	return done("All memories reset")
}

// requests is the server's own log: methods and paths, newest first.
func (b *Backend) requests(c *call) *reply {
	limit, refused := queryInt(c, "limit", 100)
	if refused != nil {
		return refused
	}
	b.askedMu.Lock()
	defer b.askedMu.Unlock()
	all := b.asked.values()
	slices.Reverse(all)
	return ok(all[:min(max(limit, 0), len(all))])
}

func initialConfig() map[string]any {
	model := func() map[string]any {
		return map[string]any{"provider": "openai", "config": map[string]any{
			"model": "none", "api_key": "sk-embedded", "openai_base_url": "http://127.0.0.1:9/v1",
		}}
	}
	return map[string]any{
		"vector_store": map[string]any{"provider": "embedded", "config": map[string]any{}},
		"llm":          model(),
		"embedder":     model(),
	}
}

// getConfig shows the configuration without its secrets.
func (s *settings) getConfig(*call) *reply { return ok(redacted(s.config, "")) }

func redacted(v any, name string) any {
	if object, isObject := v.(map[string]any); isObject {
		out := make(map[string]any, len(object))
		for key, value := range object {
			out[key] = redacted(value, key)
		}
		return out
	}
	for _, word := range [...]string{"api_key", "password", "secret", "token"} {
		if strings.Contains(name, word) {
			return "********"
		}
	}
	return v
}

// configure merges anything into the configuration, the model's address
// included: whoever may call it can send all prompts elsewhere.
func (s *settings) configure(c *call) *reply {
	for _, fixed := range [...]string{"vector_store", "history_db_path"} {
		if _, given := c.body[fixed]; given {
			return detailed(http.StatusBadRequest, "This backend cannot move its store while running")
		}
	}
	s.config = merged(s.config, c.body)
	return done("Configuration set successfully")
}

func merged(base, changes map[string]any) map[string]any {
	out := maps.Clone(base)
	for key, value := range changes {
		old, wasObject := out[key].(map[string]any)
		next, isObject := value.(map[string]any)
		if wasObject && isObject {
			out[key] = merged(old, next)
		} else {
			out[key] = value
		}
	}
	return out
}

func providers(*call) *reply {
	return ok(map[string][]string{"llm": {"openai"}, "embedder": {"openai"}, "vector_store": {"embedded"}})
}

func instructions(c *call) *reply {
	use := text(c.body, "use_case")
	return ok(map[string]string{"custom_instructions": fmt.Sprintf("Summary: %s", use), "test_message": use})
}

func setupStatus(*call) *reply { return ok(map[string]bool{"needs_setup": false}) }

func home(*call) *reply {
	return &reply{status: http.StatusTemporaryRedirect, header: [][2]string{{"Location", "/docs"}}}
}
