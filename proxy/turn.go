package proxy

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/agentrun"
	"github.com/memproxy/memproxy/frontend"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/gate/backend"
	"github.com/memproxy/memproxy/telemetry/signal"
)

// maxRequests is the maximum number of requests of one turn. Letta's limit is 50 steps.
const maxRequests = 200

type agentTurn struct {
	p        *Proxy
	w        *answerWriter
	r        *http.Request
	a        *gate.Admission
	turn     memproxy.Turn
	watchdog *watchdog
	// begun is set once the caller has received a status; a later failure must be
	// reported in the stream. gone is set when the caller disconnected; the turn is
	// finished nevertheless, because the agent would wait for ever.
	begun, gone bool
	sent        bool // a request of the turn may have reached the backend
	refused     bool // the caller received the backend's error answer to a later request
	status      int
	header      http.Header                // header of the first answer, if it was not streamed
	agent       string                     // the agent whose tools are locked
	unlock      []func()                   // release its lock and the turn's
	waiting     []*gate.Admission          // admitted calls that the next request makes
	ruled       map[string]*gate.Admission // the rulings on the calls of the next or the last request
	resumes     bool                       // the agent's last turn was interrupted and had the same caller
	spent       bool                       // no later turn may make the pending calls: they may have been made, or were cancelled
	streams     bool                       // the last answer was streamed
	body        []byte                     // body of the last answer, if it was not streamed
	recorded    *agentrun.Stream           // the recorded stream, once the turn is prepared
	seq         int64
	ending      bool // the events being sent are the last ones
}

// takeTurn runs an agent, request by request, ruling on each gated tool call before
// the backend runs it.
func (p *Proxy) takeTurn(w *answerWriter, r *http.Request, a *gate.Admission, turn memproxy.Turn) {
	ctx, cancel := newWatchdog(context.WithoutCancel(r.Context()), p.severed, p.opt.RunTimeout)
	defer cancel()
	t := &agentTurn{p: p, w: w, r: r, a: a, turn: turn, watchdog: ctx}
	defer func() {
		for _, unlock := range t.unlock {
			unlock()
		}
	}()
	defer a.ReleaseLocks()
	whole := false
	unlock, err := p.runs.Locks.Lock(ctx, agentrun.Exclusive, "turn "+turn.Key())
	if err == nil {
		t.unlock = append(t.unlock, unlock)
		err = t.prepare(ctx)
	}
	switch {
	case errors.Is(err, memproxy.ErrUngated):
		p.ungated(w, r, a)
		return
	case err != nil:
		t.fail(ctx, err)
		return
	}
	left := slices.ContainsFunc(turn.PendingCalls(), func(c memproxy.ToolCall) bool { return c.FromEarlierTurn })
	same, done := p.runs.TrackTurn(ctx, turn.Key(), &a.Principal, left)
	t.resumes = same
	defer func() { done(whole, t.spent) }()
	t.recorded = p.runs.Streams.Begin(turn)
	complete := false
	defer func() { t.recorded.End(complete) }()
	if err = t.sendRequests(ctx); err != nil && !t.refused {
		t.fail(ctx, err)
		return
	}
	cancelled := t.cancelled(ctx) // the model may have called while the run was being cancelled, and its calls wait
	whole, t.spent = !cancelled && !a.IsForeignStream() && !t.refused, t.spent || cancelled
	complete = true
	end := memproxy.StreamWhole
	if t.gone {
		end = disconnected(p.severed)
	}
	p.opt.Gate.RecordUnfiltered(context.WithoutCancel(ctx), a, t.status, end)
}

func (p *Proxy) ungated(w *answerWriter, r *http.Request, a *gate.Admission) {
	if reply, refused := p.opt.Gate.Agents().RuleUngated(r.Context(), a, true); refused {
		w.reply(reply)
		return
	}
	p.forward(w, r, a, nil)
}

// prepare sends the turn's side requests, with the agent's tools locked.
func (t *agentTurn) prepare(ctx context.Context) error {
	return backend.Prepare(t.turn, backend.MaxPrepare, func(q memproxy.Request) (memproxy.Reply, error) {
		if agent := t.turn.Agent(); agent != t.agent {
			unlock, err := t.p.runs.Locks.Lock(ctx, agentrun.Shared, "agent "+agent)
			if err != nil {
				return memproxy.Reply{}, err
			}
			t.agent, t.unlock = agent, append(t.unlock, unlock)
		}
		q.Header = memproxy.Header(t.r.Header)
		ctx, cancel := t.p.backend.Within(ctx)
		defer cancel()
		return t.p.side.For(t.a.Call().Caller()).Fetch(ctx, q)
	})
}

