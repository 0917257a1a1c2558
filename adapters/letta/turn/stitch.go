package turn

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"

	"github.com/memproxy/memproxy/adapters/jsondoc"
)

// stitched combines the answers of the turn's requests into one.
type stitched struct {
	tools   *toolset
	allowed *allowedCalls
	types   []string // include_return_message_types, or nil

	last           *jsondoc.Doc // the last JSON answer
	messages       [][]byte
	usage          []RunValue // of each request
	steps          int64      // of all requests, by their usage
	requests       int
	stopEvent      []byte            // the last stop_reason event
	usageEvent     *jsondoc.Doc      // the data of the last usage event
	done           bool              // [DONE] was received
	missingReturns []toolReturn      // results that the server may omit
	names          map[string]string // of the calls that memproxy answered, by their ids
	partial        map[string]*call
	order          []*call // of partial
	request        string
	pieces         bool       // the pause arrived in fragments
	heldBytes      int        // buffered bytes of a streaming pause
	held           []heldPart // held back parts of a pause

	runIDs   []string // ids of the requests' runs
	seq      int64    // number of the last event shown
	numbered bool     // the last event had a number
	shift    int64    // offset of this request's event numbers
	started  bool     // this request's first numbered event was received

	refusable bool // this request answers a pause, and nothing of its answer was received
}

// addUsage keeps a request's usage.
func (s *stitched) addUsage(usage *jsondoc.Doc) {
	s.usage = append(s.usage, RunValue{usage, usage.Root})
	n, _ := usage.Int(usage.Root.Get("step_count"))
	s.steps += n
}

// RunValue is a value in an answer about one of the runs of a turn.
type RunValue struct {
	Doc   *jsondoc.Doc
	Value *jsondoc.Value
}

// Sum replaces numbers in one run's value by the sums over all runs, in objects member by
// member, and joins lists without duplicates. Other values, and the time at which a run
// started, stay. The size of the context and the number of an event are the last run's.
func Sum(e *jsondoc.Edits, into *jsondoc.Value, all []RunValue) {
	if len(all) == 0 {
		return
	}
	switch into.Kind {
	case jsondoc.Null: // the first value that a run has is the base
		doc := all[0].Doc.Part(all[0].Value)
		if doc.Root.Kind == jsondoc.Null {
			return
		}
		sub := doc.Edit()
		Sum(sub, doc.Root, all)
		e.Replace(into, sub.Apply())
	case jsondoc.Number:
		var n int64
		for _, r := range all {
			i, whole := r.Doc.Int(r.Value)
			if !whole {
				return // not an integer: the number stays
			}
			n += i
		}
		e.Replace(into, strconv.AppendInt(nil, n, 10))
	case jsondoc.Array: // such as the list of used tools
		var each [][]byte
		for _, r := range all {
			for _, v := range r.Value.Elems {
				if raw := r.Doc.Raw(v); !slices.ContainsFunc(each, func(b []byte) bool { return bytes.Equal(b, raw) }) {
					each = append(each, raw)
				}
			}
		}
		e.Replace(into, jsondoc.ListOf(each))
	case jsondoc.Object:
		for _, m := range into.Members {
			var of []RunValue
			for _, r := range all {
				if v := r.Value.Get(m.Name); v != nil && v.Kind != jsondoc.Null {
					of = append(of, RunValue{r.Doc, v})
				}
			}
			switch m.Name {
			case "run_start_ns":
				continue
			case "context_tokens", "seq_id":
				of = of[max(0, len(of)-1):]
			}
			Sum(e, m.Value, of)
		}
	}
}

// ReadAnswer reads the JSON answer of a request.
func (t *Turn) ReadAnswer(body []byte) error {
	doc, err := jsondoc.Parse(body, 0)
	if err != nil {
		return err
	}
	doc = t.tools.rules.fixStopReason(doc, doc.Root.Get("stop_reason"))
	t.out.last = doc
	if v := doc.Root.Get("usage"); v != nil {
		t.out.addUsage(doc.Part(v)) // without the messages, which cost many times their size
	}
	for _, v := range doc.Root.Get("messages").List() {
		m := doc.Part(v)
		shown, _ := t.out.message(t.out.inFirst(m, m.Edit()), true) // only a stream exceeds the buffer
		t.out.messages = append(t.out.messages, shown...)
	}
	t.out.messages = append(t.out.messages, t.ended(doc.Root.Get("stop_reason").Get("stop_reason").Text())...)
	return nil
}

// Answer returns the combined answer: the last request's, with the messages of all.
func (t *Turn) Answer() []byte {
	e, root := t.out.last.Edit(), t.out.last.Root
	if t.out.requests == 1 && len(t.tools.gated) == 0 {
		return e.Apply()
	}
	if v := root.Get("messages"); v != nil {
		e.Replace(v, jsondoc.ListOf(t.out.messages))
	}
	if v := root.Get("usage"); v != nil && t.out.requests > 1 {
		Sum(e, v, t.out.usage)
	}
	return e.Apply()
}

