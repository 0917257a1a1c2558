package turn

import (
	"maps"
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
)

// A memoryTool says how a tool's arguments are read. The names and arguments
// are those of the server's function sets (letta/functions/function_sets).
type memoryTool struct {
	kind memproxy.Kind
	// label are the arguments that may name the block; text those that hold
	// what is written, in the spellings of all versions.
	label, text []string
	fixed       string // the block's label where no argument names it
	search      bool   // it only reads
	read        func(*toolCall) error
}

// memoryTools are the tools that write an agent's memory, or another's, and
// those that search it.
func memoryTools() map[string]memoryTool {
	label := []string{"label"}
	return map[string]memoryTool{
		"core_memory_append":     {kind: memproxy.Learn, label: label, text: []string{"content"}},
		"core_memory_replace":    {kind: memproxy.Correct, label: label, text: []string{"new_content"}},
		"memory_insert":          {kind: memproxy.Learn, label: label, text: []string{"new_string", "new_str"}},
		"memory_replace":         {kind: memproxy.Correct, label: label, text: []string{"new_string", "new_str"}},
		"memory_rethink":         {kind: memproxy.Correct, label: label, text: []string{"new_memory"}},
		"rethink_memory":         {kind: memproxy.Correct, label: []string{"target_block_label"}, text: []string{"new_memory"}},
		"rethink_user_memory":    {kind: memproxy.Correct, fixed: "human", text: []string{"new_memory"}},
		"memory_str_replace":     {kind: memproxy.Correct, label: []string{"path"}, text: []string{"new_string", "new_str"}},
		"memory_str_insert":      {kind: memproxy.Learn, label: []string{"path"}, text: []string{"insert_text", "new_string"}},
		"memory_apply_patch":     {kind: memproxy.Correct, label: label, read: (*toolCall).patch},
		"memory":                 {kind: memproxy.Correct, label: []string{"path", "old_path"}, read: (*toolCall).memory},
		"archival_memory_insert": {kind: memproxy.Learn, text: []string{"content"}},
		"store_memories":         {kind: memproxy.Learn, read: (*toolCall).everything},

		"archival_memory_search": {kind: memproxy.Recall, search: true},
		"conversation_search":    {kind: memproxy.Recall, search: true},

		"send_message_to_agent_and_wait_for_reply": {kind: memproxy.Learn, text: []string{"message"}, read: (*toolCall).recipient},
		"send_message_to_agent_async":              {kind: memproxy.Learn, text: []string{"message"}, read: (*toolCall).recipient},
		"send_message_to_agents_matching_tags":     {kind: memproxy.Learn, text: []string{"message"}, read: (*toolCall).everybody},
	}
}

// Gated reports whether the calls of a tool are ruled on.
func Gated(name string) bool {
	_, yes := memoryTools()[name]
	return yes
}

// Searches reports whether a tool of this name searches an agent's memory and
// does nothing else.
func Searches(name string) bool { return memoryTools()[name].search }

// Names are the tools that are gated, sorted.
func Names() []string { return slices.Sorted(maps.Keys(memoryTools())) }

// Read reads the arguments of a call of a gated tool of an agent.
func Read(name, agent, arguments string) (*memproxy.Operation, error) {
	return operation(memoryTools()[name], agent, arguments)
}

// Target is what an agent's block is called where only its label is known.
func Target(agent, label string) string { return agent + "/" + label }

// Replaces reports whether a call replaces what stands in blocks, and does not
// only add to it. One that cannot be read is taken to replace.
func Replaces(name, agent, arguments string) bool {
	op, err := Read(name, agent, arguments)
	return err != nil || op.Kind == memproxy.Correct || op.Kind == memproxy.Forget
}

// toolCall is one call on its way to an Operation.
type toolCall struct {
	tool memoryTool
	doc  *jsondoc.Doc
	op   *memproxy.Operation
}

// operation reads the arguments of a call to a memory tool of an agent.
func operation(tool memoryTool, agent, arguments string) (*memproxy.Operation, error) {
	doc, err := jsondoc.Parse([]byte(arguments), 0)
	if err != nil {
		return nil, err
	}
	if doc.Root.Kind != jsondoc.Object {
		return nil, malformed("", "a tool's arguments are an object")
	}
	c := &toolCall{tool: tool, doc: doc, op: &memproxy.Operation{
		Kind: tool.kind, Cost: 1, Scope: memproxy.Scope{Agent: agent}, TargetKind: memproxy.TargetMemory,
		Claims: []memproxy.Claim{{Dim: memproxy.DimAgent, Op: memproxy.ClaimIs, Values: []string{agent}, Pointer: "path:agent_id", Pins: true}},
	}}
	c.op.Reserved = reserved(doc.Root)
	for _, name := range tool.text {
		c.write(name, c.label())
	}
	if tool.read != nil {
		if err := tool.read(c); err != nil {
			return nil, err
		}
	}
	if len(c.op.Items) == 0 && c.op.Kind != memproxy.Forget {
		// Whatever it says, nothing of it is left out.
		if err := c.everything(); err != nil {
			return nil, err
		}
	}
	c.replaces(agent)
	return c.op, nil
}

