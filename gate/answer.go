package gate

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate/backend"
	"github.com/memproxy/memproxy/gate/trust"
	"github.com/memproxy/memproxy/gate/verdict"
	"github.com/memproxy/memproxy/telemetry/signal"
)

// answer is one answer of a backend on its way to the caller.
type answer struct {
	*Admission
	g       *Gate
	reply   memproxy.Reply
	raw     memproxy.Reply // as received from the backend
	reading *memproxy.Reading
	items   []item   // the memories of the reading, while they are filtered
	cached  *lookups // the ledger's records, loaded by lookups
	toWrite bool     // answers a write: its hidden memories are still recorded
	isEvent bool     // is one event of a stream
	part    bool     // an event or a page: refusing it does not refuse the whole answer

	// What the loads determined for the judgements.
	view           viewer
	madeIDs        []string        // ids of memories that this write made
	targetsChecked bool            // the targets were ruled on before
	ownersUnknown  bool            // the owners of memories could not be looked up
	hidesCompiled  bool            // content derived from memories is hidden
	screened       bool            // the memories were screened
	removed        map[string]bool // by pointer, the removed items

	status   int // the backend's
	ended    memproxy.StreamEnd
	reasons  []memproxy.Reason
	filtered int
	shown    []string

	lateEntry    memproxy.Entry      // ledger entry of memories made after their write was answered
	marksByID    map[string][]string // by memory id, the mark codes of this memory alone
	byAgent      bool                // the backend's own agent made the change
	notRetracted int                 // memories that could not be retracted
}

// notFiltered is the detail of the refusal of an answer that cannot be read.
const notFiltered = "the backend's answer could not be read, so it could not be filtered"

var noAnswer = memproxy.Flaw{Code: memproxy.UpstreamUnavailable, Status: memproxy.StatusBadGateway, Detail: "the backend did not answer"}

var notSent = memproxy.Flaw{Code: memproxy.UpstreamUnavailable, Status: memproxy.StatusBadGateway, Detail: memproxy.NotReached}

// Return filters the backend's answer to an admitted call, records what was written and
// the outcome, and returns the answer to pass on. It must be called for every admission
// that was forwarded, even if the caller has disconnected.
func (g *Gate) Return(ctx context.Context, a *Admission, reply memproxy.Reply) memproxy.Reply {
	start := time.Now()
	ctx, span := g.opt.Tracer.Start(ctx, signal.SpanFilterAnswer)
	defer span.End()
	ret := &answer{Admission: a, g: g, reply: reply, raw: reply, status: reply.Status}
	if !ret.Inspect || !saysMissing(ret) || !ret.refuseAsMissing(ctx) {
		if ret.filterReply(ctx); ret.AnswerRefusal != nil && ret.AnswerRefusal.Status == memproxy.StatusBadGateway {
			span.SetStatus(codes.Error, string(ret.AnswerRefusal.Reasons[0].Code))
		}
	}
	kept := &effects{answer: ret}
	kept.recordEffects(ctx)
	g.recordOutcome(ctx, ret)
	g.opt.Meter.Step(ctx, signal.SpanFilterAnswer, time.Since(start))
	return ret.reply
}

// Abandon records the outcome of an admitted call that got no complete answer, and
// returns the refusal to pass on. End says how an answer that had begun ended, or that
// the caller hung up.
func (g *Gate) Abandon(ctx context.Context, a *Admission, end memproxy.StreamEnd) memproxy.Reply {
	ret := &answer{Admission: a, g: g, ended: end}
	ret.recordUnconfirmed(ctx)
	return g.unanswered(ctx, ret, &noAnswer)
}

// AbandonUnsent is Abandon for an admitted call that certainly did not reach the backend.
// Like a call that the backend refused, it is not charged.
func (g *Gate) AbandonUnsent(ctx context.Context, a *Admission, end memproxy.StreamEnd) memproxy.Reply {
	g.accounts.unbind(ctx, a)
	g.accounts.release(ctx, a)
	return g.unanswered(ctx, &answer{Admission: a, g: g, ended: end}, &notSent)
}

// AbandonUnreadable records the outcome of an admitted call whose answer cannot be read,
// and returns the refusal to pass on. In shadow mode it is also for a request whose body did
// not arrive completely: such a body cannot be forwarded.
func (g *Gate) AbandonUnreadable(ctx context.Context, a *Admission, why *memproxy.Flaw) memproxy.Reply {
	ret := &answer{Admission: a, g: g}
	ret.recordUnconfirmed(ctx)
	if why.Code == memproxy.LimitInFlight && why != a.call.Flaw && !repeatable(a) {
		why = &memproxy.Flaw{Code: memproxy.UpstreamUnavailable, Status: memproxy.StatusBadGateway, Detail: why.Detail}
	}
	return g.unanswered(ctx, ret, why)
}

