package gate

import (
	"bytes"
	"context"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/telemetry/signal"
)

// Agents rules on what agents write in their runs: on the calls of a turn, and on
// what a run that could not be made to pause has changed.
type Agents struct{ *Gate }

// Agents returns the part of the gate that runs of agents go through.
func (g *Gate) Agents() Agents { return Agents{g} }

// A Turner is an Adapter whose backend runs agents: on some routes the agent
// calls tools while the request lasts, and some tools write its memory inside
// the backend, where no proxy sees them.
type Turner interface {
	// Turn returns the run that an admitted request starts, or nil when its
	// route runs no agent. A route that runs one and cannot be made to pause
	// is memproxy.ErrUngated.
	Turn(route memproxy.Route, req memproxy.Request, body []byte) (memproxy.Turn, error)

	// Rearms returns the agent whose tools a request changes, or "".
	Rearms(route memproxy.Route) string
}

// A Chainer is a Turner whose backend knows each request of a turn as a run of its
// own. Callers know the first; what they ask about it is answered for all.
type Chainer interface {
	Turner
	// Resume reports whether a request asks for the stream of a turn again.
	Resume(route memproxy.Route, req memproxy.Request, body []byte) (memproxy.Resumption, bool)

	// RunOf is the run that an event of a stream names, or "". Data is false
	// for an event that tells nothing: a comment, the end.
	RunOf(event []byte) (run string, data bool)

	// Asks reports the runs that a request is about: one that is read, or
	// those that are to be stopped.
	Asks(route memproxy.Route, req memproxy.Request, body []byte) (runs []string, reads bool)

	// Merge makes one answer about run of the answers about each of a turn's
	// runs, in their order. Over is false while the turn is under way.
	Merge(route memproxy.Route, req memproxy.Request, run string, over bool, answers [][]byte) ([]byte, error)
}

// A Prober is a Turner some of whose requests run one tool outside of a run.
// What that writes depends on which tool goes by the name.
type Prober interface {
	Turner
	// Probe returns the agent whose tool a request runs, and the side request
	// that tells what it is; false for other requests. Probed reads the answer:
	// nil for a tool of which the request says what it does, ErrUngated for
	// one of which it is not known what it writes.
	Probe(route memproxy.Route, req memproxy.Request) (agent string, q memproxy.Request, ok bool)
	Probed(route memproxy.Route, reply memproxy.Reply) error
}

// Probe asks the backend what an admitted request runs. It is ErrUngated for
// what cannot be ruled on before; any other error is breakage.
func (g Agents) Probe(ctx context.Context, a *Admission, p Probe) error {
	if a.call.Backend.Fetch == nil {
		return memproxy.ErrUngated
	}
	ctx, cancel := context.WithTimeout(ctx, g.opt.FetchTimeout)
	defer cancel()
	reply, err := a.call.Backend.Fetch.Fetch(ctx, p.ask)
	if err != nil {
		return err
	}
	return a.call.Backend.Adapter.(Prober).Probed(a.call.Route, reply)
}

// asked is a tool call of a running agent that is to be ruled on. It is attributed
// to the principal of the admission that started the run, and ruled on by the
// rules that it pinned.
func (g Agents) asked(m mode, a *Admission, tc memproxy.ToolCall) *run {
	c := *a.call
	c.Route = memproxy.Route{ID: a.call.Route.ID + "/" + tc.Tool, Kind: memproxy.Run}
	c.Body = tc.Arguments
	if tc.Operation != nil {
		c.Route.Kind = tc.Operation.Kind
		tc.Operation.Backend = c.Backend.Name
	}
	r := g.begin(m, &c)
	r.under, r.tool = a, tc
	r.Principal, r.rules = a.Principal, a.rules
	r.Decision.Policy = a.rules.Version
	return r
}

// ask is a ruling on a tool call that is recorded.
func ask(ctx context.Context, r *run) *Admission {
	ctx, span := r.g.opt.Tracer.Start(ctx, signal.SpanAsk)
	defer span.End()
	r.walk(ctx)
	span.SetAttributes(r.Attributes(nil)...)
	return r.Admission
}

// Ask rules on a tool call of a running agent, which is charged and recorded like
// a request of its own.
func (g Agents) Ask(ctx context.Context, a *Admission, tc memproxy.ToolCall) *Admission {
	return ask(ctx, g.asked(call, a, tc))
}

// Decline denies a call of a running agent without asking the policy, and
// records it as the denial of the admission's principal.
func (g Agents) Decline(ctx context.Context, a *Admission, tc memproxy.ToolCall, why string) *Admission {
	r := g.asked(decline, a, tc)
	r.op = tc.Operation
	r.verdict.refuse(StatusForbidden, memproxy.Reason{Code: memproxy.RunUngated, Detail: why})
	return ask(ctx, r)
}

// A Foreseen is a tool call that is refused whatever a person would say to it.
type Foreseen struct {
	Decision memproxy.Decision

	r *run
}

// Foresee rules on a tool call that a person is about to be asked about, so
// that nobody is asked for what would then be refused. It returns nil where the
// person is to be asked: the call may be made, it would wait for review, or it
// cannot be told now. Nothing is charged or recorded: the person's answer is
// ruled on by Ask, and what is foreseen goes on record with Refused.
func (g Agents) Foresee(ctx context.Context, a *Admission, tc memproxy.ToolCall) *Foreseen {
	r := g.asked(foresee, a, tc)
	r.walk(ctx)
	if r.Decision.Verdict != memproxy.Deny || r.Decision.Status == StatusUnavailable {
		return nil
	}
	return &Foreseen{Decision: r.Decision, r: r}
}