// replaces names the blocks whose words the call would change, so that their
// authors can be looked up. What only adds to a block replaces nothing.
func (c *toolCall) replaces(agent string) {
	if c.op.Kind != memproxy.Correct && c.op.Kind != memproxy.Forget {
		return
	}
	for i := range c.op.Items {
		if it := &c.op.Items[i]; it.Field != "" {
			it.Target = Target(agent, it.Field)
		}
	}
}

// label is the block that the arguments name.
func (c *toolCall) label() string {
	if c.tool.fixed != "" {
		return c.tool.fixed
	}
	for _, name := range c.tool.label {
		if v := c.doc.Root.Get(name); v != nil && v.Text() != "" {
			return labelOf(v.Text())
		}
	}
	return ""
}

// labelOf is the label in a path of the memory tool: "/memories/human".
func labelOf(path string) string {
	return strings.ReplaceAll(strings.TrimPrefix(strings.TrimPrefix(path, "/memories"), "/"), "/", "_")
}

func (c *toolCall) write(argument, label string) {
	if v := c.doc.Root.Get(argument); v != nil {
		c.item("/"+argument, v, label)
	}
}

func (c *toolCall) item(pointer string, v *jsondoc.Value, label string) {
	text := v.Text()
	if v.Kind != jsondoc.String {
		text = string(c.doc.Raw(v))
	}
	c.add(pointer, text, label)
}

func (c *toolCall) add(pointer, text, label string) {
	c.op.Items = append(c.op.Items, memproxy.Item{
		Kind: memproxy.ItemContent, Pointer: pointer, Text: text, Field: label, Role: "assistant", Layer: memproxy.Semantic, Inferred: true,
	})
}

// everything takes every string of the arguments for content.
func (c *toolCall) everything() error {
	c.all("", c.doc.Root)
	return nil
}

func (c *toolCall) all(pointer string, v *jsondoc.Value) {
	switch v.Kind {
	case jsondoc.Object:
		for _, m := range v.Members {
			c.all(jsondoc.Child(pointer, m.Name), m.Value)
		}
	case jsondoc.Array:
		for i, e := range v.Elems {
			c.all(jsondoc.Index(pointer, i), e)
		}
	case jsondoc.String:
		c.add(pointer, v.Text(), c.label())
	}
}

// memory reads the one tool with many commands.
func (c *toolCall) memory() error {
	switch command := c.doc.Root.Get("command").Text(); command {
	case "create":
		c.op.Kind = memproxy.Learn
		c.write("file_text", c.label())
		c.write("description", c.label())
	case "str_replace":
		c.write("new_string", c.label())
		c.write("new_str", c.label())
	case "insert":
		c.op.Kind = memproxy.Learn
		c.write("insert_text", c.label())
	case "delete":
		c.op.Kind = memproxy.Forget
		c.op.Cost = 0
		c.add("/path", "", c.label())
	case "rename":
		c.write("description", c.label())
		if v := c.doc.Root.Get("new_path"); v != nil {
			c.add("/new_path", "", labelOf(v.Text()))
		}
		c.add("/old_path", "", c.label())
	default:
		return c.everything()
	}
	return nil
}

// patch reads a unified diff on one block, or one with headers over many. What
// it adds is content; every block that it names is a field that it writes.
func (c *toolCall) patch() error {
	label := c.label()
	v := c.doc.Root.Get("patch")
	if v == nil {
		return c.everything()
	}
	var added strings.Builder
	flush := func() {
		if added.Len() > 0 || label != "" {
			c.add("/patch", added.String(), label)
		}
		added.Reset()
	}
	for line := range strings.SplitSeq(v.Text(), "\n") {
		if rest, ok := strings.CutPrefix(line, "*** "); ok {
			verb, name, named := strings.Cut(rest, ": ")
			if !named {
				continue // "*** Begin Patch"
			}
			flush()
			label = labelOf(strings.TrimSpace(name))
			if strings.HasPrefix(verb, "Description") {
				c.add("/patch", name, label)
			}
			continue
		}
		if text, ok := strings.CutPrefix(line, "+"); ok {
			added.WriteString(text)
			added.WriteByte('\n')
		}
	}
	flush()
	return nil
}

// recipient claims the agent that a message goes to: it is written into that
// agent's memory.
func (c *toolCall) recipient() error {
	v := c.doc.Root.Get("other_agent_id")
	if v.Text() == "" {
		return malformed("/other_agent_id", "a message to another agent names it")
	}
	c.op.Claims = append(c.op.Claims, memproxy.Claim{
		Dim: memproxy.DimAgent, Op: memproxy.ClaimIs, Values: []string{v.Text()}, Pointer: "/other_agent_id", Pins: true,
	})
	return nil
}

// everybody claims whoever has a tag: nobody can say who that is.
func (c *toolCall) everybody() error {
	c.op.Claims = append(c.op.Claims, memproxy.Claim{Dim: memproxy.DimAgent, Op: memproxy.ClaimUnclear, Pointer: "/match_all"})
	return nil
}

func malformed(pointer, detail string) *memproxy.Malformed {
	return &memproxy.Malformed{Code: memproxy.PayloadMalformed, Status: 400, Pointer: pointer, Detail: detail}
}