func (g *Gate) unanswered(ctx context.Context, ret *answer, why *memproxy.Flaw) memproxy.Reply {
	ret.refuse(why.Status, why.Code, why.Detail)
	ret.AnswerRefusal = nil // the decision is unchanged; there is no answer to rule on
	if ret.ended == memproxy.StreamGone {
		ret.reasons = nil // the backend may well have answered later
	}
	g.recordOutcome(ctx, ret)
	return ret.reply
}

// RecordUnfiltered records the outcome of an admitted call whose answer was passed on
// unread.
func (g *Gate) RecordUnfiltered(ctx context.Context, a *Admission, status int, end memproxy.StreamEnd) {
	ret := &answer{Admission: a, g: g, ended: end, status: status, reply: memproxy.Reply{Status: status}}
	if wroteNothing(status) {
		g.accounts.unbind(ctx, a)
		g.accounts.release(ctx, a) // a call that the backend refused is not charged
	}
	if !a.enforced() && a.DeletesOwner() && (memproxy.IsSuccess(status) || status == memproxy.StatusNotFound) { // in shadow mode
		(&effects{answer: ret}).recordScopeDeletion(ctx)
	}
	g.recordOutcome(ctx, ret)
}

// FilterRunAnswer filters an answer of an agent's run that a listener composed itself.
func (g *Gate) FilterRunAnswer(ctx context.Context, a *Admission, reply memproxy.Reply) memproxy.Reply {
	ret := &answer{Admission: a, g: g, reply: reply, status: reply.Status}
	ret.filterReply(ctx)
	return ret.reply
}

// Event filters one event of a stream and returns the event to send on. It returns nil
// for an event that is withheld, such as one of a run that the caller may not see.
func (g *Gate) Event(ctx context.Context, a *Admission, event []byte) []byte {
	if ok, instead := filterStreamEvent(ctx, g, a, event); !ok {
		return instead
	}
	if !a.Inspect {
		return event
	}
	ret := &answer{Admission: a, g: g, reply: memproxy.Reply{Status: 200, Body: event}, status: 200, isEvent: true, part: true}
	defer func() { a.leftovers.filtered += ret.filtered }()
	if refused, err := ret.runStage(ctx, bodyAsSent); err != nil || refused {
		return lostEvent(ctx, g, a, err)
	}
	if event = ret.reply.Body; len(event) == 0 {
		return nil
	}
	data, others := memproxy.SplitStreamEvent(event)
	data = bytes.TrimSpace(data)
	if len(data) == 0 || !bytes.ContainsAny(data[:1], "{[") || string(data) == endOfStream {
		return event // nothing to filter: a name, a comment, the end mark
	}
	ret.reply.Body = data
	if refused, err := ret.runStage(ctx, bodyToSend); err != nil || refused {
		return lostEvent(ctx, g, a, err)
	}
	if bytes.Equal(ret.reply.Body, data) {
		return event
	}
	return memproxy.JoinStreamEvent(ret.reply.Body, others...)
}

// endOfStream is the data of the last event of a stream, which is not JSON. Without
// it clients treat the stream as broken.
const endOfStream = "[DONE]"

func lostEvent(ctx context.Context, g *Gate, a *Admission, err error) []byte {
	g.opt.Log.ErrorContext(ctx, "event withheld", "decision", a.Decision.ID, "route", a.call.Route.ID, "error", err)
	return nil
}

func (ret *answer) refuse(status int, code memproxy.ReasonCode, detail string) {
	d := ret.Decision
	d.Refuse(status, memproxy.Reason{Code: code, Detail: detail})
	ret.reasons = append(ret.reasons, d.Reasons...)
	ret.reply = ret.call.Backend.Adapter.Refuse(ret.call.Request, d.Shown())
	if !ret.part {
		ret.AnswerRefusal = &d
	}
}

// refuseAsMissing replaces the backend's answer about a missing memory by the refusal
// for another tenant's, and reports whether it did. On a shared backend a caller could
// otherwise tell the two apart by their wording. If the ledger has the targets as the
// caller's, the backend's answer is kept, and a deletion out of band is reported.
func (ret *answer) refuseAsMissing(ctx context.Context) bool {
	reportMissing(ctx, ret)
	if len(unowned(ret)) == 0 || !ret.enforced() || ret.singleTenant() {
		return false
	}
	ret.refuse(memproxy.StatusNotFound, memproxy.OwnerUnknown, "not found in this caller's tenant")
	return true
}

