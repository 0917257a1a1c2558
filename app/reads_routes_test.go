package app_test

import "strings"

// Letta objects that relate to no memory.
const (
	lettaAgent  = "agent-11111111-1111-4111-8111-111111111111"
	lettaFolder = "source-44444444-4444-4444-8444-444444444444"
)

// mem0Reads are the read routes of Mem0.
func mem0Reads() []readRow {
	const (
		el      = `{"id":"{M}","memory":"{T}","user_id":"ann","metadata":{"a":1}},{"id":"{O}","memory":"{OPEN}","user_id":"ann","metadata":null}`
		list    = `[` + el + `]`
		results = `{"results":` + list + `}`
		paged   = `{"count":2,"next":null,"previous":null,"results":` + list + `}`
		hist    = `{"id":"h1","memory_id":"{M}","old_memory":"{T}","new_memory":"{T}","input":[{"role":"user","content":"{T}"}],"user_id":"ann","event":"UPDATE"}`
		openHis = `{"id":"h2","memory_id":"{O}","old_memory":null,"new_memory":"{OPEN}","input":[],"user_id":"ann","event":"ADD"}`
		told    = `{"id":"0d9a0000-0000-4000-8000-000000000001","status":"SUCCEEDED","payload":{"user_id":"ann","messages":[{"role":"user","content":"{T}"}]},` +
			`"results":[{"id":"{M}","event":"ADD","data":{"memory":"{T}"}},{"id":"{O}","event":"ADD","data":{"memory":"{OPEN}"}}]}`
		search  = `{"query":"tea","filters":{"user_id":"ann"}}`
		filters = `{"filters":{"AND":[{"user_id":"ann"}]}}`
		names   = "it names users and agents, and counts their memories"
	)
	return []readRow{
		{"mem0.v3.search", "POST", "/v3/memories/search/", search, results, listed, ""},
		{"mem0.v2.search", "POST", "/v2/memories/search/", search, list, listed, ""},
		{"mem0.v1.search", "POST", "/v1/memories/search/", `{"query":"tea","user_id":"ann"}`, list, listed, ""},
		{"mem0.v3.list", "POST", "/v3/memories/", filters, paged, listed, ""},
		{"mem0.v2.list", "POST", "/v2/memories/", filters, list, listed, ""},
		{"mem0.v1.list", "GET", "/v1/memories/?user_id=ann", "", list, listed, ""},
		{"mem0.v1.history.all", "GET", "/v1/memories/events/?user_id=ann", "", `{"count":2,"next":null,"results":[` + hist + `,` + openHis + `]}`, unparted, ""},
		{"mem0.v1.get", "GET", "/v1/memories/{M}/", "", `{"id":"{M}","memory":"{T}","user_id":"ann"}`, single, ""},
		{"mem0.v1.history", "GET", "/v1/memories/{M}/history/", "", `[` + hist + `]`, unparted, ""},
		{"mem0.v1.entity.memories", "GET", "/v1/memories/user/ann/", "", `{"count":2,"results":[{"id":"{M}","memory":"{T}","user_id":"ann","input":[{"role":"user","content":"{T}"}]},{"id":"{O}","memory":"{OPEN}","user_id":"ann"}]}`, listed, ""},
		{"mem0.v1.event", "GET", "/v1/event/0d9a0000-0000-4000-8000-000000000001/", "", told, unparted, ""},
		{"mem0.v1.events", "GET", "/v1/events/", "", `{"count":1,"next":null,"results":[` + told + `]}`, unparted, ""},
		{"mem0.v1.export", "POST", "/v1/exports/", `{"schema":{"type":"object"},"filters":{"AND":[{"user_id":"ann"}]}}`, `{"id":"x1","message":"{T}"}`, derived, ""},
		{"mem0.v1.export.get", "POST", "/v1/exports/get/", filters, `{"fact":"{T}"}`, derived, ""},
		{"mem0.v1.summary", "POST", "/v1/summary/", filters, `{"summary":"{T}"}`, derived, ""},
		{"mem0.v2.profile", "GET", "/v2/entities/user/ann/profile/", "", `{"profile":{"likes":"{T}"}}`, derived, ""},
		{"mem0.v2.profile.job.get", "GET", "/v2/profiles/jobs/j1/?user_id=ann", "", `{"job_id":"j1","profile":"{T}"}`, derived, ""},
		{"mem0.v1.entities", "GET", "/v1/entities/", "", `{"count":1,"results":[{"id":"1","name":"ann","type":"user","total_memories":2}]}`, nothing, names},
		{"mem0.v1.entities.filters", "GET", "/v1/entities/filters/?user_id=ann", "", `{"categories":["{T}"]}`, derived, ""},
		{"mem0.v2.entity", "GET", "/v2/entities/user/ann/", "", `[{"id":"1","name":"ann","type":"user"}]`, nothing, names},
		{"mem0.rush.search", "POST", "/v1/agent-rush/memories/search/", `{"query":"tea"}`, `{"memories":` + list + `}`, refused, ""},
		{"mem0.server.list", "GET", "/memories?user_id=ann", "", results, listed, ""},
		{"mem0.server.get", "GET", "/memories/{M}", "", `{"id":"{M}","memory":"{T}","user_id":"ann"}`, single, ""},
		{"mem0.server.history", "GET", "/memories/{M}/history", "", `[{"id":"h1","memory_id":"{M}","old_memory":"{T}","new_memory":"{T}","event":"UPDATE"}]`, unparted, ""},
		{"mem0.server.search", "POST", "/search", search, results, listed, ""},
		{"mem0.server.entities", "GET", "/entities", "", `[{"id":"ann","type":"user","total_memories":2}]`, nothing, names},
		{"openmemory.list", "GET", "/api/v1/memories/", "", `{"items":[{"id":"{M}","content":"{T}"}]}`, refused, ""},
		{"openmemory.get", "GET", "/api/v1/memories/{M}", "", `{"id":"{M}","text":"{T}"}`, refused, ""},
	}
}

