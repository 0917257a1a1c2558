package gate

import (
	"context"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/telemetry/signal"
)

// Return takes the backend's answer to an admitted call, filters what the
// caller may not see, remembers what was written, and notes the outcome. It
// runs for every admission that was forwarded, also when the caller is gone,
// and gives the answer to pass on.
func (g *Gate) Return(ctx context.Context, a *Admission, reply memproxy.Reply) memproxy.Reply {
	start := time.Now()
	ctx, span := g.opt.Tracer.Start(ctx, signal.SpanReturn)
	defer span.End()
	ret := &returning{Admission: a, g: g, reply: reply, raw: reply}
	if err := ret.read(ctx); err != nil {
		// An answer that cannot be read cannot be filtered. Withhold it.
		span.SetStatus(codes.Error, string(memproxy.UpstreamMalformed))
		g.opt.Log.ErrorContext(ctx, "answer withheld", "decision", a.Decision.ID, "route", a.call.Route.ID, "error", err)
		ret.refuse(StatusBadGateway, memproxy.UpstreamMalformed, "the backend's answer could not be read, so it could not be filtered")
	}
	if ret.filtered > 0 {
		span.SetAttributes(attribute.Int(signal.AttrFiltered, ret.filtered))
	}
	ret.remember(ctx)
	g.outcome(ctx, ret)
	if a.edits != nil && ok2xx(ret.status) {
		g.opt.Later(ret.subject(), func() { g.succeed(context.WithoutCancel(ctx), a, reply.Body) })
	}
	g.opt.Meter.Step(ctx, signal.SpanReturn, time.Since(start))
	return ret.reply
}

// Abandon notes the outcome of an admitted call to which no answer came, and
// gives the refusal to pass on. End says how an answer ended that had begun, or
// that the caller hung up.
func (g *Gate) Abandon(ctx context.Context, a *Admission, end memproxy.StreamEnd) memproxy.Reply {
	ret := &returning{Admission: a, g: g, ended: end}
	ret.refuse(StatusBadGateway, memproxy.UpstreamUnavailable, "the backend did not answer")
	a.Answered = nil // what was decided stands; there is no answer to rule on
	g.outcome(ctx, ret)
	return ret.reply
}

// Streamed notes the outcome of an admitted call whose answer was passed on
// without being read. What the backend refused is not paid for.
func (g *Gate) Streamed(ctx context.Context, a *Admission, status int, end memproxy.StreamEnd) {
	ret := &returning{Admission: a, g: g, ended: end, status: status, reply: memproxy.Reply{Status: status}}
	if a.enforced() && status >= 400 && status < 500 {
		g.release(ctx, a)
	}
	g.outcome(ctx, ret)
}

// returning is one answer on its way back.
type returning struct {
	*Admission
	g        *Gate
	reply    memproxy.Reply
	raw      memproxy.Reply // as the backend gave it
	reading  *memproxy.Reading
	looked   *lookups // see lookups
	rows     map[string]memproxy.Ownership
	reasons  []memproxy.Reason
	made     map[string][]string // by memory, the codes for which it alone is marked
	status   int                 // the backend's
	filtered int
	shown    []string
	ended    memproxy.StreamEnd
	self     bool                                 // the backend's own agent wrote
	born     []memproxy.StateChange               // until when that is kept
	bound    []memproxy.Version                   // what came to be after its write was answered
	stuck    int                                  // memories that could not be taken back
	below    int                                  // memories of less confidence than was asked for
	mine     []string                             // ids of memories of the answer that the caller wrote itself
	broken   []string                             // ids of memories that were changed behind the proxy
	answers  bool                                 // to a write: what is hidden is remembered all the same
	blind    bool                                 // whose memories are could not be looked up
	single   bool                                 // it is one event of a stream
	flagged  map[*memproxy.Memory]memproxy.Status // shown in part, at most
}

func (ret *returning) refuse(status int, code memproxy.ReasonCode, detail string) {
	d := ret.Decision
	d.Verdict, d.Status = memproxy.Deny, status
	d.Reasons = []memproxy.Reason{{Code: code, Detail: detail}}
	ret.reasons = append(ret.reasons, d.Reasons...)
	ret.reply = ret.call.Backend.Adapter.Refuse(ret.call.Request, d.Shown())
	ret.Answered = &d
}

