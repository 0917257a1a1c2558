package letta

// byName are the members of payloads, at any depth, that name somebody's object
// by a name instead of an id, and what they name. The server looks it up among
// everybody's, and nobody can be asked whose it is, so that where several tenants
// share the server it is out of reach; an id does the same.
var byName = map[string]string{
	"tools":         "tool",
	"from_template": "template",
}

// builtIn reports whether a tool is one of those that every server brings, as of
// 0.16.8: what they do, memproxy knows, and they belong to nobody.
func builtIn(tool string) bool {
	switch tool {
	case "send_message", "conversation_search", "archival_memory_insert", "archival_memory_search",
		"core_memory_append", "core_memory_replace", "memory", "memory_apply_patch", "memory_replace", "memory_insert", "memory_rethink", "memory_finish_edits",
		"search_memory", "store_memories", "rethink_user_memory", "finish_rethinking_memory",
		"send_message_to_agent_and_wait_for_reply", "send_message_to_agents_matching_tags", "send_message_to_agent_async",
		"run_code", "run_code_with_tools", "web_search", "fetch_webpage", "open_files", "grep_files", "semantic_search_files":
		return true
	}
	return false
}
