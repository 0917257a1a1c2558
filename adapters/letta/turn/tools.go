package turn

import (
	"errors"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/letta/selfedit"
)

// Read decodes a call of a gated tool without knowing the agent's blocks.
func Read(name, agent, arguments string) (*memproxy.Operation, error) {
	return operation(name, agent, arguments, nil)
}

// CheckArguments refuses a direct call of a tool that writes memory if an argument is not of
// its parameter's type, like such a call of an agent: the server would write Python's spelling
// of the value, a text that the request does not contain. Errors are
// *memproxy.Malformed.
func CheckArguments(name string, doc *jsondoc.Doc, args *jsondoc.Value) error {
	if !selfedit.Tools[name].Writes() || args == nil || args.Kind != jsondoc.Object {
		return nil
	}
	_, _, err := selfedit.Read(name, doc.Part(args))
	if flaw, ok := errors.AsType[*memproxy.Flaw](err); ok {
		flaw.Pointer = "/args" + flaw.Pointer
	}
	return err
}

// Target returns the target for a block of which only the label is known.
func Target(agent, label string) string { return agent + "/" + label }

// Replaces reports whether a call changes or removes text in blocks, as opposed to adding
// text. A call that cannot be decoded counts as changing text.
func Replaces(name, agent, arguments string) bool {
	op, err := Read(name, agent, arguments)
	return err != nil || op.Kind == memproxy.Correct || op.Kind == memproxy.Forget
}

// toolCall is a call that is being converted to an Operation.
type toolCall struct {
	name string
	doc  *jsondoc.Doc
	args selfedit.Args
	op   *memproxy.Operation
}

// operation decodes a call of a memory tool as the server's agent loop reads it. If blocks
// is not nil, operation adds the predicted effects and updates blocks to the state after
// the call. Errors are *memproxy.Malformed.
func operation(name, agent, arguments string, blocks *[]selfedit.Block) (*memproxy.Operation, error) {
	tool := selfedit.Tools[name]
	if selfedit.Unreadable(arguments) {
		return nil, selfedit.Malformed("", "the server would truncate these arguments at a pair of braces")
	}
	doc, err := jsondoc.Parse([]byte(arguments), 0)
	if err != nil {
		return nil, err
	}
	if doc.Root.Kind != jsondoc.Object {
		return nil, selfedit.Malformed("", "tool arguments must be an object")
	}
	c := &toolCall{name: name, doc: doc, op: AgentOperation(agent, tool.Kind, 1)}
	c.op.Reserved = reserved(doc.Root)
	fits := false
	switch tool.Uses {
	case selfedit.Memories:
	case selfedit.Agents:
		err = c.send()
	default:
		if c.args, fits, err = selfedit.Read(name, doc); err == nil && fits {
			err = c.readTexts()
		}
	}
	if err != nil {
		return nil, err
	}
	if fits && blocks != nil {
		c.addEffects(blocks)
	}
	if len(c.op.Items) == 0 && c.op.Kind != memproxy.Forget {
		// No argument was recognised: all texts are content.
		c.addAllTexts("", doc.Root)
	}
	c.replaces(agent, 0)
	return c.op, nil
}

// AgentOperation returns an operation on an agent's memory.
func AgentOperation(agent string, kind memproxy.Kind, cost int) *memproxy.Operation {
	return &memproxy.Operation{
		Kind: kind, Cost: cost, Scope: memproxy.Scope{Agent: agent}, TargetKind: memproxy.TargetMemory,
		Claims: []memproxy.Claim{{Dim: memproxy.DimAgent, Op: memproxy.ClaimIs, Values: []string{agent}, Pointer: "path:agent_id", Pins: true}},
		Refs:   []memproxy.Ref{{Kind: memproxy.TargetMemory, ID: agent, Pointer: "path:agent_id"}},
	}
}

// replaces sets the targets whose text the call would change, so that their authors can be
// looked up. from is the index of the first item to set.
func (c *toolCall) replaces(agent string, from int) {
	if c.op.Kind != memproxy.Correct && c.op.Kind != memproxy.Forget {
		return
	}
	for i := from; i < len(c.op.Items); i++ {
		if it := &c.op.Items[i]; it.Field != "" && !it.Moved {
			it.Target = Target(agent, it.Field)
		}
	}
}

func (c *toolCall) add(pointer, text, label string) {
	c.op.Items = append(c.op.Items, memproxy.Item{
		Kind: memproxy.ItemContent, Pointer: pointer, Text: text, Field: label, Role: "assistant", Layer: memproxy.Semantic, Inferred: true,
	})
}

func (c *toolCall) addAllTexts(pointer string, v *jsondoc.Value) {
	if v.Kind == jsondoc.String {
		c.add(pointer, v.Text(), c.label())
	}
	for _, m := range v.Members {
		c.addAllTexts(jsondoc.Child(pointer, m.Name), m.Value)
	}
	for i, e := range v.Elems {
		c.addAllTexts(jsondoc.Index(pointer, i), e)
	}
}

// label returns the label of the block that the arguments name, or "".
func (c *toolCall) label() string {
	for _, name := range [...]string{"label", "target_block_label", "path", "old_path"} {
		if text := c.doc.Root.Get(name).Text(); text != "" {
			return selfedit.Labels(text)[0]
		}
	}
	return ""
}

// send reads a message to other agents, and claims them, because it is written into their
// memory. If the arguments have tags instead of an id, the claim is unclear, because the
// recipients cannot be determined here.
func (c *toolCall) send() error {
	if v := c.doc.Root.Get("message"); v != nil { // otherwise nothing is sent
		if v.Kind != jsondoc.String { // the server converts other types with Python's str
			return selfedit.Malformed("/message", "message must be a string")
		}
		c.add("/message", v.Text(), "")
	}
	claim := memproxy.Claim{Dim: memproxy.DimAgent, Op: memproxy.ClaimUnclear, Pointer: "/match_all"}
	if c.name != "send_message_to_agents_matching_tags" {
		to := c.doc.Root.Get("other_agent_id").Text()
		if to == "" {
			return selfedit.Malformed("/other_agent_id", "a message to another agent requires other_agent_id")
		}
		claim = memproxy.Claim{Dim: memproxy.DimAgent, Op: memproxy.ClaimIs, Values: []string{to}, Pointer: "/other_agent_id", Pins: true}
		c.op.Refs = append(c.op.Refs, memproxy.Ref{Kind: memproxy.TargetMemory, ID: to, Pointer: "/other_agent_id"})
	}
	c.op.Claims = append(c.op.Claims, claim)
	return nil
}
