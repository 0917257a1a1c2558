package letta

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/letta/turn"
)

// pausedLists are the lists of runs in which pauses are found: those that ended
// in one, and those of conversations that were answered in one piece. The
// server forgets to end these, and to say in which conversation they were.
var pausedLists = [...]string{"stop_reason=requires_approval", "statuses=created"}

// Paused implements the gate's recoverer. The server pages runs the other way
// round than its other lists, and than it says: in descending order "before" a
// run are the older ones (letta/services/helpers/run_manager_helper.py of
// 0.16.8).
func (a *Adapter) Paused(list int, after string) (memproxy.Request, bool) {
	if list >= len(pausedLists) {
		return memproxy.Request{}, false
	}
	q := memproxy.Request{Method: "GET", EscapedPath: "/v1/runs/", Query: pausedLists[list] + "&order=desc&limit=200", Header: asSDK(nil)}
	if after != "" {
		q.Query += "&before=" + url.QueryEscape(after)
	}
	return q, true
}

// Pauses implements the gate's recoverer.
func (a *Adapter) Pauses(list int, reply memproxy.Reply) ([]memproxy.Pause, error) {
	if reply.Status != 200 {
		return nil, fmt.Errorf("letta: asked for paused runs, the server answers %d", reply.Status)
	}
	var runs []struct {
		ID           string  `json:"id"`
		Agent        string  `json:"agent_id"`
		Conversation *string `json:"conversation_id"`
		Status       string  `json:"status"`
		Stop         string  `json:"stop_reason"`
		Completed    string  `json:"completed_at"`
		Created      string  `json:"created_at"`
		Metadata     struct {
			Type string `json:"run_type"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(reply.Body, &runs); err != nil {
		return nil, err
	}
	var out []memproxy.Pause
	for _, r := range runs {
		p := memproxy.Pause{Run: r.ID, Agent: r.Agent, Since: timeOf(r.Completed)}
		if p.Since.IsZero() {
			p.Since = timeOf(r.Created)
		}
		if r.Conversation != nil {
			p.Conversation = *r.Conversation
		}
		// What a server that does not know the filter lists besides is none.
		switch list {
		case 0:
			p.Open = r.Stop == "requires_approval" && r.Status == "completed" && KindOf(r.Agent) == TargetAgent
		default:
			p.Open = r.Status == "created" && r.Metadata.Type == "send_conversation_message" && KindOf(r.Agent) == TargetAgent
			p.Lost = p.Conversation == ""
		}
		out = append(out, p)
	}
	return out, nil
}

// Places implements the gate's recoverer: the agent's conversations, those that
// were spoken in last first.
func (a *Adapter) Places(p memproxy.Pause) memproxy.Request {
	return memproxy.Request{
		Method: "GET", EscapedPath: "/v1/conversations/", Header: asSDK(nil),
		Query: "order=desc&order_by=last_message_at&limit=100&agent_id=" + url.QueryEscape(p.Agent),
	}
}

// spoken is by how much a conversation's time may lie before that of the run in
// it: the server takes it down first.
const spoken = time.Minute

// Placed implements the gate's recoverer.
func (a *Adapter) Placed(p memproxy.Pause, reply memproxy.Reply) ([]memproxy.Pause, error) {
	if reply.Status == 404 {
		return nil, nil // the agent is gone
	}
	if reply.Status != 200 {
		return nil, fmt.Errorf("letta: asked for conversations, the server answers %d", reply.Status)
	}
	var list []struct {
		ID    string `json:"id"`
		Agent string `json:"agent_id"`
		Last  string `json:"last_message_at"`
	}
	if err := json.Unmarshal(reply.Body, &list); err != nil {
		return nil, err
	}
	var out []memproxy.Pause
	for _, c := range list {
		last := timeOf(c.Last)
		if c.Agent != p.Agent || KindOf(c.ID) != TargetConversation || !last.IsZero() && last.Before(p.Since.Add(-spoken)) {
			continue // nothing was said there since the run began
		}
		out = append(out, memproxy.Pause{Run: p.Run, Agent: p.Agent, Conversation: c.ID, Since: p.Since, Open: true})
	}
	return out, nil
}

// timeOf reads the server's times: some say no zone, and are in UTC.
func timeOf(s string) time.Time {
	for _, layout := range [...]string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999"} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UTC()
		}
	}
	return time.Time{}
}

// Recover implements the gate's recoverer.
func (a *Adapter) Recover(p memproxy.Pause) (memproxy.Request, memproxy.Recovery, error) {
	req := memproxy.Request{Method: "POST", Header: asSDK(nil), EscapedPath: "/v1/agents/" + url.PathEscape(p.Agent) + "/messages"}
	opt := turn.Options{Prefix: "/v1", Agent: p.Agent, Body: []byte(`{"messages":[],"streaming":false}`), Recovers: true}
	if p.Conversation != "" {
		req.EscapedPath = "/v1/conversations/" + url.PathEscape(p.Conversation) + "/messages"
		opt.Agent, opt.Conversation = "", p.Conversation
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
	since time.Time
}

// Since implements memproxy.Recovery.
func (r *recovery) Since() time.Time { return r.since }

// Prepare implements memproxy.Turn.
func (r *recovery) Prepare() (memproxy.Request, bool) {
	q, more := r.Turn.Prepare()
	q.Header = asSDK(nil)
	return q, more
}

// Prepared implements memproxy.Turn.
func (r *recovery) Prepared(reply memproxy.Reply) error {
	doc, err := jsondoc.Parse(reply.Body, 0)
	switch {
	case err != nil:
	case doc.Root.Kind == jsondoc.Array && len(doc.Root.Elems) > 0: // the conversation's newest messages
		r.since = timeOf(doc.Root.Elems[0].Get("date").Text())
	case doc.Root.Get("pending_approval") != nil:
		r.since = timeOf(doc.Root.Get("pending_approval").Get("date").Text())
	}
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
