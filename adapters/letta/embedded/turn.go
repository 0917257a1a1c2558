package embedded

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

type toolCall struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
	ID        string `json:"tool_call_id"`
}

type toolReturn struct {
	Type   string `json:"type"`
	Return string `json:"tool_return"`
	Status string `json:"status"`
	ID     string `json:"tool_call_id"`
}

// message is one message of an answer, with the members that tests need.
type message struct {
	ID          string       `json:"id"`
	Date        string       `json:"date"`
	Name        *string      `json:"name"`
	Type        string       `json:"message_type"`
	RunID       string       `json:"run_id"`
	Seq         *int         `json:"seq_id"`
	ToolCall    *toolCall    `json:"tool_call,omitempty"`
	ToolCalls   []toolCall   `json:"tool_calls,omitempty"`
	ToolReturn  string       `json:"tool_return,omitempty"`
	Status      string       `json:"status,omitempty"`
	ToolReturns []toolReturn `json:"tool_returns,omitempty"`
	Content     string       `json:"content,omitempty"`

	ran bool // at least one of its calls was run
}

// request is the body of a messages route.
type request struct {
	Input    json.RawMessage `json:"input"`
	Messages []struct {
		Type      string          `json:"type"`
		Role      string          `json:"role"`
		Content   json.RawMessage `json:"content"`
		Approvals []struct {
			Type    string `json:"type"`
			ID      string `json:"tool_call_id"`
			Approve bool   `json:"approve"`
			Reason  string `json:"reason"`
			Return  string `json:"tool_return"`
			Status  string `json:"status"`
		} `json:"approvals"`
	} `json:"messages"`
	Agent       string   `json:"agent_id"` // of the conversation "default"
	ClientTools []named  `json:"client_tools"`
	Types       []string `json:"include_return_message_types"`
	Streaming   *bool    `json:"streaming"`
	Steps       int      `json:"max_steps"`
	Tokens      bool     `json:"stream_tokens"`
	Back        bool     `json:"background"`
}

type named struct {
	Name string `json:"name"`
}

// step is one step of the model.
type step struct {
	calls []toolCall
	say   string
}

// scriptOf parses the directives in the user's message.
func scriptOf(text string) []step {
	steps := []step{{}}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		last := &steps[len(steps)-1]
		switch verb, rest, _ := strings.Cut(line, " "); verb {
		case "CALL":
			name, args, _ := strings.Cut(rest, " ")
			last.calls = append(last.calls, toolCall{Name: name, Arguments: args})
		case "THEN":
			steps = append(steps, step{})
		case "SAY":
			last.say = rest
		default:
			last.say = "You said: " + line
		}
	}
	return steps
}

func textOf(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	var parts []struct {
		Text string `json:"text"`
	}
	_ = json.Unmarshal(raw, &parts) // without parts the text is empty
	var all []string
	for _, p := range parts {
		all = append(all, p.Text)
	}
	return strings.Join(all, "\n")
}

// answer is the answer to one request while it is being built.
type answer struct {
	b        *Backend
	a        *agent
	q        *request
	run      string
	in       string // conversation id, or "" for the agent's own
	messages []message
	stop     string
	steps    int
	seq      int // number of the last event of a background run
	begun    time.Time
	going    bool
	aside    string   // the user's message to the agents of the group
	follows  []string // runs of the agents of the group
}

// pausing is the type of agents that pause before they run a client tool.
const pausing = "letta_v1_agent"

func (b *Backend) send(w http.ResponseWriter, r *http.Request) {
	var q request
	if read(w, r, &q) {
		b.run(w, &q, r.PathValue("id"), "", strings.HasSuffix(r.URL.Path, "/stream") || q.Streaming != nil && *q.Streaming)
	}
}

// run runs an agent in a conversation, or in its own.
func (b *Backend) run(w http.ResponseWriter, q *request, agent, conv string, streams bool) {
	b.mu.Lock()
	a := b.agents[agent]
	if a == nil {
		b.mu.Unlock()
		refuse(w, http.StatusNotFound, "Agent not found")
		return
	}
	l := &answer{b: b, a: a, q: q, run: b.id("run"), in: conv}
	status, detail := l.process()
	b.runs.keep(l)
	if status == 0 {
		l.follow()
	}
	b.mu.Unlock()
	switch {
	case status != 0:
		refuse(w, status, detail)
	case streams:
		l.stream(w)
	default:
		reply(w, http.StatusOK, l.whole())
	}
}

