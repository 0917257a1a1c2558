package embedded

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// engineTopK is how many memories the engine returns unless told otherwise.
const engineTopK = 20

// listMemories without an id shows the whole store to an administrator, raw.
func (s *server) list(c *call) *reply {
	k, refused := queryInt(c, "top_k", -1)
	if refused != nil {
		return refused
	}
	if _, given := c.query["top_k"]; given && (k < 0 || k > 1000) {
		return detailed(http.StatusBadRequest, "top_k must be between 0 and 1000")
	}
	want, refused := queryScope(c)
	if refused != nil {
		return refused
	}
	if want == (memoryScope{}) {
		if !c.admin {
			return detailed(http.StatusForbidden, "Listing without an id requires admin privileges")
		}
		return s.wholeStore(k)
	}
	if k < 0 {
		k = engineTopK
	}
	expired := isTrue(c.last("show_expired"))
	rows := s.store.inScope(want, func(m *memory) bool { return expired || !m.expired(c.now) })
	out := []any{}
	for _, m := range rows[:min(max(k, 1), len(rows))] { // the engine looks at the limit after the first
		out = append(out, engineOf(m))
	}
	return ok(resultList{out})
}

// memoryScope is a set of ids that memories must have. Their type is
// comparable, so "none given" is the zero value.
type memoryScope struct{ user, agent, run string }

func queryScope(c *call) (memoryScope, *reply) {
	var s memoryScope
	for _, p := range [...]struct {
		name string
		at   *string
	}{{"user_id", &s.user}, {"agent_id", &s.agent}, {"run_id", &s.run}} {
		v := c.last(p.name)
		if v == "" {
			continue
		}
		id, err := entityID(p.name, v)
		if err != nil {
			return s, detailed(http.StatusBadRequest, err.Error())
		}
		*p.at = id.(string)
	}
	return s, nil
}

// inScope returns what has all ids of the scope and passes, oldest first.
func (s *store) inScope(want memoryScope, passes test) []*memory {
	scope := s.all
	for _, key := range [...]entityKey{{"user", want.user}, {"agent", want.agent}, {"run", want.run}} {
		if key.name != "" {
			scope = s.entities[key]
			break
		}
	}
	m := &memory{user: want.user, agent: want.agent, run: want.run}
	out := s.find(scope, func(x *memory) bool { return inScope(x, m) && passes(x) })
	slices.Reverse(out)
	return out
}

// wholeStore shows the payload as it lies in the store: role and the like stay
// in metadata, and nothing expires.
func (s *server) wholeStore(k int) *reply {
	type raw struct {
		ID       string         `json:"id"`
		Memory   string         `json:"memory"`
		Hash     string         `json:"hash"`
		Created  string         `json:"created_at"`
		Updated  string         `json:"updated_at"`
		UserID   *string        `json:"user_id"`
		AgentID  *string        `json:"agent_id"`
		RunID    *string        `json:"run_id"`
		Metadata map[string]any `json:"metadata"`
	}
	out := []any{}
	for _, m := range s.store.inScope(memoryScope{}, always) {
		if k > 0 && len(out) == k {
			break
		}
		meta := maps.Clone(m.visible())
		if meta == nil {
			meta = make(map[string]any)
		}
		meta["text_lemmatized"] = m.text
		for key, v := range map[string]any{"role": m.role, "actor_id": m.actor, "attributed_to": m.attribute, "expiration_date": m.expires} {
			if v != nil {
				meta[key] = v
			}
		}
		out = append(out, raw{m.id, m.text, m.hash, m.created, m.updated, ref(m.user), ref(m.agent), ref(m.run), meta})
	}
	return ok(resultList{out})
}

type scoreDetails struct {
	Semantic  float64     `json:"semantic_score"`
	BM25      json.Number `json:"bm25_score"`
	Boost     json.Number `json:"entity_boost"`
	Raw       float64     `json:"raw_score"`
	Max       json.Number `json:"max_possible_score"`
	Final     float64     `json:"final_score"`
	Threshold float64     `json:"threshold"`
}

// searchMemories takes the deprecated ids at the top level over those in
// filters, and then has the engine's filters override both.
func (s *server) search(c *call) *reply {
	filters := member(c.raw, "filters")
	for _, key := range [...]string{"user_id", "agent_id", "run_id"} {
		if id := text(c.body, key); id != "" {
			filters.set(key, id)
		}
	}
	threshold, k := 0.1, engineTopK
	if n, given := c.body["threshold"].(json.Number); given {
		f, err := n.Float64()
		if err != nil || f < 0 || f > 1 {
			return detailed(http.StatusBadRequest, fmt.Sprintf("Invalid threshold: %s. Must be between 0 and 1 (inclusive).", pyFloat(f)))
		}
		threshold = f
	}
	if n, given := c.body["top_k"].(json.Number); given {
		i, _ := n.Int64() // checked on the way in
		if i < 0 {
			return detailed(http.StatusBadRequest, fmt.Sprintf("Invalid top_k: %d. Must be a non-negative integer.", i))
		}
		k = int(i)
	}
	query := strings.TrimSpace(text(c.body, "query"))
	if query == "" {
		return detailed(http.StatusBadRequest, "Invalid query: cannot be empty or whitespace-only.")
	}
	passes, refused := engineFilter(c, filters)
	if refused != nil {
		return refused
	}
	expired := truthy(c.body["show_expired"])
	found := s.store.find(s.store.narrowest(filters), func(m *memory) bool {
		return passes(m) && (expired || !m.expired(c.now))
	})
	out := []any{}
	for _, h := range rank(query, found, threshold, k) {
		row := engineOf(h.memory)
		row.Score = h.score
		if truthy(c.body["explain"]) {
			row.Details = scoreDetails{h.score, "0.0", "0.0", h.score, "1.0", h.score, threshold}
		}
		out = append(out, row)
	}
	return ok(resultList{out})
}

// narrowest is the shelf to search. With an AND the ids of the top level may
// be overridden, so it is the whole store.
func (s *store) narrowest(filters dict) *shelf {
	if _, overridden := filters.get("AND"); overridden {
		return s.all
	}
	for _, kind := range [...]string{"user", "agent", "run"} {
		v, _ := filters.get(kind + "_id")
		if id, isText := v.(string); isText && id != "*" {
			return s.entities[entityKey{kind, id}]
		}
	}
	return s.all
}

func pyFloat(f float64) string {
	text := fmt.Sprint(f)
	if !strings.ContainsAny(text, ".e") {
		text += ".0"
	}
	return text
}
