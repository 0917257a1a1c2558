package contract

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
)

// NewMem0Backend returns a backend with the objects of a world.
func NewMem0Backend(w *World) *Backend { return &Backend{owners: w.Owners, reply: mem0Reply} }

func mem0Reply(b *Backend, r *http.Request, body string) (int, any) {
	path := strings.Trim(r.URL.Path, "/")
	segments := strings.Split(path, "/")
	beside := beside(r, body)
	switch path {
	case "", "docs", "redoc", "openapi.json", "v1/ping", "configure/providers":
		return http.StatusOK, map[string]any{"status": "ok", "user_email": "somebody@example.org"}
	}
	if slices.ContainsFunc(segments, func(s string) bool { return strings.HasPrefix(s, "00000099-") }) {
		return http.StatusNotFound, map[string]any{"detail": "Memory not found"}
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead && !mem0Reads(path) {
		b.touch(r, path+" "+beside, body)
	}
	owners := b.named(path)
	if len(owners) == 0 {
		owners = b.named(beside)
	}
	if strings.Contains(body, graphOnly) {
		if strings.Contains(body, "*") {
			owners = b.owners
		}
		return http.StatusOK, map[string]any{"results": []any{}, "relations": related(owners)}
	}
	if len(owners) == 0 || strings.Contains(body, "*") || strings.Contains(body, `"NOT"`) || strings.Contains(body, `"ne"`) {
		owners = b.owners
	}
	if path == "v1/summary" || path == "v1/exports/get" { // made of all whom it is narrowed to
		texts := []string{}
		for _, o := range b.narrowed(body) {
			texts = append(texts, o.Canary)
		}
		return http.StatusOK, map[string]any{"summary": strings.Join(texts, " ")}
	}
	if r.Method == http.MethodPost && !mem0Reads(path) {
		return http.StatusOK, b.added(path, body, owners)
	}
	return http.StatusOK, mem0Answer(r.Method, path, segments, owners)
}

// narrowed are the owners whom the filters of a summary leave, as the platform
// reads them: what is next to them, or under anything but AND, narrows nothing.
func (b *Backend) narrowed(body string) []*Owner {
	var q struct {
		Filters map[string]any `json:"filters"`
	}
	_ = json.Unmarshal([]byte(body), &q) // what is no JSON has no filters
	return slices.DeleteFunc(slices.Clone(b.owners), func(o *Owner) bool {
		return !o.passes(q.Filters) && !stands(body, o.Objects["export"]) // which is found by its id
	})
}

func (o *Owner) passes(filters map[string]any) bool {
	for name, v := range filters {
		if list, ok := v.([]any); ok && name == "AND" {
			for _, e := range list {
				if object, ok := e.(map[string]any); ok && !o.passes(object) {
					return false
				}
			}
			continue
		}
		kind, isID := strings.CutSuffix(name, "_id")
		if object, ok := v.(map[string]any); ok && object["in"] != nil {
			v = object["in"]
		}
		if id, known := o.Objects[kind]; isID && known && !names(v, id) {
			return false
		}
	}
	return true
}

// names reports whether a filter's value is an id, a list in which it is, or one
// that the platform does not take for an id.
func names(v any, id string) bool {
	switch v := v.(type) {
	case string:
		return v == id || v == "*"
	case []any:
		return slices.ContainsFunc(v, func(e any) bool { return e == any(id) })
	}
	return true
}

// graphOnly is a question to which the graph alone has an answer: the relations
// come with no memory that would tell whose they are.
const graphOnly = `"graph only"`

func mem0Reads(path string) bool {
	switch path {
	case "v3/memories", "v2/memories", "v1/summary", "v1/exports/get", "search":
		return true
	}
	return strings.HasSuffix(path, "/search")
}

// added answers an addition. Beside the new memory it tells of memories of
// everybody whom the payload names, as an engine does that found them alike.
func (b *Backend) added(path, body string, owners []*Owner) any {
	seeded := false
	fresh := &Owner{Canary: "new", Objects: mem0Objects("new", 1000+b.next())}
	for _, o := range b.owners {
		if strings.Contains(body, o.Objects["word"]) {
			fresh, seeded = o, true
		}
	}
	if path == "v1/exports" {
		return map[string]any{"id": fresh.Objects["export"], "message": "accepted"}
	}
	results := []any{map[string]any{"id": fresh.Objects["memory"], "event": "ADD", "memory": fresh.Canary, "data": map[string]any{"memory": fresh.Canary}}}
	if !seeded {
		for _, o := range b.owners { // of a memory that only the engine knows
			results = append(results, map[string]any{
				"id": mem0Objects("new", 1000+b.next())["memory"], "event": "UPDATE", "memory": fresh.Canary, "previous_memory": o.Canary, "old_memory": o.Canary,
			})
		}
		for _, o := range owners {
			for _, event := range []string{"UPDATE", "DELETE", "NONE"} {
				results = append(results, map[string]any{
					"id": o.Objects["memory"], "event": event, "memory": o.Canary, "previous_memory": o.Canary, "old_memory": o.Canary, "actor_id": o.Canary,
				})
			}
		}
	}
	out := map[string]any{"results": results}
	if !seeded {
		out["relations"] = relations(owners)
		out["a_member_of_tomorrow"] = owners[0].Canary
	} else {
		out["event_id"], out["status"] = fresh.Objects["event"], "PENDING"
	}
	return out
}

// related are the relations that a search or a list tells of.
func related(owners []*Owner) (out []any) {
	for _, o := range owners {
		out = append(out, map[string]any{"source": o.Canary, "relationship": "likes", "target": o.Canary, "destination": o.Canary})
	}
	return out
}

func relations(owners []*Owner) any {
	added := related(owners)
	return map[string]any{"added_entities": added, "deleted_entities": added}
}

func mem0Memory(o *Owner) map[string]any {
	return map[string]any{
		"id": o.Objects["memory"], "memory": o.Canary, "hash": o.Canary, "metadata": map[string]any{"note": o.Canary}, "user_id": o.Objects["user"],
		"agent_id": nil, "categories": []any{o.Canary}, "created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-01T00:00:00Z", "score": 0.5,
		"a_member_of_tomorrow": map[string]any{"deep": o.Canary}, "linked_memories": []any{o.Canary},
	}
}

func each(owners []*Owner, one func(*Owner) map[string]any) []any {
	out := []any{}
	for _, o := range owners {
		out = append(out, one(o))
	}
	return out
}

func mem0Answer(method, path string, segments []string, owners []*Owner) any {
	last := segments[len(segments)-1]
	memories := each(owners, mem0Memory)
	text := owners[len(owners)-1].Canary // what is made of many is made of whom it is narrowed to
	history := each(owners, func(o *Owner) map[string]any {
		return map[string]any{"id": o.Objects["number"], "memory_id": o.Objects["memory"], "old_memory": o.Canary, "new_memory": o.Canary, "user_id": o.Objects["user"],
			"input": []any{map[string]any{"role": "user", "content": o.Canary}}, "event": "UPDATE", "created_at": "2026-01-01T00:00:00Z", "metadata": map[string]any{"n": o.Canary}}
	})
	event := func(o *Owner) map[string]any {
		return map[string]any{"id": o.Objects["event"], "status": "SUCCEEDED", "payload": map[string]any{"user_id": o.Objects["user"], "messages": []any{map[string]any{"role": "user", "content": o.Canary}}},
			"results": []any{map[string]any{"id": o.Objects["memory"], "event": "ADD", "data": map[string]any{"memory": o.Canary}}}, "metadata": map[string]any{"n": o.Canary}}
	}
	switch {
	case last == "history":
		return history
	case path == "v1/memories/events":
		return map[string]any{"count": len(history), "next": nil, "previous": nil, "results": history}
	case path == "v1/events":
		return map[string]any{"count": len(owners), "next": nil, "results": each(owners, event)}
	case strings.HasPrefix(path, "v1/event/"):
		return event(owners[0])
	case path == "v1/memories" || path == "v2/memories" || path == "v2/memories/search" || path == "v1/memories/search":
		return memories
	case path == "v1/agent-rush/memories/search":
		return map[string]any{"memories": memories}
	case len(segments) == 4 && segments[0] == "v2" && segments[1] == "entities":
		return each(owners, func(o *Owner) map[string]any {
			return map[string]any{"id": o.Objects["user"], "name": o.Objects["user"], "type": "user", "total_memories": 3, "metadata": map[string]any{"n": o.Canary}}
		})
	case path == "v3/memories":
		return map[string]any{"count": len(owners), "next": nil, "previous": nil, "results": memories, "data": memories, "summary": text}
	case path == "v3/memories/search" || path == "memories" || path == "search":
		return map[string]any{"results": memories, "relations": related(owners), "data": memories, "summary": text}
	case path == "v1/entities":
		return map[string]any{"count": len(owners), "results": each(owners, func(o *Owner) map[string]any {
			return map[string]any{"id": o.Objects["number"], "name": o.Objects["user"], "type": "user", "total_memories": 3, "metadata": map[string]any{"n": o.Canary}, "owner": o.Canary}
		})}
	case path == "entities":
		return each(owners, func(o *Owner) map[string]any {
			return map[string]any{"id": o.Objects["user"], "type": "user", "total_memories": 3, "note": o.Canary}
		})
	case path == "v1/stats":
		return map[string]any{"total_memories": total, "total_search_events": 1, "note": text}
	case len(segments) == 4 && segments[1] == "memories" && segments[0] == "v1":
		return map[string]any{"count": len(owners), "results": memories}
	case len(segments) == 3 && segments[1] == "memories" || len(segments) == 2 && segments[0] == "memories":
		if method == http.MethodDelete {
			return map[string]any{"message": "Memory deleted successfully!"}
		}
		return mem0Memory(owners[0])
	case method == http.MethodDelete || method == http.MethodPut:
		return map[string]any{"message": "done"}
	}
	return map[string]any{"text": text, "profile": text, "summary": text, "categories": []any{text}, "config": map[string]any{"api_key": text}, text: text}
}
