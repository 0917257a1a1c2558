package turn

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
)

// pausingLoop is the agent type that can be made to pause by naming client tools.
const pausingLoop = "letta_v1_agent"

// Options describe the turn.
type Options struct {
	// Recovers is set for a turn that only declines the waiting calls.
	Recovers bool
	// Prefix is the path prefix of the server's routes as the caller spelled it: "/v1".
	Prefix string
	// Agent and Conversation are ids; at least one is set. The server ignores other ids
	// in the body.
	Agent, Conversation string
	// Body is the admitted request body.
	Body []byte
	// Memory reads a block or a passage of the agent.
	Memory func(doc *jsondoc.Doc, v *jsondoc.Value, agent string) memproxy.Memory
}

// Turn is one turn of an agent. It implements memproxy.Turn.
type Turn struct {
	opt    Options
	caller caller
	tools  toolset
	view   view

	agent string
	known bool // the agent was fetched
	asked bool // the conversation's pause was fetched

	pause    pause // the pause to answer
	requests int

	let following // the calls that the last request allowed

	out stitched
}

// caller is the request that started the turn.
type caller struct {
	root  *jsondoc.Doc
	given []given // the caller's own answers to a pause
}

// toolset holds the agent's tools and the client tools of the request.
type toolset struct {
	rules    rules
	recovers bool
	own      []json.RawMessage // the caller's
	named    []string          // names of own
	shadowed []json.RawMessage
	gated    map[string]bool // attached tools that are shadowed and that the gate, not the caller, approves
	free     map[string]bool // gated tools that are shadowed only to apply the agent's tool rules
	server   map[string]bool // attached memory tools, shadowed or not
	refused  map[string]bool // ids of calls that were refused before a person was asked
}

// pause holds the waiting calls, in order.
type pause struct {
	calls   []*call
	request string // id of their message
	left    string // the run that left the pause, until its status was fetched
}

// call is one waiting tool call.
type call struct {
	id, name, arguments string
	pieces              []byte // of its arguments, as they stream
	mine                bool   // the gate rules on it; else the caller does
	left                bool   // an earlier turn made it, and this caller answers no call of that turn
	person              bool   // a tool rule requires a person's approval, which is missing
	ruled               bool
	decision            memproxy.Decision
	result              *toolReturn // of a search that memproxy made
}

// New returns the turn that a request to a messages route starts.
func New(opt Options) (*Turn, error) {
	doc, err := jsondoc.Parse(opt.Body, 0)
	if err != nil {
		return nil, err
	}
	t := &Turn{opt: opt, caller: caller{root: doc}, agent: opt.Agent, tools: toolset{
		recovers: opt.Recovers, gated: map[string]bool{}, free: map[string]bool{}, refused: map[string]bool{}, server: map[string]bool{},
	}}
	t.out.tools, t.out.let = &t.tools, &t.let
	for _, e := range doc.Root.Get("include_return_message_types").List() {
		t.out.types = append(t.out.types, e.Text())
	}
	for _, e := range doc.Root.Get("client_tools").List() {
		t.tools.own, t.tools.named = append(t.tools.own, doc.Raw(e)), append(t.tools.named, e.Get("name").Text())
	}
	return t, nil
}

// Key returns the agent that the request names, else its conversation. Each runs one
// turn at a time, and conversations of an agent may share blocks.
func (t *Turn) Key() string {
	if t.opt.Agent != "" {
		return t.opt.Agent
	}
	return t.opt.Conversation
}

// Agent returns the agent that runs, once it is known.
func (t *Turn) Agent() string { return t.agent }

