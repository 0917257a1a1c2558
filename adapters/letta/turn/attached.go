package turn

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/letta/selfedit"
)

// toolEffect is what a tool can do to memory.
type toolEffect int

const (
	harmless      toolEffect = iota
	gated                    // its calls are ruled on
	unpredictable            // its writes cannot be predicted
)

// effectOf classifies a tool by what the server runs when an agent calls it. The tool's
// type decides and not only its name, because a custom tool may have the name of a
// built-in one.
func effectOf(tool *jsondoc.Value) toolEffect {
	name := tool.Get("name").Text()
	own := selfedit.Tools[name]
	switch tool.Get("tool_type").Text() {
	case "letta_core", "letta_memory_core", "letta_sleeptime_core", "letta_voice_sleeptime_core", "letta_multi_agent_core":
		switch {
		case own.Uses == selfedit.Nothing:
			return harmless
		case own.Gated():
			return gated
		}
		return unpredictable
	case "letta_builtin":
		if name == "run_code_with_tools" { // it calls other tools outside of the agent loop
			return unpredictable
		}
		return harmless
	case "letta_files_core", "external_mcp", "external_composio", "external_langchain":
		return harmless
	case "": // a server that reports no type
		if own.Gated() {
			return gated
		}
	case "custom":
	default: // a type of a newer server
		return unpredictable
	}
	// Custom code can change the agent's blocks only if it has a parameter agent_state. Code
	// that is missing counts as having that parameter. Python normalizes identifiers to NFKC.
	source := tool.Get("source_code").Text()
	takesState := tool.Get("source_type").Text() != "typescript" && strings.Contains(norm.NFKC.String(source), "agent_state")
	if takesState || strings.TrimSpace(source) == "" {
		return unpredictable
	}
	return harmless
}

// Unpredictable reports whether the writes of a tool cannot be predicted. Set read if the
// caller can decode calls of the server's built-in tool of that name.
func Unpredictable(tool *jsondoc.Value, read bool) bool {
	if effectOf(tool) != unpredictable {
		return false
	}
	switch tool.Get("tool_type").Text() {
	case "letta_core", "letta_memory_core", "letta_sleeptime_core", "letta_voice_sleeptime_core":
		return !read
	}
	return true
}

// readAttached reads the agent's tools and tool rules, and shadows the tools that use
// memory. It returns memproxy.ErrUngated if the agent's writes cannot be gated.
func (s *toolset) readAttached(doc *jsondoc.Doc) error {
	tools := doc.Root.Get("tools")
	if tools == nil || tools.Kind != jsondoc.Array {
		return errors.New("letta: the agent's tools are missing in the response")
	}
	pauses := doc.Root.Get("agent_type").Text() == pausingLoop
	if err := s.rules.read(doc); err != nil {
		return err
	}
	unpredictables, writers := 0, 0
	for _, tool := range tools.Elems {
		name := tool.Get("name").Text()
		s.rules.available = append(s.rules.available, name)
		switch effect := effectOf(tool); {
		case effect == unpredictable:
			unpredictables++
			continue
		case effect == harmless:
			continue
		case selfedit.Tools[name].Uses != selfedit.Memories:
			writers++
		case !pauses: // a search writes nothing, but its results are not filtered
			continue
		}
		s.server[name] = true
		s.shadow(doc, tool, name)
	}
	// The server may run other agents with this one's memory after its turn. They cannot be paused.
	followed := doc.True(doc.Root.Get("enable_sleeptime")) || len(Groups(doc.Root)) > 0
	if writers > 0 && !pauses || unpredictables > 0 || followed || len(s.server) > 0 && s.rules.unsupported {
		return memproxy.ErrUngated
	}
	if len(s.server) == 0 || !s.rules.needsHistory {
		return nil
	}
	// A tool rule depends on earlier calls, which the server forgets at every pause. memproxy
	// applies the rule, so it shadows the agent's other tools as well.
	for _, tool := range tools.Elems {
		name := tool.Get("name").Text()
		if s.server[name] {
			continue
		}
		s.shadow(doc, tool, name)
		s.forRules[name] = s.gated[name]
	}
	return nil
}

// shadow lists a server tool as a client tool with the same name, description and
// parameters, so that the server pauses before it runs the tool. If an agent's rule
// requires a person's approval, the caller still approves it.
func (s *toolset) shadow(doc *jsondoc.Doc, tool *jsondoc.Value, name string) {
	if slices.Contains(s.ownNames, name) {
		return // the caller runs a tool of its own, or approves the server's: see takePending
	}
	shadow := struct {
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		Parameters  json.RawMessage `json:"parameters,omitempty"`
	}{Name: name, Description: tool.Get("description").Text()}
	schema := tool.Get("json_schema")
	shadow.Description = cmp.Or(schema.Get("description").Text(), shadow.Description)
	if p := schema.Get("parameters"); p != nil && p.Kind == jsondoc.Object {
		shadow.Parameters = doc.Raw(p)
	}
	s.gated[name] = !s.rules.has("requires_approval", name)
	s.shadowed = append(s.shadowed, marshal(shadow))
}