// absent words what the backend does not have as what is another's is worded:
// where several tenants share it, a caller could tell the two apart by the
// words. What the ledger knows to be the caller's keeps the backend's own.
func (ret *returning) absent() bool {
	if ret.op == nil || !ret.enforced() || ret.alone() || !slices.ContainsFunc(ret.op.Targets, func(id string) bool { _, known := ret.owners[id]; return !known }) {
		return false
	}
	ret.refuse(StatusNotFound, memproxy.OwnerUnknown, "this is not there for this caller's tenant")
	return true
}

func ok2xx(status int) bool { return status >= 200 && status <= 299 }

// read takes the answer apart and filters it.
func (ret *returning) read(ctx context.Context) error {
	if ret.status = ret.reply.Status; ret.status == StatusNotFound && ret.Inspect {
		ret.lost(ctx)
		if ret.absent() {
			return nil
		}
	}
	return ret.filtrate(ctx)
}

// secrets takes the backend's secrets out of what is shown to callers who do
// not administer it.
func (ret *returning) secrets(context.Context) (refused bool, err error) {
	w, ok := ret.call.Backend.Adapter.(Withholder)
	if !ok || !ret.Inspect || !ok2xx(ret.reply.Status) || len(ret.reply.Body) == 0 || ret.op.Kind == memproxy.Admin || ret.op.Administers {
		return false, nil
	}
	ret.reply.Body, err = w.Withhold(ret.call.Route, ret.reply.Body)
	return false, err
}

// filter marks what the caller may not see. It reports false when the answer
// is about one target and that is somebody else's.
func (ret *returning) filter(ctx context.Context) bool {
	known := ret.lookups()
	v := ret.viewer(ret.g.opt.Signer, known)
	if known.memories(ctx, ret.reading.Memories) != nil || ret.relatives(ctx, &v) != nil {
		// Provenance is then unknown, which is the lowest trust.
		v.blind, ret.blind = true, true
	}
	settled, broken := len(ret.op.Targets) > 0 && !ret.deferred(), 0
	for i := range ret.reading.Memories {
		m := &ret.reading.Memories[i]
		if m.Drop {
			continue
		}
		rowp := known.owner(kindOf(m), m.ID)
		if ret.wroteIt(rowp, m) {
			ret.mine = append(ret.mine, m.ID)
		}
		if rowp != nil && rowp.Deleted && !m.Missing && (m.Event != eventDelete || m.Text != "" || m.Before != "" || len(m.Also) > 0 || len(m.Metadata) > 0) {
			// Its author deleted it, whatever copy of it the backend still shows.
			// That it was deleted may be said.
			if m.Pointer == "" {
				return false
			}
			m.Drop = true
			ret.filtered++
			continue
		}
		// What was asked for by its id was ruled on; another tenant's that comes
		// in its place, or beside it, was not.
		if settled && rowp != nil && rowp.Scope.Tenant != ret.Principal.Tenant && !slices.Contains(ret.op.Targets, m.ID) {
			if m.Pointer == "" {
				return false
			}
			m.Drop = true
			ret.filtered++
			continue
		}
		if !settled {
			if !m.Missing && !v.sees(rowp, m) {
				if len(ret.op.Targets) > 0 {
					return false
				}
				m.Drop = true
				ret.filtered++
				continue
			}
			if rowp == nil && kindOf(m) == memproxy.TargetMemory {
				ret.bind(ctx, m)
			}
		}
		if !ret.trusted(rowp, m) {
			if m.Pointer == "" {
				ret.below++
				return false // it is the whole answer
			}
			m.Drop = true
			ret.below++
			continue
		}
		if !ret.whole(ctx, rowp, m) {
			if m.Pointer == "" {
				return false // it is the whole answer
			}
			m.Drop = true
			broken++
		}
	}
	if ret.filtered > 0 {
		ret.reasons = append(ret.reasons, memproxy.Reason{Code: memproxy.OwnerFiltered, Detail: "memories of others were left out of the answer"})
	}
	if ret.below > 0 {
		ret.reasons = append(ret.reasons, memproxy.Reason{Code: memproxy.TrustBelow, Detail: "memories of less confidence than was asked for were left out of the answer"})
	}
	ret.filtered += broken + ret.below
	return true
}