// process processes the request. It returns an error status, or 0.
func (l *answer) process() (status int, detail string) {
	said := ""
	if l.q.Input != nil {
		said = textOf(l.q.Input)
	}
	for _, m := range l.q.Messages {
		if m.Approvals == nil {
			said = textOf(m.Content)
			continue
		}
		if l.a.Pending == nil {
			return http.StatusBadRequest, "Cannot process approval response: No tool call is currently awaiting approval."
		}
		answered := map[string]toolReturn{}
		for _, ap := range m.Approvals {
			switch {
			case ap.Type == "tool":
				answered[ap.ID] = toolReturn{"tool", ap.Return, ap.Status, ap.ID}
			case !ap.Approve:
				answered[ap.ID] = toolReturn{"tool", "Error: request to call tool denied. User reason: " + ap.Reason, "error", ap.ID}
			default:
				answered[ap.ID] = toolReturn{ID: ap.ID}
			}
		}
		if len(answered) != len(l.a.Pending.ToolCalls) || slices.ContainsFunc(l.a.Pending.ToolCalls, func(c toolCall) bool { _, ok := answered[c.ID]; return !ok }) {
			return http.StatusBadRequest, "Invalid tool call IDs."
		}
		calls := append(l.a.Pending.ToolCalls, l.a.held...)
		l.a.Pending, l.a.held = nil, nil
		if l.returned(calls, answered); l.q.Steps == 1 {
			l.stop = "max_steps"
			return 0, ""
		}
	}
	if said != "" {
		if l.a.Pending != nil {
			return http.StatusConflict, "Cannot send a new message: The agent is waiting for approval on a tool call."
		}
		said, l.aside = aside(said)
		l.a.script = scriptOf(said)
	}
	l.proceed()
	return 0, ""
}

// proceed runs the model until it pauses or ends.
func (l *answer) proceed() {
	for len(l.a.script) > 0 {
		s := l.a.script[0]
		l.a.script = l.a.script[1:]
		l.steps++
		if len(s.calls) == 0 {
			l.add(message{Type: "assistant_message", Content: s.say})
			continue
		}
		var wait, run []toolCall
		for _, c := range s.calls {
			c.ID = l.b.id("call")
			if l.a.Type == pausing && slices.Contains(l.q.ClientTools, named{c.Name}) {
				wait = append(wait, c)
			} else {
				run = append(run, c)
			}
		}
		if len(run) > 0 {
			l.add(message{Type: "tool_call_message", ToolCall: &run[0], ToolCalls: run})
		}
		if len(wait) > 0 {
			l.add(message{Type: "approval_request_message", ToolCall: &wait[0], ToolCalls: wait})
			pending := l.messages[len(l.messages)-1]
			l.a.Pending, l.a.held, l.stop = &pending, run, "requires_approval"
			return
		}
		l.returned(run, nil)
	}
	l.stop = "end_turn"
}

func (l *answer) add(m message) {
	m.ID, m.RunID, m.Date = l.b.id("message"), l.run, time.Unix(0, 0).UTC().Format(time.RFC3339)
	l.messages = append(l.messages, m)
}

// returned runs the approved calls and adds the results: first those that the caller
// supplied, as the server does.
func (l *answer) returned(calls []toolCall, answered map[string]toolReturn) {
	var rs []toolReturn
	for _, c := range calls {
		if r := answered[c.ID]; r.Type != "" {
			rs = append(rs, r)
		}
	}
	for _, c := range calls {
		if answered[c.ID].Type != "" {
			continue
		}
		text, err := l.call(c)
		if err != nil {
			rs = append(rs, toolReturn{"tool", "Error executing function " + c.Name + ": " + err.Error(), "error", c.ID})
			continue
		}
		rs = append(rs, toolReturn{"tool", text, "success", c.ID})
	}
	ran := slices.ContainsFunc(calls, func(c toolCall) bool { return answered[c.ID].Type == "" })
	l.add(message{Type: "tool_return_message", ran: ran, Name: &calls[0].Name, ToolReturn: rs[0].Return, Status: rs[0].Status, ToolReturns: rs})
}

func (l *answer) call(c toolCall) (string, error) {
	a := l.a
	var args map[string]string
	if err := json.Unmarshal([]byte(c.Arguments), &args); err != nil {
		return "", err
	}
	switch c.Name {
	case "archival_memory_search":
		b, err := json.Marshal(a.search(args["query"]))
		return string(b), err
	case "archival_memory_insert":
		l.b.insert(a, passage{Text: args["content"]})
		return "ok", nil
	case "memory":
		return "ok", l.b.blocks.memory(a, args)
	case "fetch_webpage":
		return l.b.Pages[args["url"]], nil
	case "echo": // a custom tool
		return args["text"], nil
	case "run_code": // without every plus, so that the result differs from every message
		return strings.ReplaceAll(args["code"], "+", ""), nil
	}
	i := a.at(args["label"])
	if i < 0 {
		return "", fmt.Errorf("block field %s does not exist", args["label"])
	}
	b := a.Blocks[i]
	switch c.Name {
	case "memory_insert", "core_memory_append":
		b.Value = strings.TrimPrefix(b.Value+"\n"+args["new_string"]+args["content"], "\n")
	case "memory_replace", "core_memory_replace":
		from := args["old_string"] + args["old_content"]
		if !strings.Contains(b.Value, from) {
			return "", fmt.Errorf("old string %q not found in memory block", from)
		}
		b.Value = strings.Replace(b.Value, from, args["new_string"]+args["new_content"], 1)
	case "memory_rethink":
		b.Value = args["new_memory"]
	default:
		return "", fmt.Errorf("no tool %s", c.Name)
	}
	return b.Value, nil
}