// Prepare returns the next side request: for the conversation's agent; the agent with
// its tools and its pause; the conversation's messages, which hold its pause; the run
// that left the pause; the memory that the last request's calls changed, if unknown;
// and the blocks that the waiting calls write to.
func (t *Turn) Prepare() (memproxy.Request, bool) {
	if !t.let.settled && len(t.let.calls) > 0 {
		settle(t)
	}
	switch {
	case t.agent == "":
		return Get(t.opt.Prefix+"/conversations/"+t.opt.Conversation, ""), true
	case !t.known:
		return Get(t.opt.Prefix+"/agents/"+t.agent, "include=agent.tools&include=agent.pending_approval&include=agent.managed_group"), true
	case !t.asked:
		return Get(t.opt.Prefix+"/conversations/"+t.opt.Conversation+"/messages", "order=desc&limit=20"), true
	case t.pause.left != "":
		return Get(t.opt.Prefix+"/runs/"+t.pause.left, ""), true
	case len(t.view.looks) > 0:
		return t.view.looks[0].request, true
	}
	return memproxy.Request{}, false
}

// SDKVersion is the client version that side requests send. Letta answers clients
// without one in an older format.
const SDKVersion = "1.12.1"

// Get returns a side request. Those for a caller are sent with the caller's headers.
func Get(path, query string) memproxy.Request {
	return memproxy.Request{Method: "GET", EscapedPath: path, Query: query, Header: memproxy.Header{"X-Stainless-Package-Version": {SDKVersion}}}
}

