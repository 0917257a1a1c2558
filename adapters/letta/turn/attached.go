package turn

import (
	"errors"
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
)

// A use is what a tool can do to memory.
type use int

const (
	harmless use = iota
	gated        // it is one of memoryTools
	unseen       // nobody can say before what it writes
)

// useOf says what the server runs when an agent calls a tool. The tool's type
// decides: the server's own tools are found by their names, and a tool of
// somebody's own is not, however it is called.
func useOf(tool *jsondoc.Value) use {
	name := tool.Get("name").Text()
	_, memory := memoryTools()[name]
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
		if name == "run_code_with_tools" { // which calls the others around the agent loop
			return unseen
		}
		return harmless
	case "letta_files_core", "external_mcp", "external_composio", "external_langchain":
		return harmless
	case "": // a server that does not tell
		if memory {
			return gated
		}
	case "custom":
	default: // of a kind that came later
		return unseen
	}
	// Code of somebody's own. It may change the agent's blocks if it takes the
	// agent's state, by a parameter of that name. What cannot be read may do so.
	source := tool.Get("source_code").Text()
	if strings.TrimSpace(source) == "" || tool.Get("source_type").Text() != "typescript" && takesState(source) {
		return unseen
	}
	return harmless
}

// Unseen reports whether nobody can say before what the server's run of a tool
// writes. Read is set where the caller reads calls of the server's own tool of
// this name.
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

// takesState reports whether Python code may name a parameter agent_state.
// Python takes letters of other widths and styles for the plain ones.
func takesState(source string) bool {
	return strings.Contains(norm.NFKC.String(source), "agent_state")
}

// attached records which of the agent's tools are to be gated.
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
		case !s.memory[name].search:
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

// bound shadows the agent's other tools as well where its rules look back at
// what was called: the server forgets that at every pause.
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

// shadow names a tool of the server's as a client tool, so that the server
// pauses before it runs. One that a person is to approve by the agent's own
// rules stays the caller's to approve.
func (s *toolset) shadow(doc *jsondoc.Doc, tool *jsondoc.Value, name string) error {
	if slices.Contains(s.named, name) {
		return nil // the caller runs its own in the server's place, or approves the server's: see pending
	}
	shadow, err := shadowOf(doc, tool, name)
	if err != nil {
		return err
	}
	s.gated[name] = !s.rules.asks(name)
	s.shadowed = append(s.shadowed, shadow)
	return nil
}
