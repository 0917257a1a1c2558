package turn

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/internal/cache"
)

// pausingLoop is the type of agents that pause before they run a client tool.
const pausingLoop = "letta_v1_agent"

// Options describe the turn.
type Options struct {
	// RecoveryOnly is set for a turn that only declines the waiting calls of an earlier turn.
	RecoveryOnly bool
	// Prefix is the path prefix of the server's routes as the caller spelled it: "/v1".
	Prefix string
	// Agent and Conversation are ids; at least one is set. An agent's own conversation is
	// "". The server ignores other ids in the body.
	Agent, Conversation string
	// Body is the admitted request body.
	Body []byte
	// Memory reads a block or a passage of the agent.
	Memory func(doc *jsondoc.Doc, v *jsondoc.Value, agent string) memproxy.Memory
	// CallerCalls receives the calls of memory tools that the caller answers, by
	// CallerCallKey, and the pauses with such calls, as calls without an id.
	CallerCalls *cache.Generations[string, struct{}]
}

// CallerCallKey is the key of a call in Options.CallerCalls.
func CallerCallKey(message, call string) string { return message + "/" + call }

// Turn is one turn of an agent. It implements memproxy.Turn.
type Turn struct {
	opt    Options
	caller caller
	tools  toolset
	view   view

	agent string

	lookups  Lookups
	pause    pause // the pause to answer
	requests int

	allowed allowedCalls // the calls that the last request allowed

	out stitched
}

// caller is the request that started the turn.
type caller struct {
	root       *jsondoc.Doc
	ownAnswers []callerAnswer // the caller's own answers to a pause
}

// toolset holds the agent's tools and the client tools of the request. A shadowed tool is
// a server tool that the request lists as a client tool, so that the server pauses before
// it runs the tool.
type toolset struct {
	rules    rules
	recovers bool
	own      [][]byte // the caller's
	ownNames []string // names of own
	shadowed [][]byte
	gated    map[string]bool // attached tools that are shadowed and that the gate, not the caller, approves
	forRules map[string]bool // gated tools that are shadowed only to apply the agent's tool rules
	server   map[string]bool // attached memory tools, shadowed or not
	refused  map[string]bool // ids of calls that were refused before a person was asked
}

// pause holds the calls for which the server waits, in order.
type pause struct {
	calls     []*call
	messageID string // id of the approval request
	cancelled bool   // its run was
}

// call is one tool call of a pause.
type call struct {
	id, name, arguments string
	pieces              []byte // of its arguments, as they stream
	byGate              bool   // the gate rules on it; else the caller answers it
	inherited           bool   // an earlier turn made it, and this caller answers no call of that turn
	needsPerson         bool   // a tool rule requires a person's approval, which is missing
	ruled               bool
	op                  *memproxy.Operation // on which the gate ruled
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
		recovers: opt.RecoveryOnly, gated: map[string]bool{}, forRules: map[string]bool{}, refused: map[string]bool{}, server: map[string]bool{},
	}}
	t.out.tools, t.out.allowed = &t.tools, &t.allowed
	for _, e := range doc.Root.Get(returnTypes).List() {
		t.out.types = append(t.out.types, e.Text())
	}
	for _, e := range doc.Root.Get("client_tools").List() {
		t.tools.own, t.tools.ownNames = append(t.tools.own, doc.Raw(e)), append(t.tools.ownNames, e.Get("name").Text())
	}
	if t.agent != "" {
		requestAgent(t)
		return t, nil
	}
	requestHolder(t, Get(opt.Prefix, "", "conversations", opt.Conversation), func(doc *jsondoc.Doc) error {
		if t.agent = doc.Root.Get("agent_id").Text(); t.agent == "" {
			return errors.New("letta: the conversation has no agent")
		}
		requestAgent(t)
		return nil
	})
	return t, nil
}

// Key returns the key for running turns one at a time: the agent that the request names,
// because its conversations may share blocks, else the conversation.
func (t *Turn) Key() string { return cmp.Or(t.opt.Agent, t.opt.Conversation) }

// Agent returns the agent that runs, once it is known.
func (t *Turn) Agent() string { return t.agent }