// Refused records that a call was refused as foreseen, and counts it like any
// refused call of the run.
func (g Agents) Refused(ctx context.Context, f *Foreseen) {
	f.r.mode = call // of which the final steps are left
	f.r.walk(ctx)
}

// revoked reports whether the key that a run was started with was removed since,
// or given to another caller: a run can last for an hour. A token or a
// certificate is good for the run, also if it ends before.
func revoked(ctx context.Context, id Identifier, a *Admission) bool {
	if a.call.who == nil || a.Principal.Method != "key" {
		return false
	}
	p, err := id.Identify(ctx, a.call.credentials())
	return err != nil || p.ID != a.Principal.ID || p.Tenant != a.Principal.Tenant
}

// toolCall takes over what the adapter read of a tool call. Whom it names is held
// to the caller's tenant as whom a request names is.
func toolCall(ctx context.Context, r *run) error {
	if r.tool.Flaw != nil {
		r.verdict.malformed(r.tool.Flaw)
		return nil
	}
	if r.op = r.tool.Operation; revoked(ctx, r.g.opt.Identifier, r.under) {
		r.verdict.refuse(StatusForbidden, memproxy.Reason{Code: memproxy.IdentityInvalid, Detail: "the key that started the run is no longer its caller's"})
		return nil
	}
	attributeTexts(r, r.under.op)
	reserved(r)
	loadReplaced(ctx, r, r.under.watched)
	return nil
}

// Ungated rules on a run that cannot be gated call by call, by what its backend
// is set to. It reports whether the reply is to be sent; if not, the run goes
// on, and is Watched where what it writes is to be ruled on afterwards.
func (g Agents) Ungated(ctx context.Context, a *Admission) (memproxy.Reply, bool) {
	mode := a.call.Backend.Ungated
	if _, can := a.call.Backend.Adapter.(Compensator); can && mode == UngatedCompensate && a.enforced() {
		a.watched = true
		return memproxy.Reply{}, false
	}
	return g.ungated(ctx, a, mode)
}

// Event filters one event of a stream. What comes back is to be sent on; it may
// be nothing, as it is of a run that the caller may not see.
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
		return event // nothing to take apart: a name, a comment, the mark of the end
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

// endOfStream is the data of the last event of a stream, which is no JSON. Without
// it clients take the stream for one that broke off.
const endOfStream = "[DONE]"

// lostEvent is what is sent in the place of an event that no filter lets through.
func lostEvent(ctx context.Context, g *Gate, a *Admission, err error) []byte {
	g.opt.Log.ErrorContext(ctx, "event withheld", "decision", a.Decision.ID, "route", a.call.Route.ID, "error", err)
	return nil
}

// dataOf is what an event's lines of data say (WHATWG HTML, section 9.2).
func dataOf(event []byte) []byte {
	var data [][]byte
	for line := range bytes.Lines(event) {
		if rest, ok := bytes.CutPrefix(bytes.TrimRight(line, "\r\n"), []byte("data:")); ok {
			data = append(data, bytes.TrimPrefix(rest, []byte(" ")))
		}
	}
	return bytes.Join(data, []byte("\n"))
}

// withData is an event with other data, in one line.
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

// A backend may keep the streams of runs under names of its callers' making,
// and find them by those alone, wherever the run took place. Of such a stream
// nobody can say before it comes whose it is.

// Untraced refuses a request for a stream that the backend would look for
// everywhere and that the face knows nothing of, unless the caller may see
// whatever there is. It is answered as one that does not exist. It reports
// whether the reply is to be sent.
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

// anywhere is the stream that the backend would look for everywhere; none where
// it is not enforced whose that is, or where the caller may see everybody's.
func anywhere(a *Admission) (memproxy.Resumption, bool) {
	chainer, ok := a.call.Backend.Adapter.(Chainer)
	if !ok || !a.enforced() || a.alone() && a.unlimited() {
		return memproxy.Resumption{}, false
	}
	q, ok := chainer.Resume(a.call.Route, a.call.Request, a.Body)
	return q, ok && q.Anywhere
}

// sources are the runs that the events of an answer told of.
type sources struct {
	asked    bool // whether the stream may be of any run
	anywhere bool
	seen     map[string]bool // whether the caller may be shown a run's events
	last     bool            // whether it may be shown those of the last one that was named
	kept     int             // events that were not passed on
}

// maxSources bounds the runs that one stream tells of.
const maxSources = 64

// traced reports whether an event may be passed on: it is of a run that the
// caller may see, where the backend may have found another's. An event that
// names no run is part of the one before it.
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

// reaches asks whether the caller may see an object. What cannot be found out
// is out of reach.
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
		return v.lookUp(ctx, g, []memproxy.Ownership{*row}, nil) == nil && v.Sees(row, &memproxy.Memory{})
	}
	found, err := located(ctx, g, a.call, loc, []string{id})
	if err != nil {
		g.opt.Log.WarnContext(ctx, "whose a run is could not be found out", "decision", a.Decision.ID, "error", err)
		return false
	}
	m := found[id]
	return !m.Missing && v.lookUp(ctx, g, nil, []memproxy.Memory{m}) == nil && v.Sees(nil, &m)
}

// tellKept puts into the outcome's reasons and the log what was not passed on
// of another's stream.
func (ret *answer) tellKept(ctx context.Context) {
	if ret.sources.kept == 0 {
		return
	}
	ret.reasons = append(ret.reasons, memproxy.Reason{Code: memproxy.OwnerForeign, Detail: "the backend answered with the stream of a run that is not the caller's; it was withheld"})
	ret.g.opt.Log.WarnContext(ctx, "the stream of another's run was withheld", "decision", ret.Decision.ID, "route", ret.call.Route.ID, "events", ret.sources.kept)
	ret.sources.kept = 0
}
