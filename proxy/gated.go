package proxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/agentrun"
	"github.com/memproxy/memproxy/frontend"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/gate/backend"
	"github.com/memproxy/memproxy/internal/wait"
	"github.com/memproxy/memproxy/telemetry/signal"
)

// serveRuled asks the gate about a request. It reads the body first, unless the request
// accesses no memory and no member of its body can matter; such a body is streamed.
func (p *Proxy) serveRuled(w *answerWriter, r *http.Request, e *frontend.Entry) *gate.Admission {
	var body []byte
	var rest io.Reader // the streamed body
	var unread *memproxy.Flaw
	switch {
	case !e.Identify(r.Context()): // do not read the body of a caller that is not accepted
		drain(r, e.Call.Credentials.Header.Get("Expect") != "")
	case !e.Enter(r.Context()):
	case e.Class.ReadsBody():
		body, rest, unread = takeBody(w, r, p.opt.MaxBody)
	}
	e.CheckBody(body)
	a := e.Admit(r.Context(), body, unread)
	if a.Reply != nil {
		w.lease.Keep(int64(len(a.Reply.Body)))
	}
	if a.RateLimited {
		_ = wait.Sleep(r.Context(), floodDelay) // or until the sender disconnects
	}
	w.admission = a
	switch {
	case a.Reply == nil && unread != nil && rest == nil:
		a.Next = gate.Reply{Reply: p.opt.Gate.AbandonUnreadable(context.WithoutCancel(r.Context()), a, unread)}
	case e.Class.Handling == frontend.Gated, rest != nil:
	case len(body) > 0:
		rest = bytes.NewReader(body)
	case r.ContentLength != 0:
		rest = r.Body
	}
	p.perform(w, r, a, a.Next, rest)
	if a.IsCompensated() {
		p.compensate(w, r, a)
	}
	return a
}

func (p *Proxy) perform(w *answerWriter, r *http.Request, a *gate.Admission, next gate.Next, rest io.Reader) {
	switch next := next.(type) {
	case gate.Reply:
		w.reply(next.Reply)
	case gate.Resume:
		if ch := p.runs.Streams.Resumed(next.Resumption); ch != nil {
			p.resume(w, r, a, ch, next.After)
		} else if reply, refused := p.opt.Gate.Agents().RefuseByNameStream(r.Context(), a); refused {
			w.reply(reply)
		} else {
			p.perform(w, r, a, next.Else, rest)
		}
	case gate.RunAgent:
		p.takeTurn(w, r, a, next.Turn)
	case gate.Probe, gate.ChangeTools:
		p.forwardLocked(w, r, a, next, rest)
	default:
		p.forward(w, r, a, rest)
	}
}

func (p *Proxy) forwardLocked(w *answerWriter, r *http.Request, a *gate.Admission, next gate.Next, rest io.Reader) {
	ctx, cancel := context.WithTimeout(r.Context(), p.opt.UpstreamTimeout)
	defer cancel()
	err := withToolsLocked(ctx, p, a, next, func() { p.forward(w, r, a, rest) })
	switch {
	case errors.Is(err, memproxy.ErrUngated):
		p.ungated(w, r, a)
	case err != nil:
		p.abandon(w, r, a, true, err)
	}
}

// withToolsLocked sends an admitted request. If the request changes an agent's tools, no turn
// of the agent may be in progress: a tool that is added during a turn would write without
// a pause. If it runs a tool, it is sent once it is known which one.
func withToolsLocked(ctx context.Context, p *Proxy, a *gate.Admission, next gate.Next, send func()) error {
	agent, alone := "", agentrun.Shared
	probe, probes := next.(gate.Probe)
	rearm, rearms := next.(gate.ChangeTools)
	switch {
	case probes:
		agent = probe.Agent
	case rearms:
		agent, alone = rearm.Agent, agentrun.Exclusive
	default:
		send()
		return nil
	}
	unlock, err := p.runs.Locks.Lock(ctx, alone, "agent "+agent)
	if err != nil {
		return err
	}
	defer unlock() // a compensated run takes this lock itself
	if probes {
		if err := p.opt.Gate.Agents().Probe(ctx, a, probe); err != nil {
			return err
		}
	}
	send()
	return nil
}

