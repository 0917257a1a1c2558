package contract

import (
	"fmt"
	"regexp"
)

// lettaKinds are the prefixes of Letta's ids by what they name.
var lettaKinds = map[string]string{
	"agent": "agent", "block": "block", "passage": "passage", "archive": "archive", "folder": "source", "file": "file",
	"group": "group", "identity": "identity", "message": "message", "run": "run", "job": "job", "step": "step",
	"conversation": "conv", "tool": "tool", "mcp_server": "mcp_server", "provider": "provider",
	"sandbox": "sandbox", "env_var": "sandbox-env", "deployment": "deployment", "template": "template",
}

// LettaOwner is an owner with one object of each kind. n tells owners apart.
func LettaOwner(name, tenant string, n int) *Owner {
	o := &Owner{Name: name, Tenant: tenant, Canary: "canary" + name, Objects: lettaObjects(n)}
	o.Objects["user"] = "user-of-" + name
	o.Objects["word"] = "seed-" + name
	return o
}

func lettaObjects(n int) map[string]string {
	out := map[string]string{}
	for kind, prefix := range lettaKinds {
		out[kind] = fmt.Sprintf("%s-%08d-1111-4111-8111-111111111111", prefix, n)
	}
	out["batch"] = fmt.Sprintf("job-%08d-2222-4111-8111-111111111111", n) // a batch is a job
	return out
}

// LettaUnknown are ids and names of nobody.
func LettaUnknown() map[string]string {
	out := lettaObjects(99)
	out["user"], out["word"] = "user-of-nobody", "seed-nobody"
	return out
}

