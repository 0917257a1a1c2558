package gate

import (
	"bytes"
	"context"

	"github.com/memproxy/memproxy"
)

// Event filters one event of a stream and returns what is to be sent on. That may
// be nothing, such as for an event of a run that the caller may not see.
func (g *Gate) Event(ctx context.Context, a *Admission, event []byte) []byte {
	if !traced(ctx, g, a, event) {
		return nil
	}
	if !a.Inspect {
		return event
	}
	shown := a.Answered
	defer func() { a.Answered = shown }() // one event is not the answer
	ret := &answer{Admission: a, g: g, reply: memproxy.Reply{Status: 200, Body: event}, status: 200, single: true}
	defer func() { a.leftovers.filtered += ret.filtered }()
	if refused, err := ret.through(ctx, asSent); err != nil || refused {
		return lostEvent(ctx, g, a, err)
	}
	if event = ret.reply.Body; len(event) == 0 {
		return nil
	}
	data := dataOf(event)
	if len(data) == 0 || !bytes.ContainsAny(data[:1], "{[") || string(data) == endOfStream {
		return event // nothing to filter: a name, a comment, the end mark
	}
	ret.reply.Body = data
	if refused, err := ret.through(ctx, rewritten); err != nil || refused {
		return lostEvent(ctx, g, a, err)
	}
	if bytes.Equal(ret.reply.Body, data) {
		return event
	}
	return withData(event, ret.reply.Body)
}

// endOfStream is the data of the last event of a stream, which is not JSON. Without
// it clients treat the stream as broken.
const endOfStream = "[DONE]"

// lostEvent drops and logs an event that a filter refused or could not read.
func lostEvent(ctx context.Context, g *Gate, a *Admission, err error) []byte {
	g.opt.Log.ErrorContext(ctx, "event withheld", "decision", a.Decision.ID, "route", a.call.Route.ID, "error", err)
	return nil
}

// dataOf joins an event's data lines (WHATWG HTML, section 9.2).
func dataOf(event []byte) []byte {
	var data [][]byte
	for line := range bytes.Lines(event) {
		if rest, ok := bytes.CutPrefix(bytes.TrimRight(line, "\r\n"), []byte("data:")); ok {
			data = append(data, bytes.TrimPrefix(rest, []byte(" ")))
		}
	}
	return bytes.Join(data, []byte("\n"))
}

// withData replaces an event's data, in one line.
func withData(event, data []byte) []byte {
	var out []byte
	for line := range bytes.Lines(event) {
		if !bytes.HasPrefix(line, []byte("data:")) && len(bytes.TrimRight(line, "\r\n")) > 0 {
			out = append(out, line...)
		}
	}
	out = append(append(out, "data: "...), bytes.ReplaceAll(data, []byte("\n"), []byte(" "))...)
	return append(out, "\n\n"...)
}

// A backend may store the streams of runs under names that its callers choose, and
// find them by name alone, wherever the run took place. The owner of such a stream
// is unknown until it arrives.

// Untraced refuses a request for a stream that the backend would find by name alone
// and that this face did not start, unless the caller may see everything. It is
// answered as a stream that does not exist. It reports whether the reply is to be
// sent.
func (g Agents) Untraced(ctx context.Context, a *Admission) (memproxy.Reply, bool) {
	if q, found := anywhere(a); !found || q.Starts {
		return memproxy.Reply{}, false
	}
	ret := &answer{Admission: a, g: g.Gate}
	ret.refuse(StatusNotFound, memproxy.OwnerUnknown, "nobody can say whose run has a stream of this name")
	g.accounts.release(ctx, a)
	g.outcome(ctx, ret)
	return ret.reply, true
}

// anywhere returns the request for a stream that the backend would find by name
// alone; false if its owner does not matter: in shadow mode, or for a caller who
// may see everything.
func anywhere(a *Admission) (memproxy.Resumption, bool) {
	chainer, ok := a.call.Backend.Adapter.(Chainer)
	if !ok || !a.enforced() || a.alone() && a.unlimited() {
		return memproxy.Resumption{}, false
	}
	q, ok := chainer.Resume(a.call.Route, a.call.Request, a.Body)
	return q, ok && q.Anywhere
}

// sources are the runs that the events of an answer named.
type sources struct {
	asked    bool // whether anywhere was asked
	anywhere bool
	seen     map[string]bool // by run: whether its events may be shown to the caller
	last     bool            // whether the events of the last run named may be shown
	kept     int             // events that were withheld
}

// maxSources bounds the runs that are remembered of one stream.
const maxSources = 64

// traced reports whether an event may be passed on: if the backend may have found
// another caller's stream, only events of runs that the caller may see. An event
// that names no run belongs to the run of the one before it.
func traced(ctx context.Context, g *Gate, a *Admission, event []byte) bool {
	s := &a.sources
	if !s.asked {
		_, s.anywhere = anywhere(a)
		s.asked, s.seen = true, map[string]bool{}
	}
	if !s.anywhere {
		return true
	}
	run, data := a.call.Backend.Adapter.(Chainer).RunOf(event)
	if !data {
		return true // a comment, the end
	}
	if run != "" {
		ok, known := s.seen[run]
		if !known && len(s.seen) < maxSources {
			ok = reaches(ctx, g, a, run)
			s.seen[run] = ok
		}
		s.last = ok
	}
	if !s.last {
		s.kept++
	}
	return s.last
}

// reaches reports whether the caller may see an object. If that cannot be
// determined it may not.
func reaches(ctx context.Context, g *Gate, a *Admission, id string) bool {
	loc, ok := a.call.Backend.Adapter.(Locator)
	if !ok || a.call.Backend.Fetch == nil {
		return false
	}
	known := newLookups(g, a)
	if err := known.need(ctx, known.key(memproxy.TargetMemory, id)); err != nil {
		return false
	}
	v := a.viewer(g.opt.Signer, known)
	if row := known.owner(memproxy.TargetMemory, id); row != nil {
		return v.lookUp(ctx, g, []memproxy.Scope{row.Scope}, nil) == nil && v.Sees(row, &memproxy.Memory{})
	}
	found, err := located(ctx, g, a.call, loc, []string{id})
	if err != nil {
		g.opt.Log.WarnContext(ctx, "the owner of a run could not be determined", "decision", a.Decision.ID, "error", err)
		return false
	}
	m := found[id]
	return !m.Missing && v.lookUp(ctx, g, nil, []memproxy.Memory{m}) == nil && v.Sees(nil, &m)
}

// tellKept reports withheld events of another caller's stream in the outcome's
// reasons and in the log.
func (ret *answer) tellKept(ctx context.Context) {
	if ret.sources.kept == 0 {
		return
	}
	ret.reasons = append(ret.reasons, memproxy.Reason{Code: memproxy.OwnerForeign, Detail: "the backend answered with the stream of a run that is not the caller's; it was withheld"})
	ret.g.opt.Log.WarnContext(ctx, "the stream of another caller's run was withheld", "decision", ret.Decision.ID, "route", ret.call.Route.ID, "events", ret.sources.kept)
	ret.sources.kept = 0
}