// takeBody reads the body up to the limit; ServeHTTP sets its deadline. A larger body is
// a flaw, which the gate refuses and records. rest is then the whole body, because shadow
// mode still forwards it.
func takeBody(w *answerWriter, r *http.Request, limit int64) (body []byte, rest io.Reader, flaw *memproxy.Flaw) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil, nil
	}
	if r.ContentLength > limit {
		return nil, r.Body, frontend.TooLarge(limit) // refuse by the declared length, without reading the body
	}
	body, err := frontend.ReadGrown(r.Body, r.ContentLength, limit, func(n int64) error { return w.lease.Grow(r.Context(), n) })
	if err == nil {
		err = w.lease.Work(r.Context(), frontend.BodyCost*int64(len(body)))
	}
	switch {
	case errors.Is(err, frontend.ErrBusy):
		return nil, nil, frontend.Busy()
	case errors.Is(err, frontend.ErrTooLarge):
		return nil, io.MultiReader(bytes.NewReader(body), r.Body), frontend.TooLarge(limit)
	case err != nil:
		return nil, nil, frontend.BodyFlaw(err)
	}
	return body, nil, nil
}

// forward sends an admitted request. It leaves a compensated run to compensate, which
// sends it after the turn that detected it has released its locks.
func (p *Proxy) forward(w *answerWriter, r *http.Request, a *gate.Admission, rest io.Reader) {
	if !a.IsCompensated() {
		p.send(w, r, a, rest)
	}
}

func (p *Proxy) send(w *answerWriter, r *http.Request, a *gate.Admission, rest io.Reader) {
	on, cancel := p.upstreamContext(r.Context(), a)
	defer cancel()
	ctx, span := p.opt.Tracer.Start(on, signal.SpanForward, trace.WithSpanKind(trace.SpanKindClient))
	defer span.End()
	asked := runQueryOf(a, &p.runs.Streams)
	defer asked.release(memproxy.Reply{})
	out := p.outgoing(ctx, r, a, rest)
	transport := p.opt.Transport
	if a.Call().NoMemoryAccess {
		transport = p.opt.PassTransport
	}
	if rest != nil {
		out.Body = on.upload(out.Body)
	}
	resp, err := transport.RoundTrip(out)
	if err != nil {
		p.abandon(w, r, a, errors.As(err, new(frontend.UnsentError)), err)
		return
	}
	defer resp.Body.Close()
	frontend.RewriteLocation(resp.Header, p.opt.Upstream, r.Header)
	switch {
	case frontend.LeadsAway(ctx, p.opt.Gate, a, resp.StatusCode, resp.Header):
		p.answer(ctx, w, resp, a, nil, false) // the gate refuses it by its head
		return
	case a.ErrorsByStatus && resp.StatusCode >= http.StatusBadRequest:
		p.opt.Gate.RecordUnfiltered(context.WithoutCancel(on), a, resp.StatusCode, memproxy.StreamWhole)
		w.reply(frontend.Failed(resp.StatusCode))
		return
	case !a.Inspect:
		p.stream(on, w, resp, a)
		return
	case a.Streams() && frontend.EventStream(resp.Header):
		if err := p.streamFiltered(on, w, resp, a); err != nil {
			p.abandon(w, r, a, false, err)
		}
		return
	}
	body, decoded, err := readAnswer(ctx, w, resp, a, p.opt.MaxAnswer)
	span.End()
	if err == nil && asked != nil {
		body, err = asked.oneAnswer(ctx, p.side, resp, body)
		decoded = true
	}
	if err != nil {
		p.abandon(w, r, a, false, err)
		return
	}
	p.answer(ctx, w, resp, a, body, decoded)
}

func (p *Proxy) outgoing(ctx context.Context, r *http.Request, a *gate.Admission, rest io.Reader) *http.Request {
	out := p.upstreamRequest(ctx, r, a.Query, p.opt.AdmittedHeaders(r.Header, a))
	out.Method = frontend.UpstreamMethod(r.Method, a)
	switch {
	case rest != nil:
		out.Body, out.ContentLength = io.NopCloser(rest), r.ContentLength
	case len(a.Body) > 0:
		frontend.SetBody(out, a.Body)
	}
	if a.Changed {
		frontend.DropDigests(out.Header)
	}
	p.opt.Propagator.Inject(ctx, propagation.HeaderCarrier(out.Header))
	return out
}

