package contract

import (
	"net/http"
	"slices"
	"strings"
)

// NewLettaBackend returns a backend with the objects of a world.
func NewLettaBackend(w *World) *Backend { return &Backend{owners: w.Owners, reply: lettaReply} }

func lettaReply(b *Backend, r *http.Request, body string) (int, any) {
	segments := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	beside := beside(r, body)
	if static(segments) {
		return http.StatusOK, map[string]any{"status": "ok"}
	}
	switch strings.Trim(r.URL.Path, "/") { // of everybody, whatever parameters are there
	case "v1/tags":
		var tags []string
		for _, o := range b.owners {
			tags = append(tags, o.Canary)
		}
		return http.StatusOK, tags
	case "v1/agents/count":
		if r.URL.Query().Has("identity_id") || r.URL.Query().Has("identifier_keys") {
			return http.StatusOK, 1
		}
	}
	owners := b.named(r.URL.Path)
	if slices.ContainsFunc(segments, func(s string) bool { return strings.Contains(s, "-00000099-") || s == "seed-nobody" }) {
		return http.StatusNotFound, map[string]any{"detail": "not found"}
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead && !reads(segments) {
		b.touch(r, r.URL.Path+" "+beside, body)
	}
	if len(owners) == 0 {
		owners = b.named(beside)
	}
	if len(owners) == 0 {
		owners = b.owners
	}
	kind := collections[segments[len(segments)-1]]
	if segments[len(segments)-1] == "upload" {
		kind = "file"
	}
	if r.Method == http.MethodPost && kind != "" && kind != "message" {
		return http.StatusOK, b.create(kind, body, b.named(beside))
	}
	return http.StatusOK, respond(r.Method, segments, owners)
}

// create answers a creation: with an owner's object where the payload has the
// owner's word, which is how a world is put in place; else with a new one that
// shows what the payload refers to.
func (b *Backend) create(kind, body string, named []*Owner) any {
	for _, o := range b.owners {
		if strings.Contains(body, o.Objects["word"]) {
			return object(kind, o)
		}
	}
	fresh := &Owner{Canary: "new", Objects: lettaObjects(1000 + b.next())}
	out := object(kind, fresh)
	for member, kind := range map[string]string{"blocks": "block", "tools": "tool", "sources": "folder", "identities": "identity"} {
		if _, has := out[member]; has {
			out[member] = objects(kind, append([]*Owner{fresh}, named...))
		}
	}
	return out
}

// static reports whether a path is about nobody's objects.
func static(segments []string) bool {
	switch segments[0] {
	case "", "docs", "redoc", "openapi.json", "favicon.ico", "assets":
		return true
	}
	if len(segments) > 1 {
		switch segments[1] {
		case "health", "ready", "models", "auth", "_internal_search":
			return true
		}
	}
	return false
}

func reads(segments []string) bool {
	switch segments[len(segments)-1] {
	case "search", "preview-raw-payload", "recompile", "export":
		return true
	}
	return false
}

// collections are the kinds of a path's last words.
var collections = map[string]string{
	"agents": "agent", "blocks": "block", "archives": "archive", "passages": "passage", "archival-memory": "passage",
	"folders": "folder", "sources": "folder", "files": "file", "groups": "group", "identities": "identity", "messages": "message",
	"runs": "run", "active": "run", "jobs": "job", "steps": "step", "conversations": "conversation", "tools": "tool",
	"mcp-servers": "mcp_server", "servers": "mcp_server", "providers": "provider", "batches": "batch",
	"_internal_blocks": "block", "_internal_runs": "run", "shared-agents": "agent",
}

func respond(method string, segments []string, owners []*Owner) any {
	last := segments[len(segments)-1]
	if method == http.MethodPost && (last == "messages" || last == "generate" || last == "async" || last == "summarize" || last == "compact") {
		return map[string]any{
			"messages": objects("message", owners[:1]), "stop_reason": map[string]any{"message_type": "stop_reason", "stop_reason": "end_turn"},
			"usage": map[string]any{"message_type": "usage_statistics", "step_count": 1},
		}
	}
	if kind, ok := collections[last]; ok {
		list := objects(kind, owners)
		switch {
		case last == "files" && segments[1] == "agents":
			return map[string]any{"files": list, "has_more": false}
		case segments[len(segments)-2] == "batches":
			return map[string]any{"messages": list}
		}
		return list
	}
	switch last {
	case "count", "total_storage_size":
		return total
	case "trace":
		if segments[1] == "runs" {
			return []any{traced(owners[0])}
		}
		return traced(owners[0])
	case "context":
		return map[string]any{"core_memory": owners[0].Canary, "system_prompt": owners[0].Canary, "functions_definitions": []any{}}
	case "orgs", "users":
		return objects("identity", owners)
	case "core-memory":
		return map[string]any{"blocks": objects("block", owners), "file_blocks": []any{}, "prompt_template": owners[0].Canary}
	case "search":
		kind := "message"
		if len(segments) > 1 {
			if k, ok := collections[segments[1]]; ok && segments[len(segments)-2] != "messages" {
				kind = k
			}
		}
		if kind == "agent" && len(segments) > 3 || segments[len(segments)-2] == "archival-memory" {
			return map[string]any{"count": len(owners), "results": objects("passage", owners)}
		}
		return objects(kind, owners)
	}
	for _, o := range owners {
		for kind, id := range o.Objects {
			switch {
			case id != last:
			case kind == "message" && segments[1] == "messages": // one message may be shown as several
				return objects(kind, []*Owner{o})
			default:
				return object(kind, o)
			}
		}
	}
	if len(segments) > 2 && segments[len(segments)-2] == "blocks" { // by its label
		return object("block", owners[0])
	}
	if len(segments) > 3 && (segments[3] == "attach" || segments[3] == "detach") {
		return object("agent", owners[0])
	}
	return map[string]any{"text": owners[0].Canary, "content": owners[0].Canary, owners[0].Canary: true}
}

// traced is what went to a model, and came back.
func traced(o *Owner) map[string]any {
	return map[string]any{"id": o.Objects["step"], "request_json": map[string]any{"prompt": o.Canary}, "response_json": map[string]any{"text": o.Canary}, "step_id": o.Objects["step"]}
}

func objects(kind string, owners []*Owner) []any {
	var out []any
	for _, o := range owners {
		out = append(out, object(kind, o))
	}
	return out
}

// object is one object of an owner, with everything that the server shows of
// it and of what belongs to it.
func object(kind string, o *Owner) map[string]any {
	id, text := o.Objects, o.Canary
	out := map[string]any{
		"id": id[kind], "name": text, "description": text, "metadata": map[string]any{"note": text}, "tags": []string{text},
		"created_by_id": text, "project_id": text, "a_member_of_tomorrow": map[string]any{"deep": []any{text}},
	}
	more := map[string]any{}
	switch kind {
	case "agent":
		more = map[string]any{
			"agent_type": "letta_v1_agent", "system": text, "blocks": objects("block", []*Owner{o}),
			"memory": map[string]any{"blocks": objects("block", []*Owner{o}), "file_blocks": []any{}, "prompt_template": text},
			"tools":  objects("tool", []*Owner{o}), "sources": objects("folder", []*Owner{o}), "identities": objects("identity", []*Owner{o}),
			"identity_ids": []string{id["identity"]}, "message_ids": []string{id["message"]}, "tool_rules": []any{},
			"llm_config": map[string]any{"model": "gpt-4o-mini", "model_endpoint": "https://" + text, "handle": text},
			"secrets":    []any{map[string]any{"key": text, "value": text}}, "managed_group": object("group", o),
			"tool_exec_environment_variables": []any{map[string]any{"key": text, "value": text}},
		}
	case "block":
		more = map[string]any{"label": "human", "value": text, "limit": 20000, "read_only": false}
	case "passage":
		more = map[string]any{"text": text, "content": text, "agent_id": id["agent"], "archive_id": id["archive"], "embedding": nil}
	case "message":
		more = map[string]any{"message_type": "assistant_message", "content": text, "date": "2026-01-01T00:00:00Z", "agent_id": id["agent"],
			"run_id": id["run"], "step_id": id["step"], "sender_id": id["identity"]}
	case "tool":
		more = map[string]any{"source_code": text, "tool_type": "custom", "json_schema": map[string]any{"description": text}}
	case "file":
		more = map[string]any{"source_id": id["folder"], "content": text, "value": text, "file_name": text, "visible_content": text}
	case "run", "job":
		more = map[string]any{"agent_id": id["agent"], "status": "completed", "stop_reason": "end_turn", "conversation_id": id["conversation"]}
	case "step":
		more = map[string]any{"agent_id": id["agent"], "run_id": id["run"], "messages": objects("message", []*Owner{o}), "model": text}
	case "conversation":
		more = map[string]any{"agent_id": id["agent"], "summary": text, "in_context_message_ids": []string{id["message"]}, "isolated_block_ids": []string{id["block"]}}
	case "group":
		more = map[string]any{"agent_ids": []string{id["agent"]}, "manager_type": "round_robin", "shared_block_ids": []string{id["block"]}}
	case "identity":
		more = map[string]any{"identifier_key": id["user"], "identity_type": "user", "agent_ids": []string{id["agent"]}, "block_ids": []string{id["block"]},
			"properties": []any{map[string]any{"key": text, "value": text, "type": "string"}}}
	case "provider":
		more = map[string]any{"api_key": text, "base_url": text, "provider_type": "openai"}
	case "mcp_server":
		more = map[string]any{"server_url": text, "token": text, "env": map[string]any{text: text}}
	}
	for k, v := range more {
		out[k] = v
	}
	return out
}
