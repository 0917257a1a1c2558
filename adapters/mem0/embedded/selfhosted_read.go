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
	// The engine looks at the limit after the first.
	return ok(object{"results": shapes(rows[:min(max(k, 1), len(rows))], engineOf)})
}

// memoryScope is a set of ids that memories must have. Their type is
// comparable, so "none given" is the zero value.
type memoryScope struct{ user, agent, run string }

// at is where a scope keeps an id, or nil.
func (s *memoryScope) at(id string) *string {
	return map[string]*string{"user_id": &s.user, "agent_id": &s.agent, "run_id": &s.run}[id]
}

func queryScope(c *call) (memoryScope, *reply) {
	var s memoryScope
	for _, name := range engineIDs {
		v := c.last(name)
		if v == "" {
			continue
		}
		id, err := entityID(name, v)
		if err != nil {
			return s, detailed(http.StatusBadRequest, err.Error())
		}
		*s.at(name) = id.(string)
	}
	return s, nil
}

// inScope returns what has all ids of the scope and passes, oldest first.
func (s *store) inScope(want memoryScope, passes test) []*memory {
	m := &memory{user: want.user, agent: want.agent, run: want.run}
	out := s.find(s.scoped(want), func(x *memory) bool { return inScope(x, m) && passes(x) })
	slices.Reverse(out)
	return out
}

// wholeStore shows the payload as it lies in the store: role and the like stay
// in metadata, and nothing expires.
func (s *server) wholeStore(k int) *reply {
	rows := s.store.inScope(memoryScope{}, always)
	if k > 0 {
		rows = rows[:min(k, len(rows))]
	}
	return ok(object{"results": shapes(rows, func(m *memory) object {
		meta := object{"role": m.role, "actor_id": m.actor, "attributed_to": m.attribute, "expiration_date": m.expires}
		maps.DeleteFunc(meta, func(_ string, v any) bool { return v == nil })
		meta["text_lemmatized"] = m.text
		for name, v := range m.visible() {
			if _, taken := meta[name]; !taken {
				meta[name] = v
			}
		}
		return object{
			"id": m.id, "memory": m.text, "hash": m.hash, "created_at": m.created, "updated_at": m.updated,
			"user_id": orNull(m.user), "agent_id": orNull(m.agent), "run_id": orNull(m.run), "metadata": meta,
		}
	})})
}

// searchMemories takes the deprecated ids at the top level over those in
// filters, and then has the engine's filters override both.
func (s *server) search(c *call) *reply {
	filters := member(c.raw, "filters")
	for _, key := range engineIDs {
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
	return ok(object{"results": shapes(rank(query, found, threshold, k), func(h hit) object {
		row := engineOf(h.memory)
		row["score"] = h.score
		if truthy(c.body["explain"]) {
			row["score_details"] = object{
				"semantic_score": h.score, "bm25_score": json.Number("0.0"), "entity_boost": json.Number("0.0"), "raw_score": h.score,
				"max_possible_score": json.Number("1.0"), "final_score": h.score, "threshold": threshold,
			}
		}
		return row
	})})
}

// narrowest is the shelf to search. With an AND the ids of the top level may
// be overridden, so it is the whole store.
func (s *store) narrowest(filters dict) *shelf {
	if _, overridden := filters.get("AND"); overridden {
		return s.all
	}
	for _, key := range engineIDs {
		v, _ := filters.get(key)
		if id, isText := v.(string); isText && id != "*" {
			return s.entities[entityKey{strings.TrimSuffix(key, "_id"), id}]
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