// ended ends a request and returns the messages that were held back, unless its calls need a
// ruling before a person sees them.
func (t *Turn) ended(reason string) (held [][]byte) {
	calls, request := t.out.stopped()
	t.pause.calls = nil
	if reason == "requires_approval" {
		t.paused(calls, request)
	}
	t.out.pieces = false
	if t.pause.asksPerson() {
		return nil
	}
	for _, l := range t.out.held {
		held = append(held, t.out.shownPart(l)...)
	}
	t.out.held = nil
	return held
}

// shown returns a message as the caller sees it: the calls of a pause that the gate answers
// become ordinary tool calls, and types that the caller did not request are removed.
func (s *stitched) shown(doc *jsondoc.Doc) [][]byte {
	m := doc.Root
	kind := m.Get("message_type").Text()
	// The server reminds the agent of a required call that it made before a pause.
	reminder := kind == "user_message" && bytes.Contains(doc.Src, []byte("ToolRuleViolated: You must call "))
	if reminder && s.tools.rules.stopReason != "" {
		return nil
	}
	if kind == "tool_return_message" {
		s.tools.rules.last = m.Get("tool_return").Text()
		s.allowed.setResults(m)
	}
	if kind != "approval_request_message" {
		return s.wanted(kind, doc.Raw(m))
	}
	var out [][]byte
	for _, p := range Split(doc, func(c *jsondoc.Value) bool { return s.tools.gateAnswers(callOf(c)) }) {
		out = append(out, s.wanted(p.Kind, p.Raw)...)
	}
	return out
}

// MessagePart is a message that is shown to a caller, or a part of one.
type MessagePart struct {
	Kind string
	Raw  []byte
}

// Split splits a message of a pause, in which memproxy answers the calls for which mine is
// true. An approval request becomes a message of memproxy's calls and a request for the
// others; an approval response keeps the others.
func Split(doc *jsondoc.Doc, mine func(*jsondoc.Value) bool) (parts []MessagePart) {
	m := doc.Root
	kind := m.Get("message_type").Text()
	elements := slices.Concat(m.Get("approvals").List(), CallValues(m))
	if !slices.ContainsFunc(elements, mine) {
		return []MessagePart{{kind, doc.Raw(m)}}
	}
	if kind == "approval_request_message" {
		parts = append(parts, messagePart(doc, "tool_call_message", mine))
	}
	theirs := func(v *jsondoc.Value) bool { return !mine(v) }
	if slices.ContainsFunc(elements, theirs) {
		parts = append(parts, messagePart(doc, kind, theirs))
	}
	return parts
}

// messagePart returns a message of a pause as one of type kind, with the calls or answers for
// which kept is true. The older members of the message repeat the first of these that is not
// a tool's result.
func messagePart(doc *jsondoc.Doc, kind string, kept func(*jsondoc.Value) bool) MessagePart {
	m, e := doc.Root, doc.Edit()
	e.Replace(m.Get("message_type"), jsondoc.Quote(kind))
	var first *jsondoc.Value
	if list := cmp.Or(m.Get("tool_calls"), m.Get("approvals")); list != nil && list.Kind == jsondoc.Array {
		e.Array(list, func(i int) bool {
			v := list.Elems[i]
			keep := kept(v)
			if keep && first == nil && v.Get("type").Text() != "tool" {
				first = v
			}
			return !keep
		})
	}
	if one := m.Get("tool_call"); one != nil && one.Kind == jsondoc.Object && first != nil {
		e.Replace(one, doc.Raw(first))
	}
	for older, member := range map[string]string{"approve": "approve", "approval_request_id": "tool_call_id", "reason": "reason"} {
		if v := m.Get(older); v != nil {
			raw := []byte("null")
			if now := first.Get(member); now != nil {
				raw = doc.Raw(now)
			}
			e.Replace(v, raw)
		}
	}
	return MessagePart{kind, e.Apply()}
}

// MessageTypes are the types of messages that the server knows (0.16.8).
var MessageTypes = [...]string{
	"system_message", "user_message", "assistant_message", "reasoning_message", "hidden_reasoning_message", "tool_call_message", "tool_return_message",
	"approval_request_message", "approval_response_message", "summary_message", "event_message",
}

// typesToCheck returns the list of types to send if the server cannot read the caller's, so
// that the server refuses it; nil if it can. The list also has all known types.
func (c *caller) typesToCheck() []byte {
	switch list := c.root.Root.Get(returnTypes); {
	case list == nil || list.Kind == jsondoc.Null:
		return nil
	case list.Kind != jsondoc.Array:
		return c.root.Raw(list)
	case !slices.ContainsFunc(list.Elems, func(v *jsondoc.Value) bool { return !slices.Contains(MessageTypes[:], v.Text()) }):
		return nil
	default:
		var types [][]byte
		for _, name := range MessageTypes {
			types = append(types, jsondoc.Quote(name))
		}
		for _, v := range list.Elems {
			types = append(types, c.root.Raw(v))
		}
		return jsondoc.ListOf(types)
	}
}

const returnTypes = "include_return_message_types"

// wanted applies the caller's include_return_message_types. Its list is not forwarded as it
// is, because the server would then leave out the pause.
func (s *stitched) wanted(kind string, raw []byte) [][]byte {
	if s.types != nil && !slices.Contains(s.types, kind) {
		return nil
	}
	return [][]byte{raw}
}
