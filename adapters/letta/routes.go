package letta

import (
	"iter"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/routetable"
)

// table holds every route of the V1 server (its operation ids are the rows'
// ids), and those of Letta Cloud that touch memory. Literal segments win over
// parameters whatever the order.
//
// The server's own list calls some of the configuration harmless. Here what
// could lead round the gate (tools, their sandboxes and environment, MCP
// servers, model providers, users, other providers' APIs) is Admin, and reading
// it is too: it holds keys. What says why a row passes is passing.
var table = [...]row{
	// Internal twins of blocks, agents and runs, and templates.
	{"GET", "/v1/_internal_agents/count", "letta.count_internal_agents", memproxy.Other, pass | derived, bare},
	{"PATCH", "/v1/_internal_agents/{agent_id}/core-memory/blocks/{label}", "letta.modify_internal_core_memory_block", memproxy.Correct, 0, block},
	{"GET", "/v1/_internal_blocks/", "letta.list_internal_blocks", memproxy.Recall, lists, bare},
	{"POST", "/v1/_internal_blocks/", "letta.create_internal_block", memproxy.Learn, 0, block},
	{"DELETE", "/v1/_internal_blocks/{block_id}", "letta.delete_internal_block", memproxy.Forget, 0, bare},
	{"GET", "/v1/_internal_blocks/{block_id}/agents", "letta.list_agents_for_internal_block", memproxy.Recall, lists, bare},
	{"GET", "/v1/_internal_runs/", "letta.list_internal_runs", memproxy.Recall, lists, bare},
	{"POST", "/v1/_internal_search/cache-warm", "letta.warm_internal_search_cache", memproxy.Other, pass, bare},
	{"POST", "/v1/_internal_templates/agents", "letta.create_internal_template_agent", memproxy.Learn, inside, agent},
	{"POST", "/v1/_internal_templates/blocks", "letta.create_internal_template_block", memproxy.Learn, 0, block},
	{"POST", "/v1/_internal_templates/blocks/batch", "letta.create_internal_template_blocks_batch", memproxy.Learn, 0, blocks},
	{"DELETE", "/v1/_internal_templates/deployment/{deployment_id}", "letta.delete_deployment", memproxy.Forget, bulk, bare},
	{"GET", "/v1/_internal_templates/deployment/{deployment_id}", "letta.list_deployment_entities", memproxy.Recall, lists, bare},
	{"POST", "/v1/_internal_templates/groups", "letta.create_internal_template_group", memproxy.Learn, 0, form},
	// The installation.
	{"DELETE", "/v1/admin/orgs/", "letta.delete_organization_by_id", memproxy.Admin, bulk, config},
	{"GET", "/v1/admin/orgs/", "letta.list_orgs", memproxy.Admin, 0, config},
	{"PATCH", "/v1/admin/orgs/", "letta.update_organization", memproxy.Admin, 0, config},
	{"POST", "/v1/admin/orgs/", "letta.create_organization", memproxy.Admin, 0, config},
	{"DELETE", "/v1/admin/users/", "letta.delete_user", memproxy.Admin, bulk, config},
	{"GET", "/v1/admin/users/", "letta.list_users", memproxy.Admin, 0, config},
	{"POST", "/v1/admin/users/", "letta.create_user", memproxy.Admin, 0, config},
	{"PUT", "/v1/admin/users/", "letta.update_user", memproxy.Admin, 0, config},
	// Agents.
	{"GET", "/v1/agents/", "letta.list_agents", memproxy.Recall, lists, bare},
	{"POST", "/v1/agents/", "letta.create_agent", memproxy.Learn, inside, agent},
	{"GET", "/v1/agents/count", "letta.count_agents", memproxy.Other, pass | derived, bare},
	{"POST", "/v1/agents/import", "letta.import_agent", memproxy.Learn, 0, file},
	{"POST", "/v1/agents/messages/search", "letta.search_messages", memproxy.Recall, lists, search},
	{"DELETE", "/v1/agents/{agent_id}", "letta.delete_agent", memproxy.Forget, bulk | self, bare},
	{"GET", "/v1/agents/{agent_id}", "letta.retrieve_agent", memproxy.Recall, inside, bare},
	{"PATCH", "/v1/agents/{agent_id}", "letta.modify_agent", memproxy.Correct, self, agent},
	{"GET", "/v1/agents/{agent_id}/archival-memory", "letta.list_passages", memproxy.Recall, 0, bare},
	{"POST", "/v1/agents/{agent_id}/archival-memory", "letta.create_passage", memproxy.Learn, 0, passage},
	{"GET", "/v1/agents/{agent_id}/archival-memory/search", "letta.search_archival_memory", memproxy.Recall, 0, bare},
	{"DELETE", "/v1/agents/{agent_id}/archival-memory/{memory_id}", "letta.delete_passage", memproxy.Forget, 0, bare},
	{"PATCH", "/v1/agents/{agent_id}/archives/attach/{archive_id}", "letta.attach_archive_to_agent", memproxy.Attach, self, bare},
	{"PATCH", "/v1/agents/{agent_id}/archives/detach/{archive_id}", "letta.detach_archive_from_agent", memproxy.Attach, self, bare},
	{"GET", "/v1/agents/{agent_id}/context", "letta.retrieve_agent_context_window", memproxy.Recall, derived, bare},
	{"GET", "/v1/agents/{agent_id}/core-memory", "letta.retrieve_agent_memory", memproxy.Recall, inside, bare},
	{"GET", "/v1/agents/{agent_id}/core-memory/blocks", "letta.list_core_memory_blocks", memproxy.Recall, 0, bare},
	{"PATCH", "/v1/agents/{agent_id}/core-memory/blocks/attach/{block_id}", "letta.attach_core_memory_block", memproxy.Attach, self, bare},
	{"PATCH", "/v1/agents/{agent_id}/core-memory/blocks/detach/{block_id}", "letta.detach_core_memory_block", memproxy.Attach, self, bare},
	{"GET", "/v1/agents/{agent_id}/core-memory/blocks/{label}", "letta.retrieve_core_memory_block", memproxy.Recall, 0, bare},
	{"PATCH", "/v1/agents/{agent_id}/core-memory/blocks/{label}", "letta.modify_core_memory_block", memproxy.Correct, 0, block},
	{"GET", "/v1/agents/{agent_id}/export", "letta.export_agent", memproxy.Recall, derived, bare},
	{"POST", "/v1/agents/{agent_id}/export", "letta.export_agent_with_skills", memproxy.Recall, derived, form},
	{"GET", "/v1/agents/{agent_id}/files", "letta.list_files_for_agent", memproxy.Recall, 0, bare},
	{"PATCH", "/v1/agents/{agent_id}/files/close-all", "letta.close_all_files_for_agent", memproxy.Attach, self, bare},
	{"PATCH", "/v1/agents/{agent_id}/files/{file_id}/close", "letta.close_file_for_agent", memproxy.Attach, self, bare},
	{"PATCH", "/v1/agents/{agent_id}/files/{file_id}/open", "letta.open_file_for_agent", memproxy.Attach, self, bare},
	{"GET", "/v1/agents/{agent_id}/folders", "letta.list_folders_for_agent", memproxy.Recall, 0, bare},
	{"PATCH", "/v1/agents/{agent_id}/folders/attach/{folder_id}", "letta.attach_folder_to_agent", memproxy.Attach, self, bare},
	{"PATCH", "/v1/agents/{agent_id}/folders/detach/{folder_id}", "letta.detach_folder_from_agent", memproxy.Attach, self, bare},
	{"POST", "/v1/agents/{agent_id}/generate", "letta.generate_completion", memproxy.Run, 0, chat},
	{"GET", "/v1/agents/{agent_id}/groups", "letta.list_groups_for_agent", memproxy.Recall, 0, bare},
	{"PATCH", "/v1/agents/{agent_id}/identities/attach/{identity_id}", "letta.attach_identity_to_agent", memproxy.Attach, self, bare},
	{"PATCH", "/v1/agents/{agent_id}/identities/detach/{identity_id}", "letta.detach_identity_from_agent", memproxy.Attach, self, bare},
	{"GET", "/v1/agents/{agent_id}/messages", "letta.list_messages", memproxy.Recall, 0, bare},
	{"POST", "/v1/agents/{agent_id}/messages", "letta.send_message", memproxy.Run, 0, chat},
	{"POST", "/v1/agents/{agent_id}/messages/async", "letta.create_agent_message_async", memproxy.Run, 0, chat},
	{"POST", "/v1/agents/{agent_id}/messages/cancel", "letta.cancel_message", memproxy.Run, 0, form},
	{"POST", "/v1/agents/{agent_id}/messages/capture", "letta.capture_messages", memproxy.Learn, 0, capture},
	{"POST", "/v1/agents/{agent_id}/messages/preview-raw-payload", "letta.preview_model_request", memproxy.Recall, derived, chat},
	{"POST", "/v1/agents/{agent_id}/messages/stream", "letta.create_agent_message_stream", memproxy.Run, 0, chat},
	{"PATCH", "/v1/agents/{agent_id}/messages/{message_id}", "letta.modify_message", memproxy.Correct, 0, form},
	{"POST", "/v1/agents/{agent_id}/recompile", "letta.recompile_agent", memproxy.Recall, derived, form},
	{"PATCH", "/v1/agents/{agent_id}/reset-messages", "letta.reset_messages", memproxy.Forget, bulk, form},
	{"GET", "/v1/agents/{agent_id}/sources", "letta.list_agent_sources", memproxy.Recall, 0, bare},
	{"PATCH", "/v1/agents/{agent_id}/sources/attach/{source_id}", "letta.attach_source_to_agent", memproxy.Attach, self, bare},
	{"PATCH", "/v1/agents/{agent_id}/sources/detach/{source_id}", "letta.detach_source_from_agent", memproxy.Attach, self, bare},
	{"POST", "/v1/agents/{agent_id}/summarize", "letta.summarize_messages", memproxy.Run, 0, form},
	{"POST", "/v1/agents/{agent_id}/system-prompt/recompile", "letta.recompile_agent_system_prompt", memproxy.Recall, derived, form},
	{"GET", "/v1/agents/{agent_id}/tools", "letta.list_tools_for_agent", memproxy.Recall, 0, bare},
	{"PATCH", "/v1/agents/{agent_id}/tools/approval/{tool_name}", "letta.modify_approval_for_tool", memproxy.Admin, 0, config},
	{"PATCH", "/v1/agents/{agent_id}/tools/attach/{tool_id}", "letta.attach_tool_to_agent", memproxy.Admin, 0, config},
	{"PATCH", "/v1/agents/{agent_id}/tools/detach/{tool_id}", "letta.detach_tool_from_agent", memproxy.Admin, 0, config},
	{"POST", "/v1/agents/{agent_id}/tools/{tool_name}/run", "letta.run_tool_for_agent", memproxy.Run, 0, toolRun},
	// Other providers' chats, with an agent behind them.
	{"*", "/v1/anthropic/v1/messages", "letta.anthropic_messages_proxy", memproxy.Run, 0, gateway},
	{"*", "/v1/anthropic/v1/{endpoint...}", "letta.anthropic_catchall_proxy", memproxy.Admin, 0, config},
	// Archives.
	{"GET", "/v1/archives/", "letta.list_archives", memproxy.Recall, lists, bare},
	{"POST", "/v1/archives/", "letta.create_archive", memproxy.Learn, 0, form},
	{"DELETE", "/v1/archives/{archive_id}", "letta.delete_archive", memproxy.Forget, bulk, bare},
	{"GET", "/v1/archives/{archive_id}", "letta.retrieve_archive", memproxy.Recall, 0, bare},
	{"PATCH", "/v1/archives/{archive_id}", "letta.modify_archive", memproxy.Correct, 0, form},
	{"GET", "/v1/archives/{archive_id}/agents", "letta.list_agents_for_archive", memproxy.Recall, lists, bare},
	{"POST", "/v1/archives/{archive_id}/passages", "letta.create_passage_in_archive", memproxy.Learn, 0, passage},
	{"POST", "/v1/archives/{archive_id}/passages/batch", "letta.create_passages_in_archive", memproxy.Learn, 0, passages},
	{"DELETE", "/v1/archives/{archive_id}/passages/{passage_id}", "letta.delete_passage_from_archive", memproxy.Forget, 0, bare},
	// Blocks.
	{"GET", "/v1/blocks/", "letta.list_blocks", memproxy.Recall, lists, bare},
	{"POST", "/v1/blocks/", "letta.create_block", memproxy.Learn, 0, block},
	{"GET", "/v1/blocks/count", "letta.count_blocks", memproxy.Other, pass | derived, bare},
	{"DELETE", "/v1/blocks/{block_id}", "letta.delete_block", memproxy.Forget, 0, bare},
	{"GET", "/v1/blocks/{block_id}", "letta.retrieve_block", memproxy.Recall, 0, bare},
	{"PATCH", "/v1/blocks/{block_id}", "letta.modify_block", memproxy.Correct, 0, block},
	{"GET", "/v1/blocks/{block_id}/agents", "letta.list_agents_for_block", memproxy.Recall, lists, bare},
	{"PATCH", "/v1/blocks/{block_id}/identities/attach/{identity_id}", "letta.attach_identity_to_block", memproxy.Attach, 0, bare},
	{"PATCH", "/v1/blocks/{block_id}/identities/detach/{identity_id}", "letta.detach_identity_from_block", memproxy.Attach, 0, bare},
	// Chat completions: the model is the agent.
	{"POST", "/v1/chat/completions", "letta.create_chat_completion", memproxy.Run, 0, chat},
	// Conversations.
	{"GET", "/v1/conversations/", "letta.list_conversations", memproxy.Recall, lists, bare},
	{"POST", "/v1/conversations/", "letta.create_conversation", memproxy.Learn, 0, form},
	{"DELETE", "/v1/conversations/{conversation_id}", "letta.delete_conversation", memproxy.Forget, 0, bare},
	{"GET", "/v1/conversations/{conversation_id}", "letta.retrieve_conversation", memproxy.Recall, 0, bare},
	{"PATCH", "/v1/conversations/{conversation_id}", "letta.update_conversation", memproxy.Correct, 0, form},
	{"POST", "/v1/conversations/{conversation_id}/cancel", "letta.cancel_conversation", memproxy.Run, 0, form},
	{"POST", "/v1/conversations/{conversation_id}/compact", "letta.compact_conversation", memproxy.Run, 0, form},
	{"POST", "/v1/conversations/{conversation_id}/fork", "letta.fork_conversation", memproxy.Learn, 0, form},
	{"GET", "/v1/conversations/{conversation_id}/messages", "letta.list_conversation_messages", memproxy.Recall, 0, bare},
	{"POST", "/v1/conversations/{conversation_id}/messages", "letta.send_conversation_message", memproxy.Run, 0, chat},
	{"POST", "/v1/conversations/{conversation_id}/messages/preview-raw-payload", "letta.preview_conversation_model_request", memproxy.Recall, derived, chat},
	{"POST", "/v1/conversations/{conversation_id}/recompile", "letta.recompile_conversation", memproxy.Recall, derived, form},
	{"POST", "/v1/conversations/{conversation_id}/stream", "letta.retrieve_conversation_stream", memproxy.Run, 0, form},
	// Counts.
	{"GET", "/v1/embeddings/total_storage_size", "letta.get_total_storage_size", memproxy.Other, pass | derived, bare},
	// Folders: documents as memory.
	{"GET", "/v1/folders/", "letta.list_folders", memproxy.Recall, lists, bare},
	{"POST", "/v1/folders/", "letta.create_folder", memproxy.Learn, 0, form},
	{"GET", "/v1/folders/count", "letta.count_folders", memproxy.Other, pass | derived, bare},
	{"GET", "/v1/folders/metadata", "letta.retrieve_metadata", memproxy.Other, pass | derived, bare},
	{"GET", "/v1/folders/name/{folder_name}", "letta.get_folder_by_name", memproxy.Other, pass | derived, bare},
	{"DELETE", "/v1/folders/{folder_id}", "letta.delete_folder", memproxy.Forget, bulk, bare},
	{"GET", "/v1/folders/{folder_id}", "letta.retrieve_folder", memproxy.Recall, 0, bare},
	{"PATCH", "/v1/folders/{folder_id}", "letta.modify_folder", memproxy.Correct, 0, form},
	{"GET", "/v1/folders/{folder_id}/agents", "letta.list_agents_for_folder", memproxy.Other, pass | derived, bare},
	{"GET", "/v1/folders/{folder_id}/files", "letta.list_files_for_folder", memproxy.Recall, 0, bare},
	{"GET", "/v1/folders/{folder_id}/files/{file_id}", "letta.retrieve_file", memproxy.Recall, 0, bare},
	{"GET", "/v1/folders/{folder_id}/passages", "letta.list_folder_passages", memproxy.Recall, 0, bare},
	{"POST", "/v1/folders/{folder_id}/upload", "letta.upload_file_to_folder", memproxy.Learn, 0, upload},
	{"DELETE", "/v1/folders/{folder_id}/{file_id}", "letta.delete_file_from_folder", memproxy.Forget, 0, bare},
	// Git-backed memory: packs cannot be read here.
	{"*", "/v1/git/{path...}", "letta.git", memproxy.Learn, 0, opaque},
	// Groups.
	{"GET", "/v1/groups/", "letta.list_groups", memproxy.Recall, lists, bare},
	{"POST", "/v1/groups/", "letta.create_group", memproxy.Learn, 0, form},
	{"GET", "/v1/groups/count", "letta.count_groups", memproxy.Other, pass | derived, bare},
	{"DELETE", "/v1/groups/{group_id}", "letta.delete_group", memproxy.Forget, 0, bare},
	{"GET", "/v1/groups/{group_id}", "letta.retrieve_group", memproxy.Recall, 0, bare},
	{"PATCH", "/v1/groups/{group_id}", "letta.modify_group", memproxy.Correct, 0, form},
	{"PATCH", "/v1/groups/{group_id}/blocks/attach/{block_id}", "letta.attach_block_to_group", memproxy.Attach, 0, bare},
	{"PATCH", "/v1/groups/{group_id}/blocks/detach/{block_id}", "letta.detach_block_from_group", memproxy.Attach, 0, bare},
	{"GET", "/v1/groups/{group_id}/messages", "letta.list_group_messages", memproxy.Recall, 0, bare},
	{"PATCH", "/v1/groups/{group_id}/messages/{message_id}", "letta.modify_group_message", memproxy.Correct, 0, form},
	{"PATCH", "/v1/groups/{group_id}/reset-messages", "letta.reset_group_messages", memproxy.Forget, bulk, form},
	// Health.
	{"GET", "/v1/health/", "letta.check_health", memproxy.Other, pass | public, bare},
	// Identities.
	{"GET", "/v1/identities/", "letta.list_identities", memproxy.Recall, lists, bare},
	{"POST", "/v1/identities/", "letta.create_identity", memproxy.Learn, 0, form},
	{"PUT", "/v1/identities/", "letta.upsert_identity", memproxy.Correct, 0, form},
	{"GET", "/v1/identities/count", "letta.count_identities", memproxy.Other, pass | derived, bare},
	{"DELETE", "/v1/identities/{identity_id}", "letta.delete_identity", memproxy.Forget, 0, bare},
	{"GET", "/v1/identities/{identity_id}", "letta.retrieve_identity", memproxy.Recall, 0, bare},
	{"PATCH", "/v1/identities/{identity_id}", "letta.update_identity", memproxy.Correct, 0, form},
	{"GET", "/v1/identities/{identity_id}/agents", "letta.list_agents_for_identity", memproxy.Recall, lists, bare},
	{"GET", "/v1/identities/{identity_id}/blocks", "letta.list_blocks_for_identity", memproxy.Recall, lists, bare},
	{"PUT", "/v1/identities/{identity_id}/properties", "letta.upsert_properties_for_identity", memproxy.Correct, 0, form},
	// Jobs.
	{"GET", "/v1/jobs/", "letta.list_jobs", memproxy.Admin, 0, config},
	{"GET", "/v1/jobs/active", "letta.list_active_jobs", memproxy.Admin, 0, config},
	{"DELETE", "/v1/jobs/{job_id}", "letta.delete_job", memproxy.Forget, 0, bare},
	{"GET", "/v1/jobs/{job_id}", "letta.retrieve_job", memproxy.Recall, 0, bare},
	{"PATCH", "/v1/jobs/{job_id}/cancel", "letta.cancel_job", memproxy.Run, 0, form},
	// MCP servers.
	{"GET", "/v1/mcp-servers/", "letta.mcp_list_mcp_servers", memproxy.Admin, 0, config},
	{"POST", "/v1/mcp-servers/", "letta.mcp_create_mcp_server", memproxy.Admin, 0, config},
	{"GET", "/v1/mcp-servers/connect/{mcp_server_id}", "letta.mcp_connect_mcp_server", memproxy.Admin, 0, config},
	{"DELETE", "/v1/mcp-servers/{mcp_server_id}", "letta.mcp_delete_mcp_server", memproxy.Admin, 0, config},
	{"GET", "/v1/mcp-servers/{mcp_server_id}", "letta.mcp_retrieve_mcp_server", memproxy.Admin, 0, config},
	{"PATCH", "/v1/mcp-servers/{mcp_server_id}", "letta.mcp_update_mcp_server", memproxy.Admin, 0, config},
	{"PATCH", "/v1/mcp-servers/{mcp_server_id}/refresh", "letta.mcp_refresh_mcp_server_tools", memproxy.Admin, 0, config},
	{"GET", "/v1/mcp-servers/{mcp_server_id}/tools", "letta.mcp_list_tools_for_mcp_server", memproxy.Admin, 0, config},
	{"GET", "/v1/mcp-servers/{mcp_server_id}/tools/{tool_id}", "letta.mcp_retrieve_mcp_tool", memproxy.Admin, 0, config},
	{"POST", "/v1/mcp-servers/{mcp_server_id}/tools/{tool_id}/run", "letta.mcp_run_tool", memproxy.Run, 0, form},
	// Messages of all agents.
	{"GET", "/v1/messages/", "letta.list_all_messages", memproxy.Recall, lists, bare},
	{"GET", "/v1/messages/batches", "letta.list_batches", memproxy.Admin, 0, config},
	{"POST", "/v1/messages/batches", "letta.create_batch", memproxy.Run, 0, batch},
	{"GET", "/v1/messages/batches/{batch_id}", "letta.retrieve_batch", memproxy.Recall, lists, bare},
	{"PATCH", "/v1/messages/batches/{batch_id}/cancel", "letta.cancel_batch", memproxy.Run, 0, form},
	{"GET", "/v1/messages/batches/{batch_id}/messages", "letta.list_messages_for_batch", memproxy.Recall, lists, bare},
	{"POST", "/v1/messages/search", "letta.search_all_messages", memproxy.Recall, lists, search},
	{"GET", "/v1/messages/{message_id}", "letta.retrieve_message", memproxy.Recall, lists, bare},
	// Models.
	{"GET", "/v1/models/", "letta.list_models", memproxy.Other, pass, bare},
	{"GET", "/v1/models/embedding", "letta.list_embedding_models", memproxy.Other, pass, bare},
	// Passages.
	{"POST", "/v1/passages/search", "letta.search_passages", memproxy.Recall, lists, search},
	// Providers.
	{"GET", "/v1/providers/", "letta.list_providers", memproxy.Admin, 0, config},
	{"POST", "/v1/providers/", "letta.create_provider", memproxy.Admin, 0, config},
	{"POST", "/v1/providers/check", "letta.check_provider", memproxy.Admin, 0, config},
	{"DELETE", "/v1/providers/{provider_id}", "letta.delete_provider", memproxy.Admin, 0, config},
	{"GET", "/v1/providers/{provider_id}", "letta.retrieve_provider", memproxy.Admin, 0, config},
	{"PATCH", "/v1/providers/{provider_id}", "letta.modify_provider", memproxy.Admin, 0, config},
	{"POST", "/v1/providers/{provider_id}/check", "letta.check_existing_provider", memproxy.Admin, 0, config},
	{"PATCH", "/v1/providers/{provider_id}/refresh", "letta.refresh_provider_models", memproxy.Admin, 0, config},
	// Readiness.
	{"GET", "/v1/ready/", "letta.check_readiness", memproxy.Other, pass | public, bare},
	// Runs.
	{"GET", "/v1/runs/", "letta.list_runs", memproxy.Recall, lists, bare},
	{"GET", "/v1/runs/active", "letta.list_active_runs", memproxy.Recall, lists, bare},
	{"DELETE", "/v1/runs/{run_id}", "letta.delete_run", memproxy.Forget, 0, bare},
	{"GET", "/v1/runs/{run_id}", "letta.retrieve_run", memproxy.Recall, 0, bare},
	{"GET", "/v1/runs/{run_id}/messages", "letta.list_messages_for_run", memproxy.Recall, 0, bare},
	{"GET", "/v1/runs/{run_id}/metrics", "letta.retrieve_metrics_for_run", memproxy.Other, pass, bare},
	{"GET", "/v1/runs/{run_id}/steps", "letta.list_steps_for_run", memproxy.Recall, 0, bare},
	{"POST", "/v1/runs/{run_id}/stream", "letta.retrieve_stream_for_run", memproxy.Run, 0, form},
	{"GET", "/v1/runs/{run_id}/trace", "letta.retrieve_trace_for_run", memproxy.Recall, derived, bare},
	{"GET", "/v1/runs/{run_id}/usage", "letta.retrieve_usage_for_run", memproxy.Other, pass, bare},
	// Sandboxes: their environment can lead round the gate.
	{"GET", "/v1/sandbox-config/", "letta.sandbox.read", memproxy.Admin, 0, config},
	{"POST", "/v1/sandbox-config/", "letta.sandbox.create", memproxy.Admin, 0, config},
	{"POST", "/v1/sandbox-config/e2b/default", "letta.sandbox.e2b_default", memproxy.Admin, 0, config},
	{"DELETE", "/v1/sandbox-config/environment-variable/{env_var_id}", "letta.sandbox.delete_variable", memproxy.Admin, 0, config},
	{"PATCH", "/v1/sandbox-config/environment-variable/{env_var_id}", "letta.sandbox.modify_variable", memproxy.Admin, 0, config},
	{"POST", "/v1/sandbox-config/local", "letta.sandbox.local", memproxy.Admin, 0, config},
	{"POST", "/v1/sandbox-config/local/default", "letta.sandbox.local_default", memproxy.Admin, 0, config},
	{"POST", "/v1/sandbox-config/local/recreate-venv", "letta.sandbox.local_recreate_venv", memproxy.Admin, 0, config},
	{"DELETE", "/v1/sandbox-config/{sandbox_config_id}", "letta.sandbox.delete", memproxy.Admin, 0, config},
	{"PATCH", "/v1/sandbox-config/{sandbox_config_id}", "letta.sandbox.modify", memproxy.Admin, 0, config},
	{"GET", "/v1/sandbox-config/{sandbox_config_id}/environment-variable", "letta.sandbox.read_variable", memproxy.Admin, 0, config},
	{"POST", "/v1/sandbox-config/{sandbox_config_id}/environment-variable", "letta.sandbox.create_variable", memproxy.Admin, 0, config},
	// Sources: folders, in older words.
	{"GET", "/v1/sources/", "letta.list_sources", memproxy.Recall, lists, bare},
	{"POST", "/v1/sources/", "letta.create_source", memproxy.Learn, 0, form},
	{"GET", "/v1/sources/count", "letta.count_sources", memproxy.Other, pass | derived, bare},
	{"GET", "/v1/sources/metadata", "letta.get_sources_metadata", memproxy.Other, pass | derived, bare},
	{"GET", "/v1/sources/name/{source_name}", "letta.get_source_id_by_name", memproxy.Other, pass | derived, bare},
	{"DELETE", "/v1/sources/{source_id}", "letta.delete_source", memproxy.Forget, bulk, bare},
	{"GET", "/v1/sources/{source_id}", "letta.retrieve_source", memproxy.Recall, 0, bare},
	{"PATCH", "/v1/sources/{source_id}", "letta.modify_source", memproxy.Correct, 0, form},
	{"GET", "/v1/sources/{source_id}/agents", "letta.get_agents_for_source", memproxy.Other, pass | derived, bare},
	{"GET", "/v1/sources/{source_id}/files", "letta.list_source_files", memproxy.Recall, 0, bare},
	{"GET", "/v1/sources/{source_id}/files/{file_id}", "letta.get_file_metadata", memproxy.Recall, 0, bare},
	{"GET", "/v1/sources/{source_id}/passages", "letta.list_source_passages", memproxy.Recall, 0, bare},
	{"POST", "/v1/sources/{source_id}/upload", "letta.upload_file_to_source", memproxy.Learn, 0, upload},
	{"DELETE", "/v1/sources/{source_id}/{file_id}", "letta.delete_file_from_source", memproxy.Forget, 0, bare},
	// Steps.
	{"GET", "/v1/steps/", "letta.list_steps", memproxy.Recall, lists, bare},
	{"GET", "/v1/steps/{step_id}", "letta.retrieve_step", memproxy.Recall, 0, bare},
	{"PATCH", "/v1/steps/{step_id}/feedback", "letta.modify_feedback_for_step", memproxy.Correct, 0, form},
	{"GET", "/v1/steps/{step_id}/messages", "letta.list_messages_for_step", memproxy.Recall, 0, bare},
	{"GET", "/v1/steps/{step_id}/metrics", "letta.retrieve_metrics_for_step", memproxy.Other, pass, bare},
	{"GET", "/v1/steps/{step_id}/trace", "letta.retrieve_trace_for_step", memproxy.Recall, derived, bare},
	{"PATCH", "/v1/steps/{step_id}/transaction/{transaction_id}", "letta.update_step_transaction_id", memproxy.Correct, 0, form},
	// Tags.
	{"GET", "/v1/tags/", "letta.list_tags", memproxy.Other, pass | derived, bare},
	// Traces.
	{"GET", "/v1/telemetry/{step_id}", "letta.retrieve_provider_trace", memproxy.Recall, derived, bare},
	// Tools.
	{"GET", "/v1/tools/", "letta.list_tools", memproxy.Recall, lists, bare},
	{"POST", "/v1/tools/", "letta.create_tool", memproxy.Admin, steering, config},
	{"PUT", "/v1/tools/", "letta.upsert_tool", memproxy.Admin, steering, config},
	{"POST", "/v1/tools/add-base-tools", "letta.add_base_tools", memproxy.Admin, 0, config},
	{"GET", "/v1/tools/count", "letta.count_tools", memproxy.Other, pass | derived, bare},
	{"POST", "/v1/tools/generate-schema", "letta.generate_json_schema", memproxy.Admin, 0, config},
	{"POST", "/v1/tools/generate-tool", "letta.generate_tool", memproxy.Admin, 0, config},
	{"GET", "/v1/tools/mcp/oauth/callback", "letta.mcp_oauth_callback", memproxy.Admin, 0, config},
	{"GET", "/v1/tools/mcp/servers", "letta.list_mcp_servers", memproxy.Admin, 0, config},
	{"PUT", "/v1/tools/mcp/servers", "letta.add_mcp_server", memproxy.Admin, 0, config},
	{"POST", "/v1/tools/mcp/servers/connect", "letta.connect_mcp_server", memproxy.Admin, 0, config},
	{"POST", "/v1/tools/mcp/servers/test", "letta.test_mcp_server", memproxy.Admin, 0, config},
	{"DELETE", "/v1/tools/mcp/servers/{mcp_server_name}", "letta.delete_mcp_server", memproxy.Admin, 0, config},
	{"PATCH", "/v1/tools/mcp/servers/{mcp_server_name}", "letta.update_mcp_server", memproxy.Admin, 0, config},
	{"POST", "/v1/tools/mcp/servers/{mcp_server_name}/resync", "letta.resync_mcp_server_tools", memproxy.Admin, 0, config},
	{"GET", "/v1/tools/mcp/servers/{mcp_server_name}/tools", "letta.list_mcp_tools_by_server", memproxy.Admin, 0, config},
	{"POST", "/v1/tools/mcp/servers/{mcp_server_name}/tools/{tool_name}/execute", "letta.execute_mcp_tool", memproxy.Run, 0, form},
	{"POST", "/v1/tools/mcp/servers/{mcp_server_name}/{mcp_tool_name}", "letta.add_mcp_tool", memproxy.Admin, steering, config},
	{"POST", "/v1/tools/run", "letta.run_tool_from_source", memproxy.Admin, steering, config},
	{"POST", "/v1/tools/search", "letta.search_tools", memproxy.Recall, lists, search},
	{"DELETE", "/v1/tools/{tool_id}", "letta.delete_tool", memproxy.Admin, 0, config},
	{"GET", "/v1/tools/{tool_id}", "letta.retrieve_tool", memproxy.Recall, lists, bare},
	{"PATCH", "/v1/tools/{tool_id}", "letta.modify_tool", memproxy.Admin, steering, config},
	// Voice.
	{"POST", "/v1/voice-beta/{agent_id}/chat/completions", "letta.create_voice_chat_completions", memproxy.Run, 0, chat},
	{"*", "/v1/zai/v1/messages", "letta.zai_messages_proxy", memproxy.Run, 0, gateway},
	{"*", "/v1/zai/v1/{endpoint...}", "letta.zai_catchall_proxy", memproxy.Admin, 0, config},
	// Routes of Letta Cloud and of its clients that the V1 server lacks.
	{"GET", "/v1/agents/{agent_id}/core-memory/variables", "letta.cloud.variables", memproxy.Recall, derived, bare},
	{"GET", "/v1/agents/{agent_id}/memory-files/{part}", "letta.cloud.memory_files", memproxy.Recall, derived, bare},
	{"GET", "/v1/agents/{agent_id}/schedule", "letta.cloud.schedules", memproxy.Recall, derived, bare},
	{"POST", "/v1/agents/{agent_id}/schedule", "letta.cloud.schedule", memproxy.Run, 0, chat},
	{"GET", "/v1/agents/{agent_id}/schedule/{schedule}", "letta.cloud.schedule.get", memproxy.Recall, derived, bare},
	{"DELETE", "/v1/agents/{agent_id}/schedule/{schedule}", "letta.cloud.schedule.delete", memproxy.Run, 0, bare},
	{"POST", "/v1/agents/search", "letta.cloud.search_agents", memproxy.Recall, lists, search},
	{"GET", "/v1/agents/{agent_id}/repositories", "letta.cloud.agent_repositories", memproxy.Recall, derived, bare},
	{"GET", "/v1/agents/{agent_id}/secrets", "letta.cloud.agent_secrets", memproxy.Recall, 0, bare},
	{"GET", "/v1/agents/{agent_id}/mcp-servers", "letta.cloud.agent_mcp_servers", memproxy.Recall, 0, bare},
	{"*", "/v1/agents/{agent_id}/repositories/{rest...}", "letta.cloud.attach_repository", memproxy.Attach, 0, form},
	{"*", "/v1/repositories", "letta.cloud.repositories", memproxy.Learn, 0, opaque},
	{"*", "/v1/repositories/{rest...}", "letta.cloud.repository", memproxy.Learn, 0, opaque},
	{"GET", "/v1/templates", "letta.cloud.templates", memproxy.Recall, derived, bare},
	{"POST", "/v1/templates", "letta.cloud.create_template", memproxy.Learn, steering, form},
	{"POST", "/v1/templates/{template_version}/agents", "letta.cloud.agents_from_template", memproxy.Learn, 0, agent},
	{"DELETE", "/v1/templates/{rest...}", "letta.cloud.delete_template", memproxy.Forget, bulk, bare},
	{"GET", "/v1/templates/{rest...}", "letta.cloud.template", memproxy.Recall, derived, bare},
	{"*", "/v1/templates/{rest...}", "letta.cloud.change_template", memproxy.Correct, steering, form},
	{"GET", "/v1/feeds/{rest...}", "letta.cloud.feed", memproxy.Recall, derived, bare},
	{"*", "/v1/feeds/{rest...}", "letta.cloud.feed.write", memproxy.Run, 0, form},
	{"GET", "/v1/pipelines/{rest...}", "letta.cloud.pipeline", memproxy.Recall, derived, bare},
	{"*", "/v1/pipelines/{rest...}", "letta.cloud.pipeline.write", memproxy.Admin, 0, config},
	{"POST", "/v1/environments/{connection}/messages", "letta.cloud.environment_messages", memproxy.Run, 0, chat},
	{"POST", "/v1/conversations/ephemeral", "letta.cloud.ephemeral", memproxy.Run, 0, chat},
	{"POST", "/v1/conversations/search", "letta.cloud.search_conversations", memproxy.Recall, lists, search},
	{"GET", "/v1/shared-agents", "letta.cloud.shared_agents", memproxy.Recall, lists, bare},
	{"*", "/v1/shared-agents/{rest...}", "letta.cloud.share_agent", memproxy.Admin, 0, config},
	{"*", "/v1/client-side-access-tokens/{rest...}", "letta.cloud.tokens", memproxy.Admin, 0, config},
	{"GET", "/v1/metadata/{rest...}", "letta.cloud.metadata", memproxy.Admin, 0, config},
	{"GET", "/v1/models/catalog", "letta.cloud.models", memproxy.Other, pass, bare},

	// Servers before 0.11.7.
	{"PATCH", "/v1/agents/{agent_id}/archival-memory/{memory_id}", "letta.modify_passage", memproxy.Correct, 0, passage},

	// Around the API.
	{"POST", "/v1/auth", "letta.auth", memproxy.Admin, 0, config},
	{"GET", "/", "letta.root", memproxy.Other, pass | public, bare},
	{"GET", "/docs", "letta.docs", memproxy.Other, pass | public, bare},
	{"GET", "/redoc", "letta.redoc", memproxy.Other, pass | public, bare},
	{"GET", "/openapi.json", "letta.openapi", memproxy.Other, pass | public, bare},
	{"GET", "/favicon.ico", "letta.favicon", memproxy.Other, pass | public, bare},
	{"GET", "/assets/{rest...}", "letta.assets", memproxy.Other, pass | public, bare},
}