// filterReply reads, filters and rewrites the answer. It withholds an answer that
// cannot be read, and so cannot be filtered, or that is not screened in time or before the caller hangs up.
func (ret *answer) filterReply(ctx context.Context) {
	defer func() { ret.reply.Parsed = nil }() // it need not stay in memory until the answer is sent
	if why := misconfigured(ret); why != "" {
		ret.refuse(memproxy.StatusBadGateway, memproxy.UpstreamUnavailable, why)
		return
	}
	refused, err := ret.runStage(ctx, bodyAsSent)
	if err == nil && !refused {
		refused, err = ret.filterMemories(ctx)
	}
	if err == nil && !refused {
		if refused, err = ret.runStage(ctx, bodyToSend); refused || err != nil {
			ret.shown, ret.Contested, ret.Unverified = nil, nil, nil
		}
	}
	if err == nil {
		return
	}
	ret.g.opt.Log.ErrorContext(ctx, "answer withheld", "decision", ret.Decision.ID, "route", ret.call.Route.ID, "error", err)
	if busy := (*memproxy.Flaw)(nil); errors.As(err, &busy) && (busy.Code == memproxy.LimitInFlight || busy.Code == memproxy.PayloadIncomplete) && repeatable(ret.Admission) {
		ret.refuse(busy.Status, busy.Code, busy.Detail)
		return
	}
	ret.refuse(memproxy.StatusBadGateway, memproxy.UpstreamMalformed, notFiltered)
}

// ownRefused is the detail if the backend refuses memproxy's own credential.
const ownRefused = "the backend rejects memproxy's credential (backends[].credential); the caller's credential was accepted"

// misconfigured returns what the configuration of the backend lacks by its answer, or "":
// the backend refuses the credential that memproxy sends instead of the caller's, or
// redirects to another address, to which no client is led. The caller cannot correct that.
func misconfigured(ret *answer) string {
	b := &ret.call.Backend
	switch refuser, ok := b.Adapter.(backend.AgentRunner); {
	case !ret.enforced():
	case backend.LeadsAway(ret.status, ret.reply.Header.Get("Location")) && ret.rules.Headers != UnclaimedPass:
		return backend.RedirectsAway
	case ret.status == memproxy.StatusUnauthorized && b.ReplacesCredential && ret.Principal.ID != "" && (!ok || refuser.RefusesCredential(ret.reply)):
		return ownRefused
	}
	return ""
}

func (ret *answer) filterMemories(ctx context.Context) (refused bool, err error) {
	if !ret.Inspect || !memproxy.IsSuccess(ret.reply.Status) {
		return false, nil
	}
	if ret.reading, err = ret.call.Backend.Adapter.Read(ret.call.Route, ret.call.Request, ret.reply); err != nil {
		return false, err
	}
	if all := ret.reading.Memories; len(all) == 1 && all[0].Missing && all[0].Pointer == "" && ret.refuseAsMissing(ctx) {
		return true, nil
	}
	if ret.op.Kind != memproxy.Recall {
		return ret.disclose(ctx)
	}
	upstream := ret.reply
	if refused, err := ret.rewrite(ctx); refused || err != nil {
		return refused, err
	}
	pages := ret.refill(ctx, upstream)
	ret.noteShown(ctx)
	ret.absorb(ctx, pages)
	return false, nil
}

// rewrite filters the memories and removes the dropped ones from the answer.
func (ret *answer) rewrite(ctx context.Context) (refused bool, err error) {
	if refused, err = ret.runStage(ctx, memoriesRead); !refused && err == nil {
		ret.reply.Body, err = ret.call.Backend.Adapter.Rewrite(ret.call.Route, ret.call.Request, ret.reply, ret.reading)
	}
	return refused, err
}

// disclose filters the answer to a write: the writer sees what a reader would see, and
// its own content. Everything that the write made is checked first. The filters then
// work on a copy, because the memories that they hide are still recorded.
func (ret *answer) disclose(ctx context.Context) (refused bool, err error) {
	if ret.op.Kind == memproxy.Learn {
		if !ret.reading.Settles {
			ret.receipts = ret.reading.Events
		}
		extractor, _ := ret.call.Backend.Adapter.(backend.Extractor)
		if err := (&extraction{answer: ret, extractor: extractor, memories: ret.reading.Memories}).checkExtracted(ctx); err != nil {
			return false, err
		}
	}
	shown := *ret.reading
	if ret.op.Kind != memproxy.Learn {
		shown.Created = nil // only an addition shows its caller everything that it made
	}
	shown.Memories = slices.Clone(shown.Memories)
	view := &answer{Admission: ret.Admission, g: ret.g, reply: ret.reply, status: ret.status, reading: &shown, toWrite: true, cached: ret.lookups()}
	refused, err = view.rewrite(ctx)
	if !refused {
		view.contested()
	}
	ret.filtered += view.filtered
	ret.reasons = append(ret.reasons, view.reasons...)
	if err == nil {
		ret.reply = view.reply
	}
	return refused, err
}