// lettaBlockReads are the read routes on blocks and what is derived from them, and
// routes without memories.
func lettaBlockReads() []readRow {
	const (
		one    = `{"id":"{M}","label":"human","value":"{T}","metadata":{}}`
		blocks = one + `,{"id":"{O}","label":"notes","value":"{OPEN}"}`
		list   = `[` + blocks + `]`
		agent  = `{"id":"` + lettaAgent + `","name":"n","blocks":` + list + `,"memory":{"blocks":` + list + `,"file_blocks":[]}}`
		agents = `[` + agent + `]`
		prompt = `{"id":"message-55555555-5555-4555-8555-555555555555","message_type":"system_message","content":"<human>{T}</human>"},` +
			`{"id":"message-66666666-6666-4666-8666-666666666666","message_type":"user_message","content":"{OPEN}"}`
		messages = `[` + prompt + `]`
		raw      = `[{"id":"message-55555555-5555-4555-8555-555555555555","role":"system","content":"<human>{T}</human>"},` +
			`{"id":"message-66666666-6666-4666-8666-666666666666","role":"user","content":"{OPEN}"}]`
		found = `[{"embedded_text":"<human>{T}</human>","message":{"id":"message-55555555-5555-4555-8555-555555555555","role":"system","content":"<human>{T}</human>"}},` +
			`{"embedded_text":"{OPEN}","message":{"id":"message-66666666-6666-4666-8666-666666666666","role":"user","content":"{OPEN}"}}]`
		made     = `{"text":"{T}"}`
		prompted = `"{T}"`
		trace    = `{"id":"t1","request_json":{"text":"{T}"},"response_json":{}}`
		a        = "/v1/agents/" + lettaAgent
		group    = "group-77777777-7777-4777-8777-777777777777"
		identity = "identity-77777777-7777-4777-8777-777777777777"
		conv     = "conv-77777777-7777-4777-8777-777777777777"
		run      = "run-77777777-7777-4777-8777-777777777777"
		step     = "step-77777777-7777-4777-8777-777777777777"
		job      = "job-77777777-7777-4777-8777-777777777777"
		tool     = "tool-77777777-7777-4777-8777-777777777777"
		tools    = `[{"id":"` + tool + `","name":"n","tool_type":"letta_core"}]`
		archive  = "archive-77777777-7777-4777-8777-777777777777"
		chat     = `{"messages":[{"role":"user","content":"hi"}]}`
		search   = `{"query":"tea","agent_id":"` + lettaAgent + `"}`
	)
	rows := []readRow{
		{"letta.list_internal_blocks", "GET", "/v1/_internal_blocks/", "", list, listed, ""},
		{"letta.list_blocks", "GET", "/v1/blocks/", "", list, listed, ""},
		{"letta.retrieve_block", "GET", "/v1/blocks/{M}", "", one, single, ""},
		{"letta.list_blocks_for_identity", "GET", "/v1/identities/" + identity + "/blocks", "", list, listed, ""},
		{"letta.list_core_memory_blocks", "GET", a + "/core-memory/blocks", "", list, listed, ""},
		{"letta.retrieve_core_memory_block", "GET", a + "/core-memory/blocks/human", "", one, single, ""},
		{"letta.retrieve_agent", "GET", a, "", agent, listed, ""},
		{"letta.retrieve_agent_memory", "GET", a + "/core-memory", "", `{"blocks":` + list + `,"file_blocks":[],"prompt_template":""}`, listed, ""},
		{"letta.list_agents", "GET", "/v1/agents/", "", agents, listed, ""},
		{"letta.list_agents_for_internal_block", "GET", "/v1/_internal_blocks/{O}/agents", "", agents, listed, ""},
		{"letta.list_agents_for_block", "GET", "/v1/blocks/{O}/agents", "", agents, listed, ""},
		{"letta.list_agents_for_archive", "GET", "/v1/archives/" + archive + "/agents", "", agents, listed, ""},
		{"letta.list_agents_for_identity", "GET", "/v1/identities/" + identity + "/agents", "", agents, listed, ""},
		{"letta.cloud.search_agents", "POST", "/v1/agents/search", `{"query":"n"}`, `{"agents":` + agents + `}`, listed, ""},
		{"letta.cloud.shared_agents", "GET", "/v1/shared-agents", "", agents, listed, ""},

		{"letta.list_messages", "GET", a + "/messages", "", messages, compiled, ""},
		{"letta.list_conversation_messages", "GET", "/v1/conversations/" + conv + "/messages", "", messages, compiled, ""},
		{"letta.list_group_messages", "GET", "/v1/groups/" + group + "/messages", "", messages, compiled, ""},
		{"letta.list_all_messages", "GET", "/v1/messages/", "", messages, compiled, ""},
		{"letta.list_messages_for_run", "GET", "/v1/runs/" + run + "/messages", "", messages, compiled, ""},
		{"letta.list_messages_for_step", "GET", "/v1/steps/" + step + "/messages", "", messages, compiled, ""},
		{"letta.list_messages_for_batch", "GET", "/v1/messages/batches/b1/messages", "", `{"messages":` + raw + `}`, compiled, ""},
		{"letta.retrieve_message", "GET", "/v1/messages/message-55555555-5555-4555-8555-555555555555", "", messages, compiled, ""},
		{"letta.search_messages", "POST", "/v1/agents/messages/search", search, found, compiled, ""},
		{"letta.search_all_messages", "POST", "/v1/messages/search", search, strings.ReplaceAll(messages, `"id"`, `"message_id"`), compiled, ""},

		{"letta.retrieve_agent_context_window", "GET", a + "/context", "", `{"core_memory":"{T}"}`, derived, ""},
		{"letta.export_agent", "GET", a + "/export", "", made, derived, ""},
		{"letta.export_agent_with_skills", "POST", a + "/export", `{}`, made, derived, ""},
		{"letta.preview_model_request", "POST", a + "/messages/preview-raw-payload", chat, made, derived, ""},
		{"letta.preview_conversation_model_request", "POST", "/v1/conversations/" + conv + "/messages/preview-raw-payload", chat, made, derived, ""},
		{"letta.recompile_agent", "POST", a + "/recompile", "", prompted, derived, ""},
		{"letta.recompile_agent_system_prompt", "POST", a + "/system-prompt/recompile", "", prompted, derived, ""},
		{"letta.recompile_conversation", "POST", "/v1/conversations/" + conv + "/recompile", "", prompted, derived, ""},
		{"letta.retrieve_trace_for_run", "GET", "/v1/runs/" + run + "/trace", "", `[` + trace + `]`, derived, ""},
		{"letta.retrieve_trace_for_step", "GET", "/v1/steps/" + step + "/trace", "", trace, derived, ""},
		{"letta.retrieve_provider_trace", "GET", "/v1/telemetry/" + step, "", trace, derived, ""},
		{"letta.cloud.variables", "GET", a + "/core-memory/variables", "", made, derived, ""},
		{"letta.cloud.memory_files", "GET", a + "/memory-files/content", "", made, derived, ""},
		{"letta.cloud.schedules", "GET", a + "/schedule", "", made, derived, ""},
		{"letta.cloud.schedule.get", "GET", a + "/schedule/s1", "", made, derived, ""},
		{"letta.cloud.agent_repositories", "GET", a + "/repositories", "", made, derived, ""},
		{"letta.cloud.templates", "GET", "/v1/templates", "", made, derived, ""},
		{"letta.cloud.template", "GET", "/v1/templates/t1", "", made, derived, ""},
		{"letta.cloud.feed", "GET", "/v1/feeds/f1/messages", "", made, derived, ""},
		{"letta.cloud.pipeline", "GET", "/v1/pipelines/p1", "", made, derived, ""},
	}
	for _, r := range []struct{ id, path, answer, why string }{
		{"letta.cloud.agent_secrets", a + "/secrets", `{"secrets":[{"key":"K"}]}`, "nothing in its answer is claimed"},
		{"letta.cloud.agent_mcp_servers", a + "/mcp-servers", `{"servers":[]}`, "nothing in its answer is claimed"},
		{"letta.list_internal_runs", "/v1/_internal_runs/", `[{"id":"` + run + `"}]`, "a run is a state and a time"},
		{"letta.list_runs", "/v1/runs/", `[{"id":"` + run + `"}]`, "a run is a state and a time"},
		{"letta.list_active_runs", "/v1/runs/active", `[{"id":"` + run + `"}]`, "a run is a state and a time"},
		{"letta.retrieve_run", "/v1/runs/" + run, `{"id":"` + run + `"}`, "a run is a state and a time"},
		{"letta.list_deployment_entities", "/v1/_internal_templates/deployment/d1", `{"entities":[{"id":"{M}","type":"block"}],"total_count":1}`, "names of what a template made"},
		{"letta.list_archives", "/v1/archives/", `[{"id":"` + archive + `","name":"n"}]`, "an archive is a name; its passages are read through agents"},
		{"letta.retrieve_archive", "/v1/archives/" + archive, `{"id":"` + archive + `","name":"n"}`, "an archive is a name"},
		{"letta.list_conversations", "/v1/conversations/?agent_id=" + lettaAgent, `[{"id":"` + conv + `","isolated_block_ids":["{M}"]}]`, "a conversation names its blocks and holds none"},
		{"letta.retrieve_conversation", "/v1/conversations/" + conv, `{"id":"` + conv + `","isolated_block_ids":["{M}"]}`, "a conversation names its blocks and holds none"},
		{"letta.list_folders", "/v1/folders/", `[{"id":"` + lettaFolder + `","name":"n"}]`, "a folder is a name"},
		{"letta.retrieve_folder", "/v1/folders/" + lettaFolder, `{"id":"` + lettaFolder + `","name":"n"}`, "a folder is a name"},
		{"letta.list_sources", "/v1/sources/", `[{"id":"` + lettaFolder + `","name":"n"}]`, "a folder is a name"},
		{"letta.retrieve_source", "/v1/sources/" + lettaFolder, `{"id":"` + lettaFolder + `","name":"n"}`, "a folder is a name"},
		{"letta.list_groups", "/v1/groups/", `[{"id":"` + group + `","shared_block_ids":["{M}"]}]`, "a group names its blocks and holds none"},
		{"letta.retrieve_group", "/v1/groups/" + group, `{"id":"` + group + `","shared_block_ids":["{M}"]}`, "a group names its blocks and holds none"},
		{"letta.list_groups_for_agent", "/v1/agents/" + lettaAgent + "/groups", `[{"id":"` + group + `","shared_block_ids":["{M}"]}]`, "a group names its blocks and holds none"},
		{"letta.list_folders_for_agent", a + "/folders", `[{"id":"` + lettaFolder + `","name":"n"}]`, "a folder is a name"},
		{"letta.list_agent_sources", a + "/sources", `[{"id":"` + lettaFolder + `","name":"n"}]`, "a folder is a name"},
		{"letta.list_tools", "/v1/tools/", tools, "a tool is a program"},
		{"letta.list_tools_for_agent", a + "/tools", tools, "a tool is a program"},
		{"letta.retrieve_tool", "/v1/tools/" + tool, `{"id":"` + tool + `","name":"n"}`, "a tool is a program"},
		{"letta.retrieve_job", "/v1/jobs/" + job, `{"id":"` + job + `","status":"completed"}`, "a job is a state and a time"},
		{"letta.retrieve_batch", "/v1/messages/batches/" + job, `{"id":"` + job + `","status":"completed"}`, "a batch is a state and a time"},
		{"letta.list_steps", "/v1/steps/", `[{"id":"` + step + `"}]`, "a step is numbers and a time"},
		{"letta.list_steps_for_run", "/v1/runs/" + run + "/steps", `[{"id":"` + step + `"}]`, "a step is numbers and a time"},
		{"letta.retrieve_step", "/v1/steps/" + step, `{"id":"` + step + `"}`, "a step is numbers and a time"},
		{"letta.list_identities", "/v1/identities/", `[{"id":"` + identity + `","block_ids":["{M}"]}]`, "an identity names its blocks and holds none"},
		{"letta.retrieve_identity", "/v1/identities/" + identity, `{"id":"` + identity + `","block_ids":["{M}"]}`, "an identity names its blocks and holds none"},
	} {
		rows = append(rows, readRow{r.id, "GET", r.path, "", r.answer, nothing, r.why})
	}
	rows = append(rows, readRow{"letta.search_tools", "POST", "/v1/tools/search", `{"query":"tea"}`, tools, nothing, "a tool is a program"})
	return append(rows, readRow{"letta.cloud.search_conversations", "POST", "/v1/conversations/search", search, `[{"id":"` + conv + `"}]`, nothing, "a conversation names its blocks and holds none"})
}