// abandon answers for a backend that did not answer, or whose answer cannot be read, and
// records the outcome. If the backend refused a look-up as it would have refused the
// request, the caller gets that answer. unsent means that the request was certainly not
// sent, whatever was sent for it.
func (p *Proxy) abandon(w *answerWriter, r *http.Request, a *gate.Admission, unsent bool, err error) {
	if refused, is := errors.AsType[*backend.LookupError](err); is && refused.IsForClient() {
		got := p.opt.Gate.Return(context.WithoutCancel(r.Context()), a, refused.Reply)
		p.passOn(w, got, true)
		return
	}
	if why := frontend.AnswerFlaw(err, p.opt.MaxAnswer); why != nil && !unsent {
		p.opt.Log.WarnContext(r.Context(), "the response is withheld", "backend", p.opt.Name, "decision", a.Decision.ID, "error", err)
		w.reply(p.opt.Gate.AbandonUnreadable(context.WithoutCancel(r.Context()), a, why))
		return
	}
	var end memproxy.StreamEnd
	if errors.Is(err, errStopped) || r.Context().Err() != nil {
		end = disconnected(p.severed)
	}
	p.opt.Log.WarnContext(r.Context(), "the backend did not respond", "backend", p.opt.Name, "decision", a.Decision.ID, "cancelled", end.Cancelled(), "error", err)
	abandon := p.opt.Gate.Abandon
	if unsent {
		abandon = p.opt.Gate.AbandonUnsent
	}
	reply := abandon(context.WithoutCancel(r.Context()), a, end)
	if errors.Is(err, context.DeadlineExceeded) {
		reply.Status = http.StatusGatewayTimeout
	}
	w.reply(reply)
}

// passOn sends an answer as the gate returned it: the backend's, or a refusal in its place.
// changed means that its bytes differ from the backend's.
func (p *Proxy) passOn(w *answerWriter, got memproxy.Reply, changed bool) {
	if w.admission != nil && w.admission.AnswerRefusal != nil {
		w.reply(got)
		return
	}
	header := http.Header(got.Header)
	if changed {
		frontend.DropEntityHeaders(header)
	}
	p.copyResponseHeaders(w, header)
	w.writeWhole(got)
}

// readAnswer reads an answer to its end, within a size limit and the lease. decoded reports
// that it was decompressed.
func readAnswer(ctx context.Context, w *answerWriter, resp *http.Response, a *gate.Admission, limit int64) (body []byte, decoded bool, err error) {
	body, decoded, err = frontend.ReadAnswer(resp, limit, func(n int64) error {
		if a.Writes() { // the write has happened, so its outcome must become known
			w.lease.Force(n)
			return nil
		}
		return w.lease.Grow(ctx, n)
	})
	if err == nil && !a.Writes() {
		err = w.lease.Work(ctx, frontend.AnswerCost*int64(len(body)))
	}
	return body, decoded, err
}

// answer passes a complete answer through the gate, and sends the result.
func (p *Proxy) answer(ctx context.Context, w *answerWriter, resp *http.Response, a *gate.Admission, body []byte, decoded bool) {
	reply := memproxy.Reply{Status: resp.StatusCode, Header: memproxy.Header(resp.Header), Body: body}
	got := p.opt.Gate.Return(context.WithoutCancel(ctx), a, reply)
	w.lease.Done()
	w.lease.Keep(int64(len(got.Body)))
	p.follower.Follow(a)
	frontend.SetListHeaders(a, w.Header().Set)
	p.passOn(w, got, decoded || !frontend.SameBytes(got.Body, body))
}

// compensate forwards a run whose calls cannot be gated individually. At its end its
// memory writes are ruled on, and undone if they are not admitted. A stream is forwarded
// immediately, any other answer after that.
func (p *Proxy) compensate(w *answerWriter, r *http.Request, a *gate.Admission) {
	ctx, cancel := p.upstreamContext(r.Context(), a)
	defer cancel()
	c, err := p.runs.Compensate(ctx, a, r.Header)
	if errors.Is(err, memproxy.ErrUngated) {
		if reply, refused := p.opt.Gate.Agents().RuleUngated(ctx, a, false); refused {
			w.reply(reply)
			return
		}
		p.send(w, r, a, nil)
		return
	}
	if err != nil {
		p.abandon(w, r, a, true, err)
		return
	}
	settles := false
	defer func() {
		if !settles { // reached only by a panic
			c.Abandon()
		}
	}()
	p.opt.Gate.Agents().RecordCompensated(ctx, a)
	p.opt.Steps.At(memproxy.StepRunJournalled)
	answered := func() {
		p.opt.Steps.At(memproxy.StepRunAnswered)
		settles = true
	}
	if !c.Background() {
		w.before = func() {
			answered()
			c.Settle(ctx)
		}
	}
	p.send(w, r, a, nil)
	if !settles {
		answered()
		c.SettleLater()
	}
}