// ownText reports whether a memory in the answer to a write has the text that was
// written.
func (ret *answer) ownText(m *memproxy.Memory) bool {
	return ret.toWrite && m.Text != "" && slices.ContainsFunc(ret.op.Items, func(it memproxy.Item) bool { return it.Kind == memproxy.ItemContent && it.Text == m.Text })
}

// noteShown records which memories the caller sees: for the outcome, and as sources of
// what its session writes later. The caller's own memories and raw messages are not
// sources.
func (ret *answer) noteShown(ctx context.Context) {
	ret.contested()
	var sources []trust.ShownText
	session := ret.enforced() && ret.namedSession() != ""
	ret.shown = slices.Grow(ret.shown, len(ret.items))
	for i := range ret.items {
		it := &ret.items[i]
		if it.ID == "" || it.Missing || it.Drop {
			continue
		}
		ret.shown = append(ret.shown, it.ID)
		if it.altered != "" {
			ret.Unverified = append(ret.Unverified, it.ID)
		}
		if session && !wroteIt(ret, it) && it.Text != "" && it.Show == nil && it.Layer != memproxy.Episodic {
			sources = append(sources, trust.ShownText{ID: it.ID, SHA256: memproxy.Hash(it.Text), Text: trust.Plain(it.Text)})
		}
	}
	ret.g.readers.RecordShown(readerOf(ret.Admission), sources)
	if ret.filtered > 0 {
		ret.g.opt.Meter.Filtered(ctx, ret.op.Backend, ret.filtered)
	}
}

func (ret *answer) contested() {
	for i := range ret.items {
		if it := &ret.items[i]; !it.Drop && !it.Missing && it.rec.HasStatus() && it.rec.Status.Contested && !ret.ownText(it.Memory) {
			ret.Contested = append(ret.Contested, it.ID)
		}
	}
}

// wroteIt reports whether the caller is the author of a memory, by its row or its stamp.
func wroteIt(ret *answer, it *item) bool {
	who := ret.Principal.ID
	return it.row != nil && it.row.Actor == who || it.Stamp != nil && it.Stamp.Actor == who
}

// deny refuses a call after its decision admitted it, and records the refusal.
func deny(ctx context.Context, g *Gate, a *Admission, status int, code memproxy.ReasonCode, detail string) memproxy.Reply {
	ret := &answer{Admission: a, g: g}
	ret.refuse(status, code, detail)
	g.recordOutcome(ctx, ret)
	return ret.reply
}

// recordOutcome records the result of the call.
func (g *Gate) recordOutcome(ctx context.Context, ret *answer) {
	defer ret.ReleaseLocks()
	evictCached(ret)
	ret.Memories, ret.leftOut = ret.shown, ret.filtered
	ret.reportUnclaimed(ctx)
	ret.reportWithheld(ctx)
	if d := ret.Shown(); d.Verdict == memproxy.Deny { // the same as in header, span and metric
		ret.event.Verdict, ret.event.ShadowVerdict = d.Verdict, d.Verdict
	}
	ev := followUpEvent(&ret.event, memproxy.EventOutcome, g.opt.Clock())
	ev.Status, ev.Memories, ev.Filtered, ev.Cancelled = ret.status, ret.shown, ret.filtered, ret.ended.Cancelled()
	ev.Ended, ev.Reasons = ret.ended, ret.reasons
	if ret.Failed {
		ev.Detail = memproxy.CallFailed
	}
	verdict.Sort(ev.Reasons)
	if ret.AnswerRefusal != nil { // the reasons that refused the answer come first
		led, rest := verdict.Split(ev.Reasons, func(why memproxy.Reason) bool {
			return slices.Contains(ret.AnswerRefusal.Reasons, why)
		})
		ev.Reasons = append(led, rest...)
	}
	g.accounts.recordAsync(ctx, ev)
}

// Attributes appends the decision's span attributes, under their documented names.
func (a *Admission) Attributes(to []attribute.KeyValue) []attribute.KeyValue {
	ev := a.event
	ev.Filtered = a.leftOut
	return signal.AppendEvent(to, &ev, a.op != nil && a.op.Bulk)
}