// lettaPassageReads are the read routes on passages of archives and folders.
func lettaPassageReads() []readRow {
	const (
		list = `[{"id":"{M}","text":"{T}","metadata":{}},{"id":"{O}","text":"{OPEN}","metadata":{}}]`
		a    = "/v1/agents/" + lettaAgent
	)
	return []readRow{
		{"letta.list_passages", "GET", a + "/archival-memory", "", list, listed, ""},
		{"letta.search_archival_memory", "GET", a + "/archival-memory/search?query=tea", "", `{"count":2,"results":[{"id":"{M}","content":"{T}","tags":[]},{"id":"{O}","content":"{OPEN}","tags":[]}]}`, listed, ""},
		{"letta.search_passages", "POST", "/v1/passages/search", `{"query":"tea","agent_id":"` + lettaAgent + `"}`, `[{"passage":{"id":"{M}","text":"{T}"},"score":1},{"passage":{"id":"{O}","text":"{OPEN}"},"score":0.5}]`, listed, ""},
		{"letta.list_folder_passages", "GET", "/v1/folders/" + lettaFolder + "/passages", "", list, listed, ""},
		{"letta.list_source_passages", "GET", "/v1/sources/" + lettaFolder + "/passages", "", list, listed, ""},
	}
}

// lettaFileReads are the read routes on documents.
func lettaFileReads() []readRow {
	const (
		one  = `{"id":"{M}","source_id":"` + lettaFolder + `","content":"{T}"}`
		list = `[` + one + `,{"id":"{O}","source_id":"` + lettaFolder + `","content":"{OPEN}"}]`
	)
	return []readRow{
		{"letta.list_files_for_agent", "GET", "/v1/agents/" + lettaAgent + "/files", "", `{"files":[{"id":"{M}","visible_content":"{T}"},{"id":"{O}","visible_content":"{OPEN}"}],"has_more":false}`, listed, ""},
		{"letta.list_files_for_folder", "GET", "/v1/folders/" + lettaFolder + "/files", "", list, listed, ""},
		{"letta.list_source_files", "GET", "/v1/sources/" + lettaFolder + "/files", "", list, listed, ""},
		{"letta.retrieve_file", "GET", "/v1/folders/" + lettaFolder + "/files/{M}", "", one, single, ""},
		{"letta.get_file_metadata", "GET", "/v1/sources/" + lettaFolder + "/files/{M}", "", one, single, ""},
	}
}
