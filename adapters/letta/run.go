package letta

import (
	"net/url"
	"strings"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/letta/compensate"
	"github.com/memproxy/memproxy/adapters/letta/turn"
)

// runs implements the methods of the gate's AgentRunner that concern runs.
type runs struct {
	routes      *routes
	bodies      members
	now         func() time.Time
	callerCalls *callerCalls
}

// Turn implements the gate's AgentRunner. On routes with the flag pauses an agent can be
// made to pause before its tools write. On other routes that run agents it cannot, and Turn
// returns memproxy.ErrUngated.
func (r runs) Turn(rt memproxy.Route, req memproxy.Request, body []byte) (memproxy.Turn, error) {
	row := r.routes.Row(rt.ID)
	switch {
	case row.Is(pauses):
	case row.Kind != memproxy.Run, row.ID == "letta.generate_completion",
		row.Shape != chat && row.Shape != batch && row.Shape != gateway:
		return nil, nil // a completion calls the agent's model without the agent's memory and tools
	default:
		return nil, memproxy.ErrUngated
	}
	agent, conversation := agentAndConversation(rt, body)
	t, err := turn.New(turn.Options{Prefix: prefixOf(req), Agent: agent, Conversation: conversation, Body: body, Memory: r.bodies.memory, CallerCalls: r.callerCalls})
	if err != nil {
		return nil, err
	}
	return t, nil
}

// ToolRun implements the gate's AgentRunner for requests that run an agent's tool.
func (r runs) ToolRun(rt memproxy.Route, req memproxy.Request, body []byte) memproxy.ToolRun {
	if r.routes.Row(rt.ID).Shape != toolRun {
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
	return turn.NewToolRun(turn.Options{Prefix: prefixOf(req), Agent: rt.Params["agent_id"], Memory: r.bodies.memory}, rt.Params["tool_name"], arguments)
}

// memory reads a block or a passage of an agent. Agents also change labels and
// descriptions, so the members of a block are included.
func (m members) memory(doc *jsondoc.Doc, v *jsondoc.Value, agent string) memproxy.Memory {
	f := answerReader{rd: &memproxy.Reading{}, doc: doc, agent: agent}
	out := f.memory(v, "")
	if KindOf(out.ID) == TargetBlock {
		out.Members = m.versioned("block", v, doc)
	}
	return out
}

// agentAndConversation returns the agent and the conversation that a request names, or "". An
// agent's own conversation is "": requests name it "default", with the agent in the body, or
// by the agent's id.
func agentAndConversation(rt memproxy.Route, body []byte) (agent, conversation string) {
	agent, conversation = rt.Params["agent_id"], rt.Params["conversation_id"]
	switch {
	case KindOf(conversation) == TargetAgent:
		return conversation, ""
	case conversation == ownConversation:
		if agent = rootOf(body).Get("agent_id").Text(); agent != "" {
			conversation = ""
		}
	}
	return agent, conversation
}

// ChangesToolsOf implements the gate's AgentRunner.
func (r runs) ChangesToolsOf(rt memproxy.Route) string {
	if r.routes.Row(rt.ID).Is(changesTools) {
		return rt.Params["agent_id"]
	}
	return ""
}

// Recover implements the gate's AgentRunner. key is the turn's key: the id of an agent, or of
// a conversation.
func (r runs) Recover(key string) (memproxy.Request, memproxy.Turn, error) {
	path := "/v1/agents/"
	opt := turn.Options{Prefix: "/v1", Agent: key, Body: []byte(`{"messages":[],"streaming":false}`), Memory: r.bodies.memory, RecoveryOnly: true}
	if KindOf(key) != TargetAgent {
		path, opt.Agent, opt.Conversation = "/v1/conversations/", "", key
	}
	t, err := turn.New(opt)
	if err != nil {
		return memproxy.Request{}, nil, err
	}
	return sideRequest(memproxy.Request{}, "POST", path+url.PathEscape(key)+"/messages", ""), t, nil
}

// DiffRun implements the gate's AgentRunner for runs that cannot be paused, but whose agents
// are known beforehand and whose end can be awaited. It returns memproxy.ErrUngated for
// batches, which take hours, and for chats in another provider's format, whose run writes
// at an unknown time after the answer.
func (r runs) DiffRun(rt memproxy.Route, req memproxy.Request, body []byte) (memproxy.RunDiff, error) {
	opt := compensate.Options{Prefix: prefixOf(req), Agent: rt.Params["agent_id"], Conversation: rt.Params["conversation_id"]}
	switch rt.ID {
	case "letta.send_message", "letta.create_agent_message_stream", "letta.create_voice_chat_completions", "letta.run_tool_for_agent":
	case "letta.create_agent_message_async":
		opt.Background = true
	case "letta.send_conversation_message":
		opt.Agent, opt.Conversation = agentAndConversation(rt, body)
	case "letta.create_chat_completion":
		opt.Agent = rootOf(body).Get("model").Text()
	default:
		return nil, memproxy.ErrUngated
	}
	return compensate.New(opt, r.now)
}

// RestoreRunDiff implements the gate's AgentRunner.
func (r runs) RestoreRunDiff(baseline []byte) (memproxy.RunDiff, error) {
	return compensate.Restore(baseline, r.now)
}

// prefixOf returns the path prefix of the server's routes as the caller spelled it:
// "/v1".
func prefixOf(req memproxy.Request) string {
	prefix, _, _ := strings.Cut(strings.TrimPrefix(req.EscapedPath, "/"), "/")
	return "/" + prefix
}

// rootOf returns the root of a document, or nil if it cannot be parsed.
func rootOf(body []byte) *jsondoc.Value {
	doc, err := jsondoc.Parse(body, 0)
	if err != nil {
		return nil
	}
	return doc.Root
}
