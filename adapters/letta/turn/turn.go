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

// The loop that can be made to pause by naming client tools.
const pausingLoop = "letta_v1_agent"

// Options say what runs.
type Options struct {
	// Recovers is set for a turn that declines what waits: nothing is let
	// through in it.
	Recovers bool
	// Prefix is the path under which the server's routes stand as the caller
	// spelled it: "/v1".
	Prefix string
	// Agent and Conversation are the ids of where it runs; one of them is set, or
	// both. What else the body says is no place: the server passes over it.
	Agent, Conversation string
	// Body is the request as admitted.
	Body []byte
	// Memory reads a block or a passage of the agent's.
	Memory func(doc *jsondoc.Doc, v *jsondoc.Value, agent string) memproxy.Memory
}

// Turn is one turn of an agent. It implements memproxy.Turn.
type Turn struct {
	opt    Options
	caller caller
	tools  toolset
	view   view

	agent string
	known bool // the agent was asked for
	asked bool // the conversation was asked what it waits for

	pause    pause // that is to be answered
	requests int

	let following // the calls of the last request

	out stitched
}

// caller is the request that started the turn.
type caller struct {
	root  *jsondoc.Doc
	given []given // the caller's own answers to a pause
}

// toolset are the tools of the agent, and those that are named to it.
type toolset struct {
	memory   map[string]memoryTool
	rules    rules
	recovers bool
	own      []json.RawMessage // the caller's
	named    []string          // the names of those
	shadowed []json.RawMessage
	gated    map[string]bool // attached tools that are shadowed, and not the caller's to approve
	free     map[string]bool // those of them that are shadowed for the agent's tool rules alone
	server   map[string]bool // attached memory tools, shadowed or not
	refused  map[string]bool // calls that a person would have been asked about, by id
}

// pause are the calls that wait, in order.
type pause struct {
	calls   []*call
	request string // id of their message
	left    string // the run that left the pause behind, until it was asked about
}

// call is one tool call that waits.
type call struct {
	id, name, arguments string
	pieces              []byte // of its arguments, as they come
	mine                bool   // the gate rules on it; else it is the caller's
	person              bool   // a rule of the agent's has a person approve it, and nobody has
	ruled               bool
	decision            memproxy.Decision
	result              *toolReturn // of a search that the gate made
}

