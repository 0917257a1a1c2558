package letta

import (
	"github.com/memproxy/memproxy"
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
	t, err := turn.New(turn.Options{
		Prefix: prefixOf(req), Agent: rt.Params["agent_id"], Conversation: rt.Params["conversation_id"], Body: body,
	})
	if err != nil {
		return nil, err
	}
	return t, nil
}

// Rearms implements the gate's turner.
func (a *Adapter) Rearms(rt memproxy.Route) string {
	switch rt.ID {
	case "letta.modify_agent", "letta.attach_tool_to_agent", "letta.detach_tool_from_agent", "letta.modify_approval_for_tool":
		return rt.Params["agent_id"]
	}
	return ""
}