// NextSideRequest implements memproxy.SideRequests. The memory that the last request's calls
// changed is requested as well, unless it is known.
func (t *Turn) NextSideRequest() (memproxy.Request, bool) {
	if !t.allowed.requested && len(t.allowed.calls) > 0 {
		requestResults(t)
	}
	return t.lookups.NextSideRequest()
}

// SDKVersion is the client version that side requests send. Letta answers clients
// without one in an older format.
const SDKVersion = "1.12.1"

// Get returns the side request for a path: prefix and the segments, which it escapes, because
// a caller may have chosen an id in them. It is sent with the caller's headers, if any.
func Get(prefix, query string, segments ...string) memproxy.Request {
	for _, s := range segments {
		prefix += "/" + url.PathEscape(s)
	}
	return memproxy.Request{Method: "GET", EscapedPath: prefix, Query: query, Header: memproxy.Header{"X-Stainless-Package-Version": {SDKVersion}}}
}

// ReadSideReply implements memproxy.SideRequests.
func (t *Turn) ReadSideReply(r memproxy.Reply) error {
	if r.Status == 422 && t.agent == "" { // the id of the conversation is malformed, so none has it
		r.Status = 404
	}
	return t.lookups.ReadSideReply(r)
}

// requestHolder requests the agent or its conversation. The server reports that it is missing itself
// when the turn's request is sent. A refusal for another reason says nothing about that request,
// which would run without pauses.
func requestHolder(t *Turn, q memproxy.Request, read func(*jsondoc.Doc) error) {
	t.lookups.Request(q, "the agent", func() { t.agent = "none" }, read)
}

func requestAgent(t *Turn) {
	requestHolder(t, Get(t.opt.Prefix, "include=agent.tools&include=agent.pending_approval&include=agent.managed_group", "agents", t.agent), func(doc *jsondoc.Doc) error { return readAgent(t, doc) })
}

// readAgent reads the agent with its tools and its pause. The pause of a conversation is among
// the conversation's messages.
func readAgent(t *Turn, doc *jsondoc.Doc) error {
	if err := t.tools.readAttached(doc); err != nil {
		return err
	}
	if t.opt.Conversation == "" || len(t.tools.server) == 0 {
		t.takePending(doc.Root.Get("pending_approval"))
		return nil
	}
	requestHolder(t, Get(t.opt.Prefix, newestMessages, "conversations", t.opt.Conversation, "messages"), func(doc *jsondoc.Doc) error {
		t.takePending(pauseOf(doc.Root))
		return nil
	})
	return nil
}

// newestMessages is the query for the messages of a conversation among which its pause is.
const newestMessages = "order=desc&limit=20"

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

// Groups returns the groups that an agent leads.
func Groups(agent *jsondoc.Value) (groups []*jsondoc.Value) {
	for _, name := range [...]string{"managed_group", "multi_agent_group"} { // the second is the older name
		if g := agent.Get(name); g != nil && g.Kind == jsondoc.Object {
			groups = append(groups, g)
		}
	}
	return groups
}

// Blocks returns the list of an agent's blocks, which older servers have in its memory.
func Blocks(agent *jsondoc.Value) *jsondoc.Value {
	if list := agent.Get("blocks"); list != nil && list.Kind == jsondoc.Array {
		return list
	}
	return agent.Get("memory").Get("blocks")
}

// takePending reads the pause that an earlier turn left. The gate rules on its calls if
// that turn was interrupted, or if the caller approves them now: an approval makes the
// server run its own tool, even if a client tool has the same name. If the caller sends a
// result instead, the server runs nothing.
func (t *Turn) takePending(p *jsondoc.Value) {
	if p == nil || p.Kind != jsondoc.Object {
		return
	}
	calls := callsOf(p)
	t.caller.readAnswers(calls)
	for _, c := range calls {
		if t.tools.gated[c.name] {
			t.caller.ignoreAnswer(c.id)
		}
	}
	mine, open := false, false
	answered := slices.ContainsFunc(calls, func(c *call) bool { return t.caller.answerOf(c.id) != nil })
	for _, c := range calls {
		answer := t.caller.answerOf(c.id)
		c.byGate = t.tools.gated[c.name] || t.tools.server[c.name] && answer != nil && answer.approves
		c.inherited = !answered
		c.needsPerson = answer == nil && t.tools.needsPerson(c)
		mine, open = mine || c.byGate || c.needsPerson, open || !c.byGate && !c.needsPerson && answer == nil
	}
	if !mine || open {
		return // the gate rules on no call, or the caller has yet to answer one, which the server reports
	}
	if id := p.Get("run_id").Text(); plainID(id) {
		t.lookups.Add(Get(t.opt.Prefix, "", "runs", id), t.pause.readRunStatus)
	}
	t.awaitRulings(calls, p.Get("id").Text())
}

