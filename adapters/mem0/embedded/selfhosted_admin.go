package embedded

import (
	"fmt"
	"maps"
	"net/http"
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
	return ok(message{"Memories deleted successfully!"})
}

func (s *server) dropAll(want memoryScope, now string) {
	for _, m := range s.store.inScope(want, always) {
		s.store.delete(s.store.byID[m.id], now)
	}
}

func (s *server) dropEntity(c *call) *reply {
	var want memoryScope
	switch kind, name := c.args[0], c.args[1]; kind {
	case "user":
		want.user = name
	case "agent":
		want.agent = name
	case "run":
		want.run = name
	default:
		return detailed(http.StatusBadRequest, "Unknown entity type "+kind)
	}
	s.dropAll(want, c.now)
	return ok(message{"Entity deleted successfully"})
}

func (s *server) entities(*call) *reply {
	type row struct {
		ID      string `json:"id"`
		Type    string `json:"type"`
		Total   int    `json:"total_memories"`
		Created string `json:"created_at"`
		Updated string `json:"updated_at"`
	}
	out := []row{}
	for _, e := range s.store.listed() {
		if e.Type != "app" {
			out = append(out, row{e.Name, e.Type, e.Total, e.Created, e.Updated})
		}
	}
	return ok(out)
}

// reset forgets the memories; settings stay.
func (s *server) reset(*call) *reply {
	*s.store = *newStore(s.store.max, s.store.newID)
	return ok(message{"All memories reset"})
}

// requests is the server's own log: methods and paths, newest first.
func (b *Backend) requests(c *call) *reply {
	limit, refused := queryInt(c, "limit", 100)
	if refused != nil {
		return refused
	}
	type row struct {
		Method string `json:"method"`
		Path   string `json:"path"`
	}
	all := b.Requests()
	out := []row{}
	for i := len(all) - 1; i >= 0 && len(out) < limit; i-- {
		path, _, _ := strings.Cut(all[i].RequestURI, "?")
		out = append(out, row{all[i].Method, path})
	}
	return ok(out)
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
	return ok(message{"Configuration set successfully"})
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
