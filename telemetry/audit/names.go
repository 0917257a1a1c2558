package audit

import "strings"

// member reports whether the two APIs have members of a name. What is not
// listed is written as a hash: a new name of theirs costs the reader of a log a
// look into the request, a name that a caller made up would cost more.
func member(name string) bool {
	return name != "" && !strings.ContainsAny(name, " \n") && strings.Contains(members, " "+name+" ")
}

const members = ` AND NOT OR actor actor_id actorid add admin administrator after agent agent_custom_instructions ` +
	` agent_id agent_ids agent_state agent_type agents and anonymous app app_id approval ` +
	` approval_request_id approval_request_message approval_response_message approvals approve ` +
	` approvedby archival_memory_insert archival_memory_search archive archive_id archive_ids args ` +
	` args_json_schema arguments asc assistant attestation attestedby attributed_to attributedto ` +
	` attribution audio_url author author_role authoredby authorid authoritative authorrole background ` +
	` batch_id batch_size before block block_id block_ids blocks boundary budget_tokens callback_url ` +
	` cancelled categories category certainty charset child_arg_nodes child_output_mapping children ` +
	` chunks clear_thinking client_skills client_tools clip_chars command compaction_settings ` +
	` completed completed_at conditional confidence confidencelevel confidencescore confirmedby ` +
	` connection constrain_child_tools content context_tokens context_window context_window_limit ` +
	` continue_loop conversation conversation_id conversation_search conversations core_memory_append ` +
	` core_memory_replace count create created created_at createdby createdbyid credibility ` +
	` custom_categories custom_instructions data date deduced deduced_memories default default_child ` +
	` default_embedding_config default_llm_config delete delete_linked deployment_id derived desc ` +
	` description description_search detail developer display_name document effort embedded_text ` +
	` embedding_chunk_size embedding_config embedding_dim embedding_model embedding_settings ` +
	` enable_graph enable_reasoner enable_sleeptime end_turn endpoint entit entity_id entity_type ` +
	` env_var_id env_vars_json episode episodic episodic_memory eq error errors event event_id ` +
	` event_type excludes exit_loop expiration_date explicit export_instructions external_composio ` +
	` external_langchain external_mcp fact facts false field fields file file_blocks file_id file_text ` +
	` file_url filename files filters finish_rethinking_memory folder folder_id folder_ids folder_name ` +
	` frequency_penalty func_return functions graph_status grep_files group group_id handle history ` +
	` hostile human human_confirmed humanconfirmed humanverified id identifier_key identifier_keys ` +
	` identities identity identity_id identity_ids image image_url implicit importance in ` +
	` in_context_message_ids include include_relationships include_return_message_types ` +
	` include_thoughts includes infer inferred initial_message_sequence inner_thoughts input insert ` +
	` insert_line insert_text instructions is_err isolated_block_ids isolated_block_labels istrusted ` +
	` isverified items job job_id json_schema kind label label_search last_message_at lastupdatedby ` +
	` lastupdatedbyid latency latest layer letta letta_builtin letta_core letta_files_core ` +
	` letta_memory_core letta_multi_agent_core letta_sleeptime_core letta_v1_agent ` +
	` letta_voice_sleeptime_core limit llm_config low managed_group manager_agent_id manager_config ` +
	` max_count_limit max_count_per_step max_output_tokens max_reasoning_tokens max_steps max_tokens ` +
	` mcp_server_id mcp_server_name mcp_tool_name mdx_url media_type mem0 memories memory ` +
	` memory_apply_patch memory_blocks memory_content memory_export_id memory_finish_edits memory_id ` +
	` memory_insert memory_layer memory_replace memory_rethink memory_str_insert memory_str_replace ` +
	` memory_type memory_variables memproxy message message_id message_ids message_type messages ` +
	` metadata metadata_ mode model model_settings modifiedby multi_agent_group name name_search ne ` +
	` new_content new_memory new_path new_str new_string next none nor not null observation_date ` +
	` observation_datetime old_content old_memory old_path old_str old_string open_files operator or ` +
	` order org_id other_agent_id otid output_format override_model_settings override_system page ` +
	` page_size parallel_tool_calls parameters parent_last_tool part passage passage_id passages patch ` +
	` path payload pdf_url pending_approval persona ping plan plans previous previous_memory principal ` +
	` principalid procedural procedural_memory project_id prompt prompt_acknowledgement ` +
	` prompt_template properties provenance provider_id provider_type put_inner_thoughts_in_kwargs ` +
	` query query_text read_only reason reasoning reasoning_effort relations reliability rename ` +
	` request_config request_heartbeat request_messages requests require_output_mapping ` +
	` required_before_exit requires_approval response_dict response_format response_schema results ` +
	` rethink_memory rethink_user_memory return_logprobs return_token_ids reviewedby role run ` +
	` run_code_with_tools run_first run_id run_ids run_type running said_by saidby sandbox_config ` +
	` sandbox_config_id schedule schema search search_memory secrets semantic semantic_memory ` +
	` semantic_search_files send_conversation_message send_message ` +
	` send_message_to_agent_and_wait_for_reply send_message_to_agent_async ` +
	` send_message_to_agents_matching_tags sender_id seq_id session_id shared_block_ids skills ` +
	` sliding_window_percentage source source_code source_id source_ids source_name source_type ` +
	` sources sourcetrust speaker speakerid speakerrole started_at starting_after stated statedby ` +
	` status status_url stderr stdout step step_count step_id stop_reason store_memories str_replace ` +
	` stream_tokens streaming strict structured_data_schema success summarizer_config summary system ` +
	` system_message system_prompt tag tags target target_block_label task tasks temperature ` +
	` template_version text text_lemmatized thinking thinking_budget thinking_config time timestamp ` +
	` title todo todos tool tool_call tool_call_id tool_call_message tool_call_parser tool_calls ` +
	` tool_exec_environment_variables tool_id tool_ids tool_name tool_return tool_return_message ` +
	` tool_returns tool_rule tool_rules tool_type tools top_k top_logprobs top_p topic topics ` +
	` transaction_id transcript true trust trusted trustlevel trustscore trusttier ttft_ns txt_url ` +
	` type typescript unknown untrusted unverified update updated_at updatedby updatedbyid usage ` +
	` usage_statistics use_case user user_id user_message v1 v2 validated validatedby value ` +
	` value_search verbosity verification verified verifiedby version visible_content wildcard ` +
	` work_item writtenby `
