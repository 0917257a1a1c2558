package letta

import (
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/withheld"
)

// Any caller may choose a model by its handle and set how it answers. Only an
// administrator may set a model's address and key, because prompts, memory and keys are
// sent to that address.

// modelSettings are the members that hold the settings of a model.
var modelSettings = nameSet(
	"llm_config", "embedding_config", "model_settings", "compaction_settings", "summarizer_config", "default_llm_config", "default_embedding_config",
	"override_model_settings", "embedding_settings",
)

// ordinarySettings are the members of a model's settings that any caller may set (an allow
// list).
var ordinarySettings = nameSet(
	"model", "handle", "display_name", "provider_type", "embedding_model", "embedding_dim", "embedding_chunk_size", "batch_size",
	"context_window", "context_window_limit", "max_tokens", "max_output_tokens", "max_reasoning_tokens", "temperature", "top_p", "frequency_penalty",
	"enable_reasoner", "reasoning", "reasoning_effort", "effort", "verbosity", "parallel_tool_calls", "put_inner_thoughts_in_kwargs", "strict",
	"thinking", "type", "budget_tokens", "clear_thinking", "thinking_config", "include_thoughts", "thinking_budget",
	"tool_call_parser", "return_logprobs", "top_logprobs", "return_token_ids", "model_settings",
	"mode", "clip_chars", "sliding_window_percentage", "prompt", "prompt_acknowledgement",
)

// outputSchemas are the settings of a model with a schema of its answers, in which any
// member name can occur.
var outputSchemas = nameSet("response_format", "response_schema")

// recordAdministrative marks the operation if only an administrator may set the member.
func recordAdministrative(op *memproxy.Operation, m jsondoc.Member, ptr string) {
	if op.Administers || isEmpty(m.Value) {
		return
	}
	var needed bool
	switch {
	case m.Name == "tools": // the server changes the existing tool of that name, whoever created it
		needed = slices.ContainsFunc(m.Value.Elems, func(e *jsondoc.Value) bool { return e.Kind == jsondoc.Object })
	case modelSettings[m.Name]:
		needed = hasUnknownSetting(m.Value)
	default:
		needed = withheld.IsSecretName(m.Name) || withheld.IsServerAddress(m.Name) || strings.HasPrefix(m.Name, "mcp_") || m.Name == "sandbox_config"
	}
	if needed {
		op.Administers, op.AdministersAt = true, ptr
	}
}

// isEmpty reports whether a value is null, or an empty list or object. Agent files contain
// such values for members that are not set.
func isEmpty(v *jsondoc.Value) bool {
	return v.Kind == jsondoc.Null || (v.Kind == jsondoc.Array || v.Kind == jsondoc.Object) && len(v.Elems)+len(v.Members) == 0
}

// hasUnknownSetting reports whether a model's settings contain one that is not on the
// allow list, or an address in an allowed one.
func hasUnknownSetting(v *jsondoc.Value) bool {
	unknown := func(m jsondoc.Member) bool {
		if m.Value.Kind == jsondoc.Null || outputSchemas[m.Name] {
			return false
		}
		return !ordinarySettings[m.Name] || m.Name != "prompt" && hasUnknownSetting(m.Value)
	}
	return strings.Contains(v.Text(), "://") ||
		slices.ContainsFunc(v.Elems, hasUnknownSetting) || slices.ContainsFunc(v.Members, unknown)
}

// RefusesCredential implements the gate's AgentRunner: it reports whether a 401 refuses the
// request's credential. If a model's provider refuses a key, the server answers 401 as well,
// with an error of another form.
func (a *Adapter) RefusesCredential(reply memproxy.Reply) bool {
	return strings.HasPrefix(rootOf(reply.Body).Get("detail").Text(), "Unauthorized")
}

// Withhold implements the gate's AgentRunner. Administrators see the source code of tools and,
// where the server has removed the values, the names of secrets: they change a tool and write
// it back, or import an agent file with its secrets, and a withheld member would be lost.
func (a *Adapter) Withhold(_ memproxy.Route, body []byte, administers bool) ([]byte, error) {
	return withheld.Strip(body, keptMembers(administers))
}

// keptMembers returns a function that reports whether a member is shown unchanged.
func keptMembers(administers bool) func(jsondoc.Member) bool {
	return func(m jsondoc.Member) bool {
		return administers && (m.Name == "source_code" || withheld.IsBlanked(m.Value)) || memoryMembers[m.Name]
	}
}

// memoryMembers hold content of a memory or of a tool call, in which names do not indicate
// secrets of the backend.
var memoryMembers = nameSet(
	"metadata", "metadata_", "json_schema", "args_json_schema", "args", "arguments", "parameters", "tool_return", "func_return", "content",
	"response_format", "response_schema", "tags", "properties",
)