func (t *agentTurn) sendRequests(ctx context.Context) error {
	for n := range maxRequests {
		if over, err := t.previewApprovalCalls(ctx); err != nil || over && n > 0 {
			return err
		}
		if err := t.ruleOnPending(ctx); err != nil {
			return err
		}
		answered := t.p.opt.Gate.Agents().BeginSend(t.a)
		over, err := t.sendRequest(ctx)
		t.spent = t.spent && err != nil
		looked := t.recordEdits(ctx) // also after an interrupted request, because its calls may have run
		answered()
		if err != nil || over {
			return err
		}
		if ctx.Err() != nil { // stopped while the changes were read back
			return context.Cause(ctx)
		}
		if refused, is := errors.AsType[*backend.LookupError](looked); is {
			return errors.New(refused.Error()) // the caller's request was not refused: its client would repeat it, and it runs
		}
		if looked != nil {
			return looked
		}
	}
	return agentrun.ErrRequests
}

// sendRequest sends one request and handles its answer. over reports whether the turn is
// over.
func (t *agentTurn) sendRequest(ctx context.Context) (over bool, err error) {
	if t.cancelled(ctx) {
		return true, t.cancel(ctx)
	}
	body := t.turn.Next()
	ctx, span := t.p.opt.Tracer.Start(ctx, signal.SpanForward, trace.WithSpanKind(trace.SpanKindClient))
	defer span.End()
	out := t.p.outgoing(ctx, t.r, t.a, nil)
	out.ContentLength, out.GetBody = int64(len(body)), nil
	out.Header["Accept-Encoding"] = []string{"identity"}
	frontend.DropDigests(out.Header)
	waiting, made := t.waiting, t.spent
	for pause := notStored; ; pause *= 2 {
		last := t.status == 0 || pause > lastNotStored
		out.Body = io.NopCloser(bytes.NewReader(body))
		if over, err = t.attempt(ctx, out, last); !errors.Is(err, memproxy.ErrNotStored) {
			return over, err
		}
		t.waiting, t.spent = waiting, made
		if last {
			t.abandonWaiting(ctx)
			return over, err
		}
		select {
		case <-ctx.Done():
			t.abandonWaiting(ctx)
			return false, context.Cause(ctx)
		case <-time.After(pause):
			t.watchdog.timer.Reset(t.watchdog.most) // an event of the refusal has stopped it
		}
	}
}

// attempt sends a request and handles its answer. A refusal because the backend has not stored
// the pause is memproxy.ErrNotStored; the caller receives that of the last attempt.
func (t *agentTurn) attempt(ctx context.Context, out *http.Request, last bool) (over bool, err error) {
	resp, err := t.p.opt.Transport.RoundTrip(out)
	if errors.As(err, new(frontend.UnsentError)) {
		t.abandonWaiting(ctx)
		return false, err
	}
	made, waiting := t.spent, t.waiting // made: by memproxy itself
	t.sent, t.spent, t.waiting = true, made || len(waiting) > 0, nil
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	frontend.RewriteLocation(resp.Header, t.p.opt.Upstream, t.r.Header)
	first := t.status == 0
	if first {
		t.status = resp.StatusCode
	}
	switch {
	case resp.StatusCode == http.StatusNotFound && !last:
		return false, memproxy.ErrNotStored
	case !memproxy.IsSuccess(resp.StatusCode):
		if first {
			return true, t.passError(ctx, resp)
		}
		if resp.StatusCode == http.StatusNotFound {
			t.waiting = waiting // none was made
		}
		if t.cancelled(ctx) {
			return true, t.cancel(ctx)
		}
		t.abandonWaiting(ctx)
		if resp.StatusCode <= http.StatusInternalServerError { // the others are an intermediary's, which does not know
			t.spent = made
		}
		// Clients retry on a conflict. This one is about memproxy's request, not theirs.
		if !t.begun && resp.StatusCode != http.StatusConflict {
			t.status = resp.StatusCode
			resp.Header.Set("X-Should-Retry", "false") // the server has the message already: a client that repeats it sends it twice
			if err = t.passError(ctx, resp); err != nil {
				return false, err
			}
			t.refused = true
		}
		return false, fmt.Errorf("a later request of the turn returned status %d", resp.StatusCode)
	case frontend.EventStream(resp.Header):
		return t.handleStream(ctx, resp, last)
	}
	return t.handleJSON(ctx, resp)
}

func (t *agentTurn) handleJSON(ctx context.Context, resp *http.Response) (bool, error) {
	body, free, err := t.read(ctx, resp)
	defer free()
	if err != nil {
		return false, err
	}
	if t.header == nil {
		t.header = resp.Header
	}
	if err := t.turn.ReadAnswer(body); err != nil {
		return false, err
	}
	t.recordEvents(nil)
	t.streams, t.body = false, body
	if t.turn.Paused() {
		return false, nil
	}
	return true, t.finish(ctx)
}