// New returns the turn that a request to a messages route starts.
func New(opt Options) (*Turn, error) {
	doc, err := jsondoc.Parse(opt.Body, 0)
	if err != nil {
		return nil, err
	}
	t := &Turn{opt: opt, caller: caller{root: doc}, agent: opt.Agent, tools: toolset{
		memory: memoryTools(), recovers: opt.Recovers, gated: map[string]bool{}, free: map[string]bool{}, refused: map[string]bool{}, server: map[string]bool{},
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

// Key names what runs: an agent has one turn at a time, and so has each of its
// conversations, whose blocks may be the same. So it is the agent, once known.
func (t *Turn) Key() string {
	if t.opt.Agent != "" {
		return t.opt.Agent
	}
	return t.opt.Conversation
}

// Agent is the agent that runs, once it is known.
func (t *Turn) Agent() string { return t.agent }

// Prepare asks for the conversation's agent, then for the agent with its tools
// and what it waits for; what a conversation waits for stands in its messages.
// Last come the run that left a pause behind, what the calls of the last request made
// where that is not known, and the blocks that the calls write to that wait.
func (t *Turn) Prepare() (memproxy.Request, bool) {
	if !t.let.settled && len(t.let.calls) > 0 {
		settle(t)
	}
	switch {
	case t.agent == "":
		return get(t.opt.Prefix+"/conversations/"+t.opt.Conversation, ""), true
	case !t.known:
		return get(t.opt.Prefix+"/agents/"+t.agent, "include=agent.tools&include=agent.pending_approval&include=agent.managed_group"), true
	case !t.asked:
		return get(t.opt.Prefix+"/conversations/"+t.opt.Conversation+"/messages", "order=desc&limit=20"), true
	case t.pause.left != "":
		return get(t.opt.Prefix+"/runs/"+t.pause.left, ""), true
	case len(t.view.looks) > 0:
		return t.view.looks[0].request, true
	}
	return memproxy.Request{}, false
}

func get(path, query string) memproxy.Request {
	return memproxy.Request{Method: "GET", EscapedPath: path, Query: query}
}

// Prepared takes the answer to Prepare.
func (t *Turn) Prepared(r memproxy.Reply) error {
	switch {
	case t.pause.left != "" && t.known && t.asked:
		t.pause.leftBehind(r)
		return nil
	case t.known && t.asked:
		return t.view.seen(r)
	}
	if r.Status < 200 || r.Status > 299 {
		// The server says itself that there is none, in its own words.
		noConversation := r.Status == 422 && t.agent == "" // an id that cannot be one
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

// pauseOf is the pause that a conversation's messages, the newest first, begin with, or nil.
func pauseOf(list *jsondoc.Value) *jsondoc.Value {
	for _, m := range list.Elems {
		switch m.Get("message_type").Text() {
		case "approval_request_message":
			return m
		case "tool_call_message", // calls of the same step that need no approval
			"assistant_message", "reasoning_message", "hidden_reasoning_message": // what the model said with them
		default:
			return nil
		}
	}
	return nil
}

// followed reports whether other agents run in the server after this one's
// turn, with its memory in their hands: nothing can pause those.
func followed(doc *jsondoc.Doc) bool {
	if doc.True(doc.Root.Get("enable_sleeptime")) {
		return true
	}
	for _, name := range [...]string{"managed_group", "multi_agent_group"} { // the older name of the same
		if group := doc.Root.Get(name); group != nil && group.Kind == jsondoc.Object {
			return true
		}
	}
	return false
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

// pending takes what the agent waits for since an earlier turn: calls that the
// gate has to rule on, because that turn broke off, or because the caller
// approves them now. An approval makes the server run its own tool, whoever
// named it as a client tool; only a result of the caller's own does not.
func (t *Turn) pending(p *jsondoc.Value) {
	if p == nil || p.Kind != jsondoc.Object {
		return
	}
	calls := callsOf(p)
	t.caller.answers(calls)
	mine, open := false, false
	for _, c := range calls {
		answer := t.caller.answerOf(c.id)
		c.mine = t.tools.gated[c.name] || t.tools.server[c.name] && answer != nil && answer.approves
		c.person = answer == nil && t.tools.asks(c)
		mine, open = mine || c.mine || c.person, open || !c.mine && !c.person && answer == nil
	}
	if !mine || open {
		return // nothing of the gate's, or the caller has yet to say its part, which the server tells it
	}
	t.wait(calls, p.Get("id").Text())
	if id := p.Get("run_id").Text(); plainID(id) {
		t.pause.left = id
	}
}

// leftBehind takes the answer about the run that left a pause behind. What a
// cancelled run was about to write is not written. A run that nobody knows
// any more was not cancelled, for all that is known.
func (p *pause) leftBehind(r memproxy.Reply) {
	p.left = ""
	doc, err := jsondoc.Parse(r.Body, 0)
	if r.Status != 200 || err != nil || doc.Root.Get("status").Text() != "cancelled" {
		return
	}
	for _, c := range p.calls {
		if c.person {
			continue // it is the person's, or the policy's
		}
		c.ruled = true
		c.decision = memproxy.Decision{ID: "none", Verdict: memproxy.Deny, Reasons: []memproxy.Reason{{Detail: "the run was cancelled"}}}
	}
}

// given is one answer of the caller's to a call that waits.
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

// answers records the caller's own answers. The older forms speak of all calls at
// once: an approval without a list, and one of the message in a call's place.
func (by *caller) answers(calls []*call) {
	for _, m := range by.root.Root.Get("messages").List() {
		if !isAnswer(m) {
			continue
		}
		for _, list := range [...]string{"approvals", "tool_returns"} {
			for _, e := range m.Get(list).List() {
				id, v := e.Get("tool_call_id").Text(), e.Get("approve")
				if v == nil || !strings.HasPrefix(id, "message-") {
					by.give(id, by.root.Raw(e), by.root.Yes(v))
					continue
				}
				for _, c := range calls {
					by.give(c.id, nil, by.root.Yes(v))
				}
			}
		}
		if v := m.Get("approve"); v != nil && v.Kind != jsondoc.Null {
			for _, c := range calls {
				by.give(c.id, nil, by.root.Yes(v))
			}
		}
	}
}

// give notes an answer. Of two to one call the first is the one that is sent
// on, and either may approve: servers differ in which they take.
func (by *caller) give(id string, raw json.RawMessage, approves bool) {
	if a := by.answerOf(id); a != nil {
		a.approves = a.approves || approves
		return
	}
	by.given = append(by.given, given{id, raw, approves})
}

// isAnswer reports whether a message answers a pause, in any of the forms that
// the server takes for one.
func isAnswer(m *jsondoc.Value) bool {
	switch m.Get("type").Text() {
	case "approval", "tool_return":
		return true
	}
	return slices.ContainsFunc([]string{"approvals", "tool_returns", "approve", "approval_request_id"}, func(name string) bool { return m.Get(name) != nil })
}

// callsOf are the calls of an approval request.
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
