package letta

import (
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/withheld"
)

// An ordinary request may choose a model by its handle and set how it answers. The
// address and the key of a model belong to the installation: prompts, memory and keys
// are sent to that address.

// modelHome reports whether a member holds settings of models.
func modelHome(name string) bool {
	switch name {
	case "llm_config", "embedding_config", "model_settings", "compaction_settings", "summarizer_config", "default_llm_config", "default_embedding_config",
		"override_model_settings", "embedding_settings":
		return true
	}
	return false
}

// modelSetting reports whether a member of such settings is an ordinary one.
func modelSetting(name string) bool {
	switch name {
	case "model", "handle", "display_name", "provider_type", "embedding_model", "embedding_dim", "embedding_chunk_size", "batch_size",
		"context_window", "context_window_limit", "max_tokens", "max_output_tokens", "max_reasoning_tokens", "temperature", "top_p", "frequency_penalty",
		"enable_reasoner", "reasoning", "reasoning_effort", "effort", "verbosity", "parallel_tool_calls", "put_inner_thoughts_in_kwargs", "strict",
		"thinking", "type", "budget_tokens", "clear_thinking", "thinking_config", "include_thoughts", "thinking_budget",
		"tool_call_parser", "return_logprobs", "top_logprobs", "return_token_ids", "model_settings",
		"mode", "clip_chars", "sliding_window_percentage", "prompt", "prompt_acknowledgement":
		return true
	}
	return false
}

// outputSchema reports whether a model's setting holds a schema of its answers, in
// which any name can occur.
func outputSchema(name string) bool { return name == "response_format" || name == "response_schema" }

// administers reports whether only an administrator may set a member.
func administers(m jsondoc.Member) bool {
	switch {
	case nothing(m.Value):
		return false
	case m.Name == "tools": // the server changes the existing tool of that name, whoever created it
		return slices.ContainsFunc(m.Value.Elems, func(e *jsondoc.Value) bool { return e.Kind == jsondoc.Object })
	case modelHome(m.Name):
		return extraordinary(m.Value)
	}
	return withheld.Name(m.Name) || withheld.Endpoint(m.Name) || strings.HasPrefix(m.Name, "mcp_") || m.Name == "sandbox_config"
}

// reserves records a member that only an administrator may set.
func reserves(op *memproxy.Operation, m jsondoc.Member, ptr string) {
	if !op.Administers && administers(m) {
		op.Administers, op.AdministersAt = true, ptr
	}
}

// nothing reports whether a value is null, or an empty list or object: agent files
// contain those.
func nothing(v *jsondoc.Value) bool {
	return v.Kind == jsondoc.Null || (v.Kind == jsondoc.Array || v.Kind == jsondoc.Object) && len(v.Elems)+len(v.Members) == 0
}

// extraordinary reports whether a model's settings contain one that is not known to be
// ordinary.
func extraordinary(v *jsondoc.Value) bool {
	switch v.Kind {
	case jsondoc.String:
		return strings.Contains(v.Text(), "://")
	case jsondoc.Array:
		return slices.ContainsFunc(v.Elems, extraordinary)
	case jsondoc.Object:
		return slices.ContainsFunc(v.Members, func(m jsondoc.Member) bool {
			if m.Value.Kind == jsondoc.Null || outputSchema(m.Name) {
				return false
			}
			return !modelSetting(m.Name) || m.Name != "prompt" && extraordinary(m.Value)
		})
	}
	return false
}

// RefusesCredential implements gate.CredentialRefuser: if a model's provider refuses a key, the
// server answers 401 with an error of another form.
func (a *Adapter) RefusesCredential(reply memproxy.Reply) bool {
	doc, err := jsondoc.Parse(reply.Body, 0)
	return err == nil && strings.HasPrefix(doc.Root.Get("detail").Text(), "Unauthorized")
}

// Withhold implements the gate's withholder. Administrators see the source of tools, which
// they make: without it a tool that they read and change, or import in an agent file,
// would lose it.
func (a *Adapter) Withhold(_ memproxy.Route, body []byte, administers bool) ([]byte, error) {
	return withheld.Strip(body, func(name string) bool { return administers && name == "source_code" || ofMemory(name) })
}

// ofMemory reports whether the value of a member belongs to a memory, and is therefore
// no secret of the backend whatever its name.
func ofMemory(name string) bool {
	switch name {
	case "metadata", "metadata_", "json_schema", "args_json_schema", "args", "arguments", "parameters", "tool_return", "func_return", "content",
		"response_format", "response_schema", "tags", "properties":
		return true
	}
	return false
}
