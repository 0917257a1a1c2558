package letta

import (
	"net/url"
	"slices"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/letta/turn"
)

// Recover implements the gate's recoverer: a turn's key is an agent's id, of its
// own conversation, or a conversation's.
func (a *Adapter) Recover(key string) (memproxy.Request, memproxy.Turn, error) {
	req := memproxy.Request{Method: "POST", Header: asSDK(nil), EscapedPath: "/v1/agents/" + url.PathEscape(key) + "/messages"}
	opt := turn.Options{Prefix: "/v1", Agent: key, Body: []byte(`{"messages":[],"streaming":false}`), Recovers: true}
	if KindOf(key) != TargetAgent {
		req.EscapedPath = "/v1/conversations/" + url.PathEscape(key) + "/messages"
		opt.Agent, opt.Conversation = "", key
	}
	t, err := turn.New(opt)
	if err != nil {
		return memproxy.Request{}, nil, err
	}
	return req, &recovery{Turn: t}, nil
}

// recovery is the turn that answers a pause. It keeps away from calls that
// somebody else is asked about: tools that need an approval by a rule of the
// agent's own.
type recovery struct {
	*turn.Turn
	asked []string
}

// Prepare implements memproxy.Turn.
func (r *recovery) Prepare() (memproxy.Request, bool) {
	q, more := r.Turn.Prepare()
	q.Header = asSDK(nil)
	return q, more
}

// Prepared implements memproxy.Turn.
func (r *recovery) Prepared(reply memproxy.Reply) error {
	doc, err := jsondoc.Parse(reply.Body, 0)
	if err == nil && doc.Root.Kind == jsondoc.Object {
		if rules := doc.Root.Get("tool_rules"); rules != nil {
			for _, rule := range rules.Elems {
				if rule.Get("type").Text() == "requires_approval" {
					r.asked = append(r.asked, rule.Get("tool_name").Text())
				}
			}
		}
	}
	return r.Turn.Prepared(reply)
}

// Waiting implements memproxy.Turn.
func (r *recovery) Waiting() []memproxy.ToolCall {
	calls := r.Turn.Waiting()
	if slices.ContainsFunc(calls, func(c memproxy.ToolCall) bool { return slices.Contains(r.asked, c.Tool) }) {
		return nil
	}
	return calls
}