// relatives finds out whose the owners and objects are that the answer's
// memories name, as far as nothing is recorded of these themselves.
func (ret *returning) relatives(ctx context.Context, v *viewer) error {
	var rows []memproxy.Ownership
	var bare []memproxy.Memory
	for i := range ret.reading.Memories {
		m := &ret.reading.Memories[i]
		if row := v.known.owner(kindOf(m), m.ID); row != nil {
			rows = append(rows, *row, memproxy.Ownership{Scope: m.Scope})
		} else {
			bare = append(bare, *m)
		}
	}
	return v.lookUp(ctx, ret.g, rows, bare)
}

// tell takes down what the caller sees of the answer.
func (ret *returning) tell(ctx context.Context) {
	for i := range ret.reading.Memories {
		if m := &ret.reading.Memories[i]; m.ID != "" && !m.Missing && !m.Drop {
			ret.shown = append(ret.shown, m.ID)
			if slices.Contains(ret.broken, m.ID) {
				ret.Unverified = append(ret.Unverified, m.ID)
			}
		}
	}
	if ret.filtered > 0 {
		ret.g.opt.Meter.Filtered(ctx, ret.op.Backend, ret.filtered)
	}
}

// deferred reports whether ownership was left to this answer: a target that
// the ledger did not know and that this very call fetches.
func (ret *returning) deferred() bool {
	for _, id := range ret.op.Targets {
		if _, known := ret.owners[id]; known {
			continue
		}
		if _, asked := ret.op.Current[id]; !asked {
			return true
		}
	}
	return false
}

// bind remembers the owner of a memory that came to be after its write was
// answered (asynchronous extraction): its stamp names the decision.
func (ret *returning) bind(ctx context.Context, m *memproxy.Memory) {
	if m.Stamp == nil || m.ID == "" {
		return
	}
	s := *m.Stamp
	s.Tenant = ret.Principal.Tenant
	if !ret.g.opt.Signer.Verify(s) || ret.examiner().anothers(ctx, nil, m) {
		return
	}
	row := memproxy.Ownership{
		Backend: ret.op.Backend, Kind: memproxy.TargetMemory, ID: m.ID, Scope: m.Scope,
		Actor: s.Actor, Trust: s.Trust, Confidence: s.Confidence, Source: s.Source,
		Decision: s.ID, SHA256: textHash(m.Text), Written: s.Time,
	}
	row.Scope.Tenant = s.Tenant
	ret.bound = append(ret.bound, boundVersion(m, &s))
	ret.born = append(ret.born, ret.ending(m, &s)...)
	ret.put(row)
}

func kindOf(m *memproxy.Memory) memproxy.TargetKind {
	if m.Kind == "" {
		return memproxy.TargetMemory
	}
	return m.Kind
}

// decisive are the outcome's reasons, first those for which the answer was
// refused.
func (ret *returning) decisive() []memproxy.Reason {
	sortReasons(ret.reasons)
	if ret.Answered == nil {
		return ret.reasons
	}
	led := func(why memproxy.Reason) bool { return slices.Contains(ret.Answered.Reasons, why) }
	slices.SortStableFunc(ret.reasons, func(a, b memproxy.Reason) int {
		switch {
		case led(a) == led(b):
			return 0
		case led(a):
			return -1
		}
		return 1
	})
	return ret.reasons
}

// outcome notes what came of the call.
func (g *Gate) outcome(ctx context.Context, ret *returning) {
	defer left(ret.Admission)
	ret.Memories = ret.shown
	ret.tellUnclaimed(ctx)
	ret.tellKept(ctx)
	ev := ret.event
	ev.Type, ev.Time = memproxy.EventOutcome, g.opt.Clock()
	ev.Status, ev.Memories, ev.Filtered, ev.Cancelled = ret.status, ret.shown, ret.filtered, ret.ended.Cancelled()
	ev.Ended = ret.ended
	ev.Reasons = ret.decisive()
	ev.Budget, ev.ContentSHA256, ev.Findings, ev.Facts = nil, "", nil, nil
	if err := g.opt.Recorder.Note(ev); err != nil {
		g.opt.Log.ErrorContext(ctx, "audit outcome lost", "decision", ret.Decision.ID, "error", err)
	}
}