// readRunStatus reads the status of the run that left the pause. The calls of a cancelled
// run are denied. A run that no longer exists counts as not cancelled.
func (p *pause) readRunStatus(r memproxy.Reply) error {
	doc, err := jsondoc.Parse(r.Body, 0)
	if r.Status != 200 || err != nil || doc.Root.Get("status").Text() != "cancelled" {
		return nil
	}
	p.cancelled = true
	for _, c := range p.calls {
		if c.needsPerson {
			continue // a person or the policy decides
		}
		c.ruled = true
		c.decision = memproxy.Decision{Verdict: memproxy.Deny, Reasons: []memproxy.Reason{{Detail: "the run was cancelled"}}}
	}
	return nil
}

// callerAnswer is the caller's answer to one call: an approval, a denial, or a result.
type callerAnswer struct {
	id       string
	raw      json.RawMessage // nil if an answer to all calls is given in an older form
	approves bool
	denies   bool // it is neither an approval nor a result
}

func (by *caller) answerOf(id string) *callerAnswer {
	for i := range by.ownAnswers {
		if by.ownAnswers[i].id == id {
			return &by.ownAnswers[i]
		}
	}
	return nil
}

// ignoreAnswer drops an answer of the caller's to a call that it is not asked about, unless
// the answer denies the call: a result would replace the server's, and only the gate approves.
func (by *caller) ignoreAnswer(id string) {
	by.ownAnswers = slices.DeleteFunc(by.ownAnswers, func(a callerAnswer) bool { return a.id == id && !a.denies })
}

// readAnswers records the caller's own answers. Two older forms answer all calls at once:
// an approval without a list, and one with a message id where a call id is expected.
func (by *caller) readAnswers(calls []*call) {
	all := func(approve *jsondoc.Value) {
		for _, c := range calls {
			by.addAnswer(callerAnswer{id: c.id, approves: by.root.LaxTrue(approve), denies: !by.root.LaxTrue(approve)})
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
					result := e.Get("tool_return") != nil && e.Get("type").Text() != "approval" // the type decides what it is
					by.addAnswer(callerAnswer{id: id, raw: by.root.Raw(e), approves: by.root.LaxTrue(v), denies: v != nil && !by.root.LaxTrue(v) && !result})
				}
			}
		}
		if v := m.Get("approve"); v != nil && v.Kind != jsondoc.Null {
			all(v)
		}
	}
}

// addAnswer records an answer. Servers differ in which of two answers to a call they use:
// the first is forwarded, and the call counts as approved if either approves.
func (by *caller) addAnswer(given callerAnswer) {
	if a := by.answerOf(given.id); a != nil {
		a.approves, a.denies = a.approves || given.approves, a.denies && given.denies
		return
	}
	by.ownAnswers = append(by.ownAnswers, given)
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

func callsOf(m *jsondoc.Value) (out []*call) {
	for _, v := range CallValues(m) {
		out = append(out, callOf(v))
	}
	return out
}

// CallValues returns the calls of a message, each once: the server repeats a single call in
// tool_call, the only member of an older form of message.
func CallValues(m *jsondoc.Value) []*jsondoc.Value {
	calls := slices.Clone(m.Get("tool_calls").List())
	if len(calls) == 0 {
		calls = []*jsondoc.Value{m.Get("tool_call")}
	}
	return slices.DeleteFunc(calls, func(v *jsondoc.Value) bool { return v == nil || v.Kind != jsondoc.Object })
}

func callOf(v *jsondoc.Value) *call {
	return &call{id: v.Get("tool_call_id").Text(), name: v.Get("name").Text(), arguments: v.Get("arguments").Text()}
}
