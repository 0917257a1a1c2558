package turn

import (
	"errors"
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
)

// use says what a tool can do to memory.
type use int

const (
	harmless use = iota
	gated        // it is one of memoryTools
	unseen       // its writes cannot be predicted
)

// useOf classifies what the server runs when an agent calls a tool. The type of the
// tool decides: the server finds its own tools by name, and a custom tool may have the
// same name.
func useOf(tool *jsondoc.Value) use {
	name := tool.Get("name").Text()
	_, memory := memoryTools[name]
	switch tool.Get("tool_type").Text() {
	case "letta_core", "letta_memory_core", "letta_sleeptime_core", "letta_voice_sleeptime_core", "letta_multi_agent_core":
		switch name {
		case "send_message", "memory_finish_edits", "finish_rethinking_memory", "search_memory":
			return harmless
		}
		if memory {
			return gated
		}
		return unseen
	case "letta_builtin":
		if name == "run_code_with_tools" { // which calls other tools outside of the agent loop
			return unseen
		}
		return harmless
	case "letta_files_core", "external_mcp", "external_composio", "external_langchain":
		return harmless
	case "": // a server that reports no type
		if memory {
			return gated
		}
	case "custom":
	default: // a type of a newer server
		return unseen
	}
	// Custom code can change the agent's blocks if it has a parameter for the agent's
	// state. Code that cannot be read counts as having one.
	source := tool.Get("source_code").Text()
	if strings.TrimSpace(source) == "" || tool.Get("source_type").Text() != "typescript" && takesState(source) {
		return unseen
	}
	return harmless
}

// Unseen reports whether the writes of a tool cannot be predicted. read is set if the
// caller decodes calls of the server's own tool of this name.
func Unseen(tool *jsondoc.Value, read bool) bool {
	if useOf(tool) != unseen {
		return false
	}
	switch tool.Get("tool_type").Text() {
	case "letta_core", "letta_memory_core", "letta_sleeptime_core", "letta_voice_sleeptime_core":
		return !read
	}
	return true
}

// takesState reports whether Python code may have a parameter agent_state. Python
// normalizes identifiers to NFKC.
func takesState(source string) bool {
	return strings.Contains(norm.NFKC.String(source), "agent_state")
}

// attached records which of the agent's tools are gated.
func (s *toolset) attached(doc *jsondoc.Doc) error {
	tools := doc.Root.Get("tools")
	if tools == nil || tools.Kind != jsondoc.Array {
		return errors.New("letta: an agent without its tools")
	}
	pauses := doc.Root.Get("agent_type").Text() == pausingLoop
	if err := s.rules.read(doc); err != nil {
		return err
	}
	unseens, writers := 0, 0
	for _, tool := range tools.Elems {
		name := tool.Get("name").Text()
		s.rules.available = append(s.rules.available, name)
		switch u := useOf(tool); {
		case u == unseen:
			unseens++
			continue
		case u == harmless:
			continue
		case !memoryTools[name].search:
			writers++
		case !pauses: // its results are not filtered; it writes nothing
			continue
		}
		s.server[name] = true
		if err := s.shadow(doc, tool, name); err != nil {
			return err
		}
	}
	if writers > 0 && !pauses || unseens > 0 || followed(doc) || len(s.server) > 0 && s.rules.beyond {
		return memproxy.ErrUngated
	}
	return s.bound(doc, tools)
}

// bound also shadows the agent's other tools if a rule depends on earlier calls: the
// server forgets those at every pause.
func (s *toolset) bound(doc *jsondoc.Doc, tools *jsondoc.Value) error {
	if len(s.server) == 0 || !s.rules.remember {
		return nil
	}
	for _, tool := range tools.Elems {
		name := tool.Get("name").Text()
		if s.server[name] {
			continue
		}
		if err := s.shadow(doc, tool, name); err != nil {
			return err
		}
		s.free[name] = s.gated[name]
	}
	return nil
}

// shadow names a server tool as a client tool, so that the server pauses before it
// runs. A tool that requires a person's approval by the agent's rules stays the
// caller's to approve.
func (s *toolset) shadow(doc *jsondoc.Doc, tool *jsondoc.Value, name string) error {
	if slices.Contains(s.named, name) {
		return nil // the caller runs its own tool instead, or approves the server's: see pending
	}
	shadow, err := shadowOf(doc, tool, name)
	if err != nil {
		return err
	}
	s.gated[name] = !s.rules.asks(name)
	s.shadowed = append(s.shadowed, shadow)
	return nil
}