// Letta is the format of the V1 server and of the Cloud's routes.
func Letta() *Format {
	body := func(routes, json string) Body { return Body{regexp.MustCompile(routes), json} }
	return &Format{
		Params: map[string]string{
			"agent_id": "agent", "archive_id": "archive", "batch_id": "batch", "block_id": "block", "connection": "agent",
			"conversation_id": "conversation", "deployment_id": "deployment", "env_var_id": "env_var", "file_id": "file",
			"folder_id": "folder", "source_id": "folder", "folder_name": "word", "source_name": "word", "group_id": "group",
			"identity_id": "identity", "job_id": "job", "label": "=human", "mcp_server_id": "mcp_server",
			"mcp_server_name": "word", "mcp_tool_name": "word", "memory_id": "passage", "passage_id": "passage",
			"message_id": "message", "part": "=content", "provider_id": "provider", "run_id": "run",
			"sandbox_config_id": "sandbox", "schedule": "word", "step_id": "step", "template_version": "template",
			"tool_id": "tool", "tool_name": "=archival_memory_search", "transaction_id": "=noted",
		},
		Rest: map[string]string{
			"letta.anthropic_catchall_proxy": "agent", "letta.zai_catchall_proxy": "agent", "letta.git": "agent",
			"letta.cloud.attach_repository": "word", "letta.cloud.repository": "word", "letta.cloud.delete_template": "template",
			"letta.cloud.template": "template", "letta.cloud.change_template": "template", "letta.cloud.feed": "word",
			"letta.cloud.feed.write": "word", "letta.cloud.pipeline": "word", "letta.cloud.pipeline.write": "word",
			"letta.cloud.share_agent": "agent", "letta.cloud.tokens": "word", "letta.cloud.metadata": "word", "letta.assets": "word",
		},
		Query: map[string]string{
			"agent_id": "agent", "agent_ids": "agent", "identity_id": "identity", "identifier_keys": "user", "archive_id": "archive",
			"source_id": "folder", "conversation_id": "conversation", "run_id": "run", "group_id": "group", "block_id": "block",
			"manager_agent_id": "agent", "before": "message", "after": "message", "user_id": "user", "step_id": "step",
			"message_id": "message", "job_id": "job", "template_id": "template",
			"trace_ids": "step", "tool_id": "tool", "file_id": "file", "folder_id": "folder", "provider_id": "provider", "mcp_server_id": "mcp_server",
			"name": "word?", "names": "word?", "tags": "word?", "query_text": "word?", "project_id": "word?", "an_id_of_tomorrow": "block",
		},
		Headers: map[string]string{"User_id": "user", "X-Letta-Agent-Id": "agent", "X-Letta-Acting-User-Id": "user", "X-Memproxy-Session": "agent",
			"X-Block-Of-Tomorrow": "block", "X-Project": "word?"},
		Members: map[string]string{
			"agent_id": "agent", "agent_ids": "agent[]", "block_ids": "block[]", "isolated_block_ids": "block[]", "source_ids": "folder[]",
			"folder_ids": "folder[]", "tool_ids": "tool[]", "identity_ids": "identity[]", "archive_id": "archive", "archive_ids": "archive[]",
			"conversation_id": "conversation", "group_id": "group", "manager_agent_id": "agent", "shared_block_ids": "block[]",
			"run_id": "run", "run_ids": "run[]", "message_ids": "message[]", "message_id": "message", "file_ids": "file[]",
			"identity_id": "identity", "user_id": "user", "identifier_key": "user", "sender_id": "identity", "step_id": "step",
			"manager_config.manager_agent_id": "agent", "template_id": "template", "base_template_id": "template", "previous_response_id": "run",
			"model": "agent", "metadata.agent_id": "agent", "passage.agent_id": "agent", "job_id": "job", "file_id": "file",
			"tools": "word[]", "from_template": "word",
		},
		Queries: map[string]string{
			"letta.search_archival_memory": "query=canary", "letta.list_conversations": "agent_id={agent}",
			"letta.upload_file_to_folder": "name=a.txt", "letta.upload_file_to_source": "name=a.txt",
		},
		Bodies: []Body{
			body(`^(GET|DELETE) `, ""),
			body(`\.(create_block|create_internal_block|create_internal_template_block)$`, `{"label":"notes","value":"tea"}`),
			body(`create_internal_template_blocks_batch$`, `{"blocks":[{"label":"notes","value":"tea"}]}`),
			body(`modify.*block$`, `{"value":"tea"}`),
			body(`(create_agent|template_agent|agents_from_template)$`, `{"name":"a","memory_blocks":[{"label":"human","value":"tea"}]}`),
			body(`modify_agent$`, `{"description":"tea"}`),
			body(`create_passages_in_archive$`, `{"passages":[{"text":"tea"}]}`),
			body(`(create_passage|create_passage_in_archive|modify_passage)$`, `{"text":"tea"}`),
			body(`create_batch$`, `{"requests":[{"agent_id":"{agent}","messages":[{"role":"user","content":"hi"}]}]}`),
			body(`capture_messages$`, `{"request_messages":[{"role":"user","content":"hi"}],"response_dict":{"content":"hello"}}`),
			body(`run_tool_for_agent$`, `{"args":{"query":"canary"}}`),
			body(`(chat_completion|chat_completions|messages_proxy)`, `{"model":"{agent}","messages":[{"role":"user","content":"hi"}]}`),
			body(`(send_message|_async|message_stream|environment_messages|ephemeral|send_conversation_message|send_group_message|generate_completion|preview.*request|cloud\.schedule)$`,
				`{"messages":[{"role":"user","content":"hi"}]}`),
			body(`search`, `{"query":"canary"}`),
			body(`create_group$`, `{"agent_ids":["{agent}"],"description":"tea"}`),
			body(`create_archive$`, `{"name":"tea"}`),
			body(`create_conversation$`, `{"summary":"tea"}`),
			body(`(create_folder|create_source)$`, `{"name":"tea"}`),
			body(`(create_identity|upsert_identity)$`, `{"identifier_key":"{user}","name":"tea","identity_type":"user"}`),
			body(`properties_for_identity$`, `[{"key":"k","value":"tea","type":"string"}]`),
			body(`^(POST|PUT|PATCH) `, `{}`),
		},
	}
}
