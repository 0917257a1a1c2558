package embedded

import (
	"crypto/md5"
	"encoding/hex"
	"maps"
	"net/http"
	"slices"
)

const needID = "At least one of user_id, agent_id or run_id is required."

// serverKinds are the entities that the engine knows.
var serverKinds = []string{"user", "agent", "run"}

// hash returns the MD5 of the text, as Mem0 does. It is not used for security.
func (m *memory) hash() string {
	sum := md5.Sum([]byte(m.text))
	return hex.EncodeToString(sum[:])
}

// add believes the ids of the payload. Unknown keys, such as app_id, are ignored.
func (b server) add(c *call) (any, error) {
	messages, isList := c.body["messages"].([]any)
	for _, item := range messages {
		msg, _ := item.(object)
		_, worded := msg["content"].(string)
		isList = isList && worded && text(msg, "role") != ""
	}
	if !isList {
		return nil, fail(http.StatusUnprocessableEntity, "messages must be a list of objects with a role and a content")
	}
	of, err := scopeOf(c.body, serverKinds...)
	if err != nil {
		return nil, err
	}
	if len(of) == 0 {
		return nil, badRequest(needID)
	}
	template := memory{of: of, input: messages, expires: c.body["expiration_date"]}
	if meta, isObject := c.body["metadata"].(object); isObject {
		template.addMetadata(meta)
		template.created = text(meta, "created_at") // backdating through metadata
		if day := c.body["expiration_date"]; day != nil {
			template.expires = day
		}
	}
	infer := c.body["infer"] != false
	made, err := b.remember(template, messages, infer, c.now)
	return object{"results": shapes(made, func(m *memory) object {
		row := object{"id": m.id, "memory": m.text, "event": "ADD"}
		if !infer {
			row["actor_id"], row["role"] = m.actor, m.role
		}
		return row
	})}, err
}

// engineOf returns a memory as the engine shows it, without absent fields.
func engineOf(m *memory) object {
	out := object{
		"id": m.id, "memory": m.text, "hash": m.hash(), "created_at": m.created, "updated_at": m.updated,
		"user_id": orNull(m.of["user"]), "agent_id": orNull(m.of["agent"]), "run_id": orNull(m.of["run"]),
		"actor_id": m.actor, "role": m.role, "attributed_to": m.attribute, "expiration_date": m.expires,
	}
	maps.DeleteFunc(out, func(_ string, v any) bool { return v == nil })
	out["metadata"] = orNil(m.metadata)
	return out
}

// get answers null for a missing memory.
func (b server) get(c *call) (any, error) {
	m := b.byID(c.args[0])
	if m == nil {
		return nil, nil
	}
	out := engineOf(m)
	out["score"] = nil // the real server includes it although this is no search
	return out, nil
}

func (b server) update(c *call) (any, error) {
	m := b.byID(c.args[0])
	if m == nil {
		return nil, fail(http.StatusNotFound, notFound)
	}
	if err := m.rewrite(c.body, true, c.now); err != nil {
		return nil, err
	}
	return done("Memory updated successfully!")
}

func (b server) drop(c *call) (any, error) {
	m := b.byID(c.args[0])
	if m == nil {
		return nil, fail(http.StatusNotFound, notFound)
	}
	b.delete(m, c.now)
	return done("Memory deleted successfully!")
}

func (b server) history(c *call) (any, error) {
	m := b.past(c.args[0])
	if m == nil {
		return []any{}, nil
	}
	return shapes(m.history, func(h change) object {
		return object{
			"id": h.id, "memory_id": m.id, "old_memory": h.old, "new_memory": h.new, "event": h.event, "created_at": m.created,
			"updated_at": h.at, "is_deleted": h.event == "DELETE", "actor_id": h.actor, "role": h.role,
		}
	}), nil
}