// newRoutes lays the table out for finding. The server redirects a last slash
// away and has every path under /latest too.
func newRoutes() *routetable.Table[row] {
	return routetable.New(table[:], func(r *row) (string, string) { return r.method, r.path }, routetable.Options{Alias: map[string]string{"latest": "v1"}})
}

// Route implements the gate's adapter.
func (a *Adapter) Route(req memproxy.Request) (memproxy.Route, bool) {
	r, ps := a.routes.Match(req.Method, req.EscapedPath)
	if r == nil {
		return memproxy.Route{}, false
	}
	if ps == nil && r.shape == search {
		ps = map[string]string{} // Decode notes whose memory is searched here, for Read
	}
	return r.route(ps), true
}

// row finds a route's row again by its id.
func (a *Adapter) row(id string) *row { return a.rows[id] }

// Table gives every route with the method and the path that it is found by, for
// those who go through all of them.
func (a *Adapter) Table() iter.Seq2[string, memproxy.Route] {
	return func(yield func(string, memproxy.Route) bool) {
		for i := range table {
			if r := &table[i]; !yield(r.method+" "+r.path, r.route(nil)) {
				return
			}
		}
	}
}

func (r *row) route(params map[string]string) memproxy.Route {
	return memproxy.Route{
		ID: r.id, Kind: r.kind, Params: params,
		Bulk: r.is(bulk), Steering: r.is(steering), Derived: r.is(derived), Pass: r.is(pass), Public: r.is(public),
	}
}
