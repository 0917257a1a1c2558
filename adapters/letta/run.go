package letta

import (
	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/letta/turn"
)

// Turn implements the gate's turner: the routes on which an agent answers can
// be made to pause before its tools write. On the others it runs out of sight.
func (a *Adapter) Turn(rt memproxy.Route, req memproxy.Request, body []byte) (memproxy.Turn, error) {
	r := a.row(rt.ID)
	if r == nil || r.kind != memproxy.Run {
		return nil, nil
	}
	switch r.id {
	case "letta.send_message", "letta.create_agent_message_stream", "letta.send_conversation_message":
	default:
		if r.shape == chat || r.shape == batch || r.shape == gateway {
			return nil, memproxy.ErrUngated
		}
		return nil, nil
	}
	agent, conversation := where(rt, body)
	t, err := turn.New(turn.Options{Prefix: prefixOf(req), Agent: agent, Conversation: conversation, Body: body, Memory: a.memory})
	if err != nil {
		return nil, err
	}
	return t, nil
}

// ToolRun implements the gate's editor: a tool that is run from outside.
func (a *Adapter) ToolRun(rt memproxy.Route, req memproxy.Request, body []byte) memproxy.Edits {
	if r := a.row(rt.ID); r == nil || r.shape != toolRun {
		return nil
	}
	doc, err := jsondoc.Parse(body, 0)
	if err != nil {
		return nil
	}
	arguments := "{}"
	if args := doc.Root.Get("args"); args != nil && args.Kind == jsondoc.Object {
		arguments = string(doc.Raw(args))
	}
	run := turn.NewToolRun(turn.Options{Prefix: prefixOf(req), Agent: rt.Params["agent_id"], Memory: a.memory}, rt.Params["tool_name"], arguments)
	if run == nil {
		return nil // and not a nil run that is no nil interface
	}
	return run
}

// memory is a block or a passage of an agent's. Agents relabel and describe
// blocks, too.
func (a *Adapter) memory(doc *jsondoc.Doc, v *jsondoc.Value, agent string) memproxy.Memory {
	f := finding{rd: &memproxy.Reading{}, doc: doc, agent: agent}
	m := f.memory(v, "")
	if KindOf(m.ID) == TargetBlock {
		m.Members = a.image("block", v, doc)
	}
	return m
}

// where is the agent and the conversation that a route's request is about, as
// far as it says. An agent's own conversation is none: it goes by "default" with
// the agent in the body, or by the agent's id in the conversation's place.
func where(rt memproxy.Route, body []byte) (agent, conversation string) {
	agent, conversation = rt.Params["agent_id"], rt.Params["conversation_id"]
	switch {
	case KindOf(conversation) == TargetAgent:
		return conversation, ""
	case conversation == "default":
		if agent = member(body, "agent_id"); agent != "" {
			conversation = ""
		}
	}
	return agent, conversation
}

// Rearms implements the gate's turner.
func (a *Adapter) Rearms(rt memproxy.Route) string {
	switch rt.ID {
	case "letta.modify_agent", "letta.attach_tool_to_agent", "letta.detach_tool_from_agent", "letta.modify_approval_for_tool":
		return rt.Params["agent_id"]
	}
	return ""
}
