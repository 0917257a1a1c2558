package turn

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/spelling"
)

// Runs implements memproxy.Turn.
func (t *Turn) Runs() []string { return t.out.runIDs }

// Seq implements memproxy.Turn.
func (t *Turn) Seq() (n int64, said bool) { return t.out.seq, t.out.numbered }

// Cancel implements memproxy.Turn. The server denies the pending calls of a run that is
// cancelled while it is paused.
func (t *Turn) Cancel() memproxy.SideRequest {
	const stop = `{"message_type":"stop_reason","stop_reason":"cancelled"}`
	t.pause.calls, t.out.held = nil, nil
	t.out.stopEvent, t.out.done = memproxy.JoinStreamEvent([]byte(stop)), true
	if t.out.last != nil {
		e := t.out.last.Edit()
		e.Replace(t.out.last.Root.Get("stop_reason"), []byte(stop))
		t.out.last = e.Doc()
	}
	return memproxy.SideRequest{
		Request: memproxy.Request{Method: "POST", EscapedPath: Get(t.opt.Prefix, "", "agents", t.agent, "messages", "cancel").EscapedPath},
		Body:    slices.Concat([]byte(`{"run_ids":[`), jsondoc.Quote(t.out.latestRun()), []byte(`]}`)),
	}
}

// Names implements memproxy.Turn. Only background runs have names: the server keeps
// their streams, and finds them by conversation or by the caller's message ids (otids).
func (t *Turn) Names() []string {
	if !t.caller.root.LaxTrue(t.caller.root.Root.Get("background")) {
		return nil
	}
	place := ConversationStream(t.opt.Agent, t.opt.Conversation)
	names := []string{place}
	ids := otids(t.caller.root)
	for _, id := range ids {
		names = append(names, ByOtid(place, id))
	}
	if len(ids) > 0 {
		names = append(names, ByOtids(place, ids))
	}
	return names
}

// ResentStream returns the name of the stream that the server would resume for a request with
// the same message ids, or "".
func ResentStream(agent, conversation string, body []byte) string {
	doc, err := jsondoc.Parse(body, 0)
	if err != nil || !doc.LaxTrue(doc.Root.Get("background")) {
		return ""
	}
	if ids := otids(doc); len(ids) > 0 {
		return ByOtids(ConversationStream(agent, conversation), ids)
	}
	return ""
}

// ConversationStream returns the stream name of a conversation, or of the agent's own
// conversation.
func ConversationStream(agent, conversation string) string {
	return "in " + cmp.Or(conversation, agent)
}

// ByOtid returns a stream's name by the client's id of one of its messages.
func ByOtid(place, otid string) string { return place + " otid " + otid }

// ByOtids returns a stream's name by the client's ids of all its messages.
func ByOtids(place string, otids []string) string {
	return place + " otids " + strings.Join(slices.Sorted(slices.Values(otids)), " ")
}

func otids(doc *jsondoc.Doc) []string {
	var ids []string
	for _, m := range doc.Root.Get("messages").List() {
		if id := m.Get("otid").Text(); id != "" {
			ids = append(ids, id)
		}
	}
	return ids
}

// run records the id of a request's run and returns the id of the turn's first run.
// Malformed ids are not recorded.
func (s *stitched) run(id string) (first string) {
	if plainID(id) && !slices.Contains(s.runIDs, id) {
		s.runIDs = append(s.runIDs, id)
	}
	if len(s.runIDs) == 0 {
		return id
	}
	return s.runIDs[0]
}

func (s *stitched) latestRun() string {
	if n := len(s.runIDs); n > 0 {
		return s.runIDs[n-1]
	}
	return ""
}

// plainID reports whether an id needs no escaping in JSON and in a path.
func plainID(id string) bool {
	return id != "" && len(id) <= 64 && spelling.IsWord(id, "-_")
}

func numberOf(doc *jsondoc.Doc) (int64, bool) {
	v := doc.Root.Get("seq_id")
	if v == nil || v.Kind != jsondoc.Number {
		return 0, false
	}
	n, err := strconv.ParseInt(string(doc.Raw(v)), 10, 64)
	return n, err == nil
}

// startsRun reports whether an event is the numbered ping with which the run of a later
// request starts. To the caller the turn is one run, which has started: the event is left out,
// and its number is given to the next one.
func (s *stitched) startsRun(kind string, doc *jsondoc.Doc) bool {
	n, ok := numberOf(doc)
	if !ok || s.started || s.requests == 0 {
		return false
	}
	s.started = true
	if kind != "ping" || n != 1 {
		return false
	}
	s.run(doc.Root.Get("run_id").Text())
	s.shift--
	return true
}

// number changes an event's run to the turn's first run, and its number to continue the
// numbers of earlier requests. It returns the same document if nothing changes.
func (s *stitched) number(doc *jsondoc.Doc) *jsondoc.Doc {
	e := doc.Edit()
	n, ok := numberOf(doc)
	s.numbered = ok
	if ok {
		s.seq = n + s.shift
		if s.shift != 0 {
			e.Replace(doc.Root.Get("seq_id"), strconv.AppendInt(nil, s.seq, 10))
		}
	}
	return s.inFirst(doc, e)
}

// inFirst applies the edits in e, sets the run of a message to the turn's first run, and
// adds the tool's name to a result that memproxy supplied, as in the server's own results.
// It returns the same document if nothing changes.
func (s *stitched) inFirst(doc *jsondoc.Doc, e *jsondoc.Edits) *jsondoc.Doc {
	id := doc.Root.Get("run_id")
	if is := id.Text(); plainID(is) && is != s.run(is) {
		e.Replace(id, jsondoc.Quote(s.run(is)))
	}
	if name := MissingToolName(doc.Root); name != nil {
		if tool, ok := s.names[doc.Root.Get("tool_call_id").Text()]; ok {
			e.Replace(name, jsondoc.Quote(tool))
		}
	}
	return e.Doc()
}

// MissingToolName returns the name member of a tool result if it is null; nil for any other
// message.
func MissingToolName(m *jsondoc.Value) *jsondoc.Value {
	if name := m.Get("name"); name != nil && name.Kind == jsondoc.Null && m.Get("message_type").Text() == "tool_return_message" {
		return name
	}
	return nil
}