// read reads an answer within the lease. If there is no room for it, the turn ends: the
// agent waits, and its next turn continues.
func (t *agentTurn) read(ctx context.Context, resp *http.Response) (body []byte, free func(), err error) {
	lease := t.w.lease
	before := lease.Holds()
	body, _, err = frontend.ReadAnswer(resp, t.p.opt.MaxAnswer, func(n int64) error { return lease.Grow(ctx, n) })
	return body, func() { lease.Keep(before) }, err
}

func (t *agentTurn) passError(ctx context.Context, resp *http.Response) error {
	body, free, err := t.read(ctx, resp)
	defer free()
	if err != nil {
		return err
	}
	t.header, t.begun = resp.Header, true
	_ = t.recordEdits(ctx) // before the answer, as in finish
	t.sendAnswer(ctx, body, body)
	return nil
}

// sendAnswer sends an answer of the run after the gate has filtered it; body is the original,
// for comparison.
func (t *agentTurn) sendAnswer(ctx context.Context, answer, body []byte) {
	got := t.p.opt.Gate.FilterRunAnswer(ctx, t.a, memproxy.Reply{Status: t.status, Header: memproxy.Header(t.header), Body: answer})
	t.status = got.Status
	t.p.passOn(t.w, got, !frontend.SameBytes(got.Body, body))
}

func (t *agentTurn) handleStream(ctx context.Context, resp *http.Response, last bool) (bool, error) {
	body, err := frontend.Inflate(t.watchdog.stream(resp.Body), resp.Header)
	if err != nil {
		return false, err
	}
	if !t.begun {
		frontend.DropEntityHeaders(resp.Header)
		t.p.copyResponseHeaders(t.w, resp.Header)
		t.w.WriteHeader(resp.StatusCode)
		t.begun = true
	}
	in := frontend.NewEventReader(body, t.p.opt.MaxAnswer, t.w.lease)
	var refusal error
	for {
		event, err := in.Next(ctx)
		if err == io.EOF {
			break
		}
		if err != nil {
			return false, err
		}
		out, err := t.turn.Event(event)
		if err != nil && !(last && errors.Is(err, memproxy.ErrNotStored)) {
			return false, err
		}
		refusal = cmp.Or(refusal, err)
		if t.endsTurn(event) {
			_ = t.recordEdits(ctx) // before the client knows, as in finish
		}
		t.sendFiltered(ctx, out)
		if t.a.IsForeignStream() {
			return true, nil
		}
	}
	t.streams, t.body, t.refused = true, nil, refusal != nil
	if t.turn.Paused() {
		return false, refusal
	}
	return true, errors.Join(refusal, t.finish(ctx))
}

// endsTurn reports whether an event has a name, such as an error: clients stop reading there.
func (t *agentTurn) endsTurn(event []byte) bool {
	if !bytes.Contains(event, []byte("event:")) || t.turn.Paused() {
		return false
	}
	_, lines := memproxy.SplitStreamEvent(event)
	return memproxy.HasEventName(lines)
}

// recordEvents records the events that are sent to the caller, with their numbers if they have
// any.
func (t *agentTurn) recordEvents(events [][]byte) {
	seq, said := t.turn.Seq()
	switch {
	case t.ending || seq == t.seq && !said:
		seq = 0
	case seq == t.seq: // a keep-alive event repeats the last number, and is replayed with that event
	case len(events) > 0: // withheld events get their number when they are sent
		t.seq = seq
	}
	t.recorded.Append(t.turn, seq, events)
}

func (t *agentTurn) sendFiltered(ctx context.Context, events [][]byte) {
	for i, e := range events {
		events[i] = t.p.opt.Gate.Event(ctx, t.a, e)
	}
	t.send(events)
}

// send writes events. The caller may have disconnected.
func (t *agentTurn) send(events [][]byte) {
	t.recordEvents(events)
	if t.gone || len(events) == 0 {
		return
	}
	t.gone = deliver(t.w, http.NewResponseController(t.w), events...) != nil
}

// fail ends an interrupted turn. Calls without a ruling were not made: the agent waits,
// and its next turn answers them.
func (t *agentTurn) fail(ctx context.Context, err error) {
	end := streamEnd(ctx, t.p.severed, err)
	t.gone = t.gone || end != memproxy.StreamStopped && t.r.Context().Err() != nil // a stop ends that context as well
	if !t.begun {
		t.p.abandon(t.w, t.r, t.a, !t.sent, err)
		return
	}
	if t.gone {
		end = disconnected(t.p.severed)
	}
	t.p.opt.Log.WarnContext(ctx, "a turn was interrupted", "backend", t.p.opt.Name, "decision", t.a.Decision.ID, "ended", string(end), "error", err)
	reply := t.p.opt.Gate.Abandon(context.WithoutCancel(ctx), t.a, end)
	t.send([][]byte{memproxy.JoinStreamEvent(reply.Body, []byte("event: error"))})
}
