package letta

import (
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/letta/compensate"
	"github.com/memproxy/memproxy/adapters/stamps"
)

// Watch implements the gate's compensator: runs that cannot be made to pause,
// but whose agents are known before and can be waited for. Batches take hours,
// and what is written behind another provider's chat is written some time
// after the answer: nobody can say when those are over.
func (a *Adapter) Watch(rt memproxy.Route, req memproxy.Request, body []byte) (memproxy.Watch, error) {
	opt := compensate.Options{Prefix: prefixOf(req), Agent: rt.Params["agent_id"], Conversation: rt.Params["conversation_id"]}
	switch rt.ID {
	case "letta.send_message", "letta.create_agent_message_stream", "letta.create_voice_chat_completions", "letta.run_tool_for_agent":
	case "letta.create_agent_message_async":
		opt.Background = true
	case "letta.send_conversation_message":
		opt.Agent, opt.Conversation = where(rt, body)
	case "letta.create_chat_completion":
		opt.Agent = member(body, "model")
	default:
		return nil, memproxy.ErrUngated
	}
	return watch(compensate.New(opt, a.lent()))
}

// Rewatch implements the gate's compensator.
func (a *Adapter) Rewatch(picture []byte) (memproxy.Watch, error) {
	return watch(compensate.Open(picture, a.lent()))
}

func (a *Adapter) lent() compensate.Tools {
	return compensate.Tools{Stamp: stamps.Parse, Now: a.opt.Now}
}

func watch(w *compensate.Watch, err error) (memproxy.Watch, error) {
	if err != nil {
		return nil, err // and not a nil watch that is no nil interface
	}
	return w, nil
}

// prefixOf is the path under which the server's routes stand, as the caller
// spelled it: "/v1".
func prefixOf(req memproxy.Request) string {
	prefix, _, _ := strings.Cut(strings.TrimPrefix(req.EscapedPath, "/"), "/")
	return "/" + prefix
}

// member is a text of a body that was admitted.
func member(body []byte, name string) string {
	doc, err := jsondoc.Parse(body, 0)
	if err != nil {
		return ""
	}
	return doc.Root.Get(name).Text()
}
