package turn

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
)

// The loop that can be made to pause by naming client tools.
const pausingLoop = "letta_v1_agent"

// Options say what runs.
type Options struct {
	// Prefix is the path under which the server's routes stand as the caller
	// spelled it: "/v1".
	Prefix string
	// Agent and Conversation are the ids of the path; one of them is set, or
	// both.
	Agent, Conversation string
	// Body is the request as admitted.
	Body []byte
}

// Turn is one turn of an agent. It implements memproxy.Turn.
type Turn struct {
	opt   Options
	tools map[string]memoryTool
	root  *jsondoc.Doc

	agent    string
	known    bool // the agent was asked for
	shadowed []json.RawMessage
	gated    map[string]bool // attached tools that are gated
	own      []json.RawMessage
	types    []string // include_return_message_types, or nil

	calls   []*call // of the pause that is to be answered, in order
	request string  // id of its message
	legs    int

	out   stitched
	given []json.RawMessage // the caller's own answers to a pause
}

// call is one tool call that waits.
type call struct {
	id, name, arguments string
	mine                bool // the gate rules on it; else it is the caller's
	ruled               bool
	decision            memproxy.Decision
}

// New returns the turn that a request to a messages route starts.
func New(opt Options) (*Turn, error) {
	doc, err := jsondoc.Parse(opt.Body, 0)
	if err != nil {
		return nil, err
	}
	t := &Turn{opt: opt, tools: memoryTools(), root: doc, gated: map[string]bool{}, agent: opt.Agent}
	if t.agent == "" {
		t.agent = doc.Root.Get("agent_id").Text()
	}
	if v := doc.Root.Get("include_return_message_types"); v != nil {
		for _, e := range v.Elems {
			t.types = append(t.types, e.Text())
		}
	}
	if v := doc.Root.Get("client_tools"); v != nil {
		for _, e := range v.Elems {
			t.own = append(t.own, doc.Raw(e))
		}
	}
	return t, nil
}

// Key names what runs: an agent has one turn at a time, and so has each of its
// conversations, whose blocks may be the same. So it is the agent, once known.
func (t *Turn) Key() string {
	if t.opt.Agent != "" {
		return t.opt.Agent
	}
	return t.opt.Conversation
}

// Prepare asks for the conversation's agent, then for the agent with its tools
// and what it waits for.
func (t *Turn) Prepare() (memproxy.Request, bool) {
	switch {
	case t.known:
		return memproxy.Request{}, false
	case t.agent == "":
		return get(t.opt.Prefix+"/conversations/"+t.opt.Conversation, ""), true
	}
	return get(t.opt.Prefix+"/agents/"+t.agent, "include=agent.tools&include=agent.pending_approval"), true
}

func get(path, query string) memproxy.Request {
	return memproxy.Request{Method: "GET", EscapedPath: path, Query: query}
}

// Prepared takes the answer to Prepare.
func (t *Turn) Prepared(r memproxy.Reply) error {
	if r.Status < 200 || r.Status > 299 {
		// The server says itself that there is none, in its own words.
		if r.Status == 404 || r.Status == 401 || r.Status == 403 {
			t.known = true
			return nil
		}
		return fmt.Errorf("letta: asked for the agent, the server answers %d", r.Status)
	}
	doc, err := jsondoc.Parse(r.Body, 0)
	if err != nil {
		return err
	}
	if t.agent == "" {
		if t.agent = doc.Root.Get("agent_id").Text(); t.agent == "" {
			return errors.New("letta: a conversation without an agent")
		}
		return nil
	}
	return t.attached(doc)
}

// attached takes down which of the agent's tools are to be gated.
func (t *Turn) attached(doc *jsondoc.Doc) error {
	t.known = true
	tools := doc.Root.Get("tools")
	if tools == nil || tools.Kind != jsondoc.Array {
		return errors.New("letta: an agent without its tools")
	}
	for _, tool := range tools.Elems {
		name := tool.Get("name").Text()
		if _, gated := t.tools[name]; !gated || slices.ContainsFunc(t.own, func(raw json.RawMessage) bool { return nameOf(raw) == name }) {
			continue // a client tool of the caller's own takes the server's place
		}
		shadow, err := shadowOf(doc, tool, name)
		if err != nil {
			return err
		}
		t.gated[name] = true
		t.shadowed = append(t.shadowed, shadow)
	}
	if len(t.gated) > 0 && doc.Root.Get("agent_type").Text() != pausingLoop {
		return memproxy.ErrUngated
	}
	t.pending(doc)
	return nil
}

// shadowOf is a server tool in the form of a client tool.
func shadowOf(doc *jsondoc.Doc, tool *jsondoc.Value, name string) (json.RawMessage, error) {
	shadow := struct {
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		Parameters  json.RawMessage `json:"parameters,omitempty"`
	}{Name: name, Description: tool.Get("description").Text()}
	schema := tool.Get("json_schema")
	if d := schema.Get("description"); d.Text() != "" {
		shadow.Description = d.Text()
	}
	if p := schema.Get("parameters"); p != nil && p.Kind == jsondoc.Object {
		shadow.Parameters = doc.Raw(p)
	}
	return json.Marshal(shadow)
}

func nameOf(raw json.RawMessage) string {
	var named struct {
		Name string `json:"name"`
	}
	_ = json.Unmarshal(raw, &named) // the server says what is wrong with it
	return named.Name
}

// pending finds what the agent waits for since an earlier turn: calls that the
// caller answers now together with calls that are the gate's to answer, or
// calls that nobody answered because that turn broke off.
func (t *Turn) pending(doc *jsondoc.Doc) {
	p := doc.Root.Get("pending_approval")
	if p == nil || p.Kind != jsondoc.Object {
		return
	}
	calls := callsOf(p)
	mine := false
	for _, c := range calls {
		c.mine = t.gated[c.name]
		mine = mine || c.mine
	}
	if !mine {
		return
	}
	given := t.answers()
	for _, c := range calls {
		if !c.mine && !given[c.id] {
			return // the caller has yet to say its part; the server tells it so
		}
	}
	t.calls, t.request = calls, p.Get("id").Text()
}

// answers are the calls that the caller's own approvals answer, which it also
// keeps.
func (t *Turn) answers() map[string]bool {
	given := map[string]bool{}
	messages := t.root.Root.Get("messages")
	if messages == nil {
		return given
	}
	for _, m := range messages.Elems {
		for _, list := range [...]string{"approvals", "tool_returns"} {
			v := m.Get(list)
			if v == nil {
				continue
			}
			for _, e := range v.Elems {
				if id := e.Get("tool_call_id").Text(); id != "" {
					given[id] = true
					t.given = append(t.given, t.root.Raw(e))
				}
			}
		}
	}
	return given
}

// callsOf are the calls of an approval request.
func callsOf(m *jsondoc.Value) []*call {
	var out []*call
	one := func(v *jsondoc.Value) {
		if v != nil && v.Kind == jsondoc.Object {
			out = append(out, &call{id: v.Get("tool_call_id").Text(), name: v.Get("name").Text(), arguments: v.Get("arguments").Text()})
		}
	}
	if list := m.Get("tool_calls"); list != nil && list.Kind == jsondoc.Array {
		for _, v := range list.Elems {
			one(v)
		}
		return out
	}
	one(m.Get("tool_call"))
	return out
}