// list lists memories. Without an id it shows the raw store.
func (b server) list(c *call) (any, error) {
	of, err := scopeOf(queryParams(c), serverKinds...)
	if err != nil {
		return nil, err
	}
	whole, k := len(of) == 0, 20
	if whole {
		k = len(b.memories)
	}
	if k, err = positive(c, "top_k", k); err != nil {
		return nil, err
	}
	passes := within(of)
	rows := b.find(func(m *memory) bool {
		return passes(m) && (whole || truthy(c.last("show_expired")) || !m.expired(c.now))
	})
	slices.Reverse(rows)
	return object{"results": shapes(rows[:min(k, len(rows))], func(m *memory) object {
		out := engineOf(m)
		if whole { // role and similar fields stay in metadata, and expired memories are shown
			meta := object{"text_lemmatized": m.text}
			maps.Copy(meta, m.metadata)
			for _, name := range [...]string{"role", "actor_id", "attributed_to", "expiration_date"} {
				if v, there := out[name]; there {
					meta[name] = v
					delete(out, name)
				}
			}
			out["metadata"] = meta
		}
		return out
	})}, nil
}

// search prefers the deprecated ids at the top level to those in filters, but the
// engine's filters override both: conditions inside AND are merged into the top level,
// so that a nested user_id replaces the caller's own, and "*" removes the scope.
func (b server) search(c *call) (any, error) {
	filters, _ := c.body["filters"].(object)
	if filters = maps.Clone(filters); filters == nil {
		filters = object{}
	}
	scoped := false
	for _, kind := range serverKinds {
		key := kind + "_id"
		if id := text(c.body, key); id != "" {
			filters[key] = id
		}
		scoped = scoped || filters[key] != nil
	}
	if !scoped {
		return nil, badRequest("filters must contain at least one of: user_id, agent_id, run_id. Example: filters={'user_id': 'u1'}")
	}
	if and, given := filters["AND"]; given {
		list, _ := and.([]any)
		delete(filters, "AND")
		for _, item := range list {
			conditions, _ := item.(object)
			maps.Copy(filters, conditions)
		}
	}
	passes, err := engine.filter(filters)
	if err != nil {
		return nil, err
	}
	rows := b.find(func(m *memory) bool { return passes(m) && (truthy(c.body["show_expired"]) || !m.expired(c.now)) })
	return object{"results": shapes(rank(text(c.body, "query"), rows, c.number("threshold", 0.1), int(c.number("top_k", 20))), func(h hit) object {
		row := engineOf(h.memory)
		row["score"] = h.score
		return row
	})}, nil
}

// deleteAll is the administrator's bulk deletion.
func (b server) deleteAll(c *call) (any, error) {
	of, err := scopeOf(queryParams(c), serverKinds...)
	if err == nil && len(of) == 0 {
		err = badRequest(needID)
	}
	if err != nil {
		return nil, err
	}
	b.deleteWithin(of, c.now)
	return done("Memories deleted successfully!")
}

func (b server) deleteWithin(of map[string]string, now string) {
	for _, m := range b.find(within(of)) {
		b.delete(m, now)
	}
}

func (b server) deleteEntity(c *call) (any, error) {
	b.deleteWithin(map[string]string{c.args[0]: c.args[1]}, c.now)
	return done("Entity deleted successfully")
}

func (b server) listEntities(*call) (any, error) {
	return shapes(b.entities(serverKinds...), func(e *entity) object {
		return object{"id": e.Name, "type": e.Type, "total_memories": e.Total, "created_at": e.Created, "updated_at": e.Updated}
	}), nil
}

// reset deletes the memories and keeps the settings.
func (b server) reset(*call) (any, error) {
	b.memories = nil
	return done("All memories reset")
}

func initialConfig() object {
	model := object{"provider": "openai", "config": object{"model": "none", "api_key": "********", "openai_base_url": "http://127.0.0.1:9/v1"}}
	return object{"vector_store": object{"provider": "embedded", "config": object{}}, "llm": model, "embedder": model}
}

func (b server) getConfig(*call) (any, error) { return b.config, nil }

// configure accepts any setting, also the model's address: its caller can redirect all
// prompts.
func (b server) configure(c *call) (any, error) {
	maps.Copy(b.config, c.body)
	return done("Configuration set successfully")
}