// Prepared takes the reply to the request of Prepare.
func (t *Turn) Prepared(r memproxy.Reply) error {
	switch {
	case t.pause.left != "" && t.known && t.asked:
		t.pause.leftBehind(r)
		return nil
	case t.known && t.asked:
		return t.view.seen(r)
	}
	if r.Status < 200 || r.Status > 299 {
		// The server reports the missing object itself when the request is sent.
		noConversation := r.Status == 422 && t.agent == "" // a malformed id
		if r.Status == 404 || r.Status == 401 || r.Status == 403 || noConversation {
			t.agent, t.known, t.asked = "none", true, true
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
	if !t.known {
		t.known = true
		if err := t.tools.attached(doc); err != nil {
			return err
		}
		if t.asked = t.opt.Conversation == "" || t.opt.Conversation == "default" || len(t.tools.server) == 0; t.asked {
			t.pending(doc.Root.Get("pending_approval"))
		}
		return nil
	}
	t.asked = true
	t.pending(pauseOf(doc.Root))
	return nil
}

// pauseOf returns the pause at the start of a conversation's messages, newest first, or
// nil.
func pauseOf(list *jsondoc.Value) *jsondoc.Value {
	for _, m := range list.Elems {
		switch m.Get("message_type").Text() {
		case "approval_request_message":
			return m
		case "tool_call_message", // calls of the same step that need no approval
			"assistant_message", "reasoning_message", "hidden_reasoning_message": // text that the model wrote with them
		default:
			return nil
		}
	}
	return nil
}

// followed reports whether the server runs other agents with this one's memory after
// its turn. Those cannot be paused.
func followed(doc *jsondoc.Doc) bool {
	return doc.True(doc.Root.Get("enable_sleeptime")) || len(Groups(doc.Root)) > 0
}

// Groups returns the groups that an agent leads.
func Groups(agent *jsondoc.Value) (groups []*jsondoc.Value) {
	for _, name := range [...]string{"managed_group", "multi_agent_group"} { // the older name of the same
		if g := agent.Get(name); g != nil && g.Kind == jsondoc.Object {
			groups = append(groups, g)
		}
	}
	return groups
}

// shadowOf returns a server tool in the form of a client tool.
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

// pending takes the pause that an earlier turn left: calls that the gate has to rule
// on, because that turn was interrupted or because the caller approves them now. An
// approval makes the server run its own tool, even if a client tool has the same name;
// only a result from the caller does not.
func (t *Turn) pending(p *jsondoc.Value) {
	if p == nil || p.Kind != jsondoc.Object {
		return
	}
	calls := callsOf(p)
	t.caller.answers(calls)
	mine, open := false, false
	answered := slices.ContainsFunc(calls, func(c *call) bool { return t.caller.answerOf(c.id) != nil })
	for _, c := range calls {
		answer := t.caller.answerOf(c.id)
		c.mine = t.tools.gated[c.name] || t.tools.server[c.name] && answer != nil && answer.approves
		c.left = !answered
		c.person = answer == nil && t.tools.asks(c)
		mine, open = mine || c.mine || c.person, open || !c.mine && !c.person && answer == nil
	}
	if !mine || open {
		return // no call is the gate's, or the caller has yet to answer, which the server reports to it
	}
	t.wait(calls, p.Get("id").Text())
	if id := p.Get("run_id").Text(); plainID(id) {
		t.pause.left = id
	}
}

// leftBehind takes the status of the run that left the pause. The calls of a cancelled
// run are denied. A run that no longer exists counts as not cancelled.
func (p *pause) leftBehind(r memproxy.Reply) {
	p.left = ""
	doc, err := jsondoc.Parse(r.Body, 0)
	if r.Status != 200 || err != nil || doc.Root.Get("status").Text() != "cancelled" {
		return
	}
	for _, c := range p.calls {
		if c.person {
			continue // left to the person or to the policy
		}
		c.ruled = true
		c.decision = memproxy.Decision{ID: "none", Verdict: memproxy.Deny, Reasons: []memproxy.Reason{{Detail: "the run was cancelled"}}}
	}
}

// given is the caller's own answer to a waiting call.
type given struct {
	id       string
	raw      json.RawMessage
	approves bool
}

func (by *caller) answerOf(id string) *given {
	for i := range by.given {
		if by.given[i].id == id {
			return &by.given[i]
		}
	}
	return nil
}

// answers records the caller's own answers. The older forms answer all calls at once:
// an approval without a list, and one with a message id in place of a call id.
func (by *caller) answers(calls []*call) {
	all := func(approve *jsondoc.Value) {
		for _, c := range calls {
			by.give(c.id, nil, by.root.Yes(approve))
		}
	}
	for _, m := range by.root.Root.Get("messages").List() {
		if !isAnswer(m) {
			continue
		}
		for _, list := range [...]string{"approvals", "tool_returns"} {
			for _, e := range m.Get(list).List() {
				id, v := e.Get("tool_call_id").Text(), e.Get("approve")
				if v != nil && strings.HasPrefix(id, "message-") {
					all(v)
				} else {
					by.give(id, by.root.Raw(e), by.root.Yes(v))
				}
			}
		}
		if v := m.Get("approve"); v != nil && v.Kind != jsondoc.Null {
			all(v)
		}
	}
}

// give records an answer. If a call has two, the first is forwarded, and either may
// approve: servers differ in which one they use.
func (by *caller) give(id string, raw json.RawMessage, approves bool) {
	if a := by.answerOf(id); a != nil {
		a.approves = a.approves || approves
		return
	}
	by.given = append(by.given, given{id, raw, approves})
}

// isAnswer reports whether a message answers a pause, in any form that the server
// accepts.
func isAnswer(m *jsondoc.Value) bool {
	switch m.Get("type").Text() {
	case "approval", "tool_return":
		return true
	}
	return slices.ContainsFunc([]string{"approvals", "tool_returns", "approve", "approval_request_id"}, func(name string) bool { return m.Get(name) != nil })
}

// callsOf returns the calls of an approval request.
func callsOf(m *jsondoc.Value) []*call {
	calls := []*jsondoc.Value{m.Get("tool_call")}
	if list := m.Get("tool_calls"); list != nil && list.Kind == jsondoc.Array {
		calls = list.Elems
	}
	var out []*call
	for _, v := range calls {
		if v != nil && v.Kind == jsondoc.Object {
			out = append(out, callOf(v))
		}
	}
	return out
}

func callOf(v *jsondoc.Value) *call {
	return &call{id: v.Get("tool_call_id").Text(), name: v.Get("name").Text(), arguments: v.Get("arguments").Text()}
}
