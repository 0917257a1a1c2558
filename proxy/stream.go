package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/frontend"
	"github.com/memproxy/memproxy/gate"
)

// Causes for which a request to the backend is cancelled before its answer is complete.
var (
	errSilent  = fmt.Errorf("the backend's stream was idle for too long: %w", context.DeadlineExceeded)
	errStopped = errors.New("memproxy is shutting down")
	errGone    = errors.New("the client disconnected")
)

// watchdog is the context of a request to the backend. It ends if the backend is idle for
// too long: until it answers, or within a stream. A stream may last as long as the backend
// sends. An answer that is read as a whole has that much time in total.
type watchdog struct {
	context.Context
	most  time.Duration // maximum idle time
	timer *time.Timer
}

// newWatchdog returns a watchdog that also ends with severed, which ends when the process
// stops.
func newWatchdog(ctx, severed context.Context, most time.Duration) (*watchdog, context.CancelFunc) {
	ctx, cut := context.WithCancelCause(ctx)
	w := &watchdog{ctx, most, time.AfterFunc(most, func() { cut(errSilent) })}
	stopped := context.AfterFunc(severed, func() { cut(errStopped) })
	return w, func() { stopped(); w.timer.Stop(); cut(nil) }
}

// Err returns DeadlineExceeded after the timeout, like any deadline.
func (w *watchdog) Err() error {
	if err := w.Context.Err(); err == nil || context.Cause(w.Context) != errSilent {
		return err
	}
	return context.DeadlineExceeded
}

// stream reads a streamed answer. Time that the client needs to read does not count as
// idle time of the backend.
func (w *watchdog) stream(r io.Reader) io.Reader {
	return readFunc(func(p []byte) (int, error) {
		w.timer.Reset(w.most)
		n, err := r.Read(p)
		if err == nil {
			w.timer.Stop()
		}
		return n, err
	})
}

// upload wraps a streamed request body: the backend's time to answer starts with the last
// piece that it read.
func (w *watchdog) upload(body io.ReadCloser) io.ReadCloser {
	return struct {
		io.Reader
		io.Closer
	}{readFunc(func(p []byte) (int, error) {
		n, err := body.Read(p)
		w.timer.Reset(w.most)
		return n, err
	}), body}
}

type readFunc func([]byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

// upstreamContext returns the context of the upstream request. A write continues when the
// caller disconnects, so that its outcome becomes known, and so does a run that is ruled
// on afterwards; a read ends with its caller. a is nil for a public route.
func (p *Proxy) upstreamContext(ctx context.Context, a *gate.Admission) (*watchdog, context.CancelFunc) {
	switch {
	case a == nil:
	case a.IsCompensated():
		return newWatchdog(context.WithoutCancel(ctx), p.severed, p.opt.RunTimeout)
	case a.Writes():
		ctx = context.WithoutCancel(ctx)
	}
	return newWatchdog(ctx, p.severed, p.opt.UpstreamTimeout)
}

// AbortAll ends all requests of clients in flight, including those that outlive their
// callers. Their outcome is recorded as unknown. Later requests of clients fail.
func (p *Proxy) AbortAll() { p.cut() }

// disconnected is how a request ended whose connection is closed: its client left, unless a
// stop closed the connection, which cancels the request's context as well.
func disconnected(severed context.Context) memproxy.StreamEnd {
	if severed.Err() != nil {
		return memproxy.StreamStopped
	}
	return memproxy.StreamGone
}

// streamEnd returns how a stream ended by the error that ended it and the cause for which
// its context was cancelled.
func streamEnd(ctx, severed context.Context, err error) memproxy.StreamEnd {
	end, cause := frontend.StreamEndOf(err), context.Cause(ctx)
	switch {
	case end != memproxy.StreamTorn, cause == nil && !errors.Is(err, errGone):
		return end
	case errors.Is(cause, errSilent) && !errors.Is(err, errGone):
		return memproxy.StreamSilent
	}
	return disconnected(severed)
}

// relay sends an answer piece by piece, as next returns the pieces, until next fails;
// io.EOF is the regular end. Every answer that is not read as a whole passes through
// relay: its outcome records what ended the answer, and the connection of an incomplete
// answer is aborted.
//
// The last piece of the answer to a bulk deletion is sent only after its outcome is
// recorded, so that a caller with the complete answer finds no held write of the deleted
// owner that could still be sent.
func (p *Proxy) relay(ctx context.Context, w *answerWriter, a *gate.Admission, status int, next func() ([]byte, error)) {
	ctl := http.NewResponseController(w)
	var last []byte
	var err error
	for err == nil {
		var piece []byte
		if piece, err = next(); len(piece) == 0 {
			continue
		}
		if a != nil && a.DeletesOwner() {
			piece, last = last, bytes.Clone(piece)
		}
		if deliver(w, ctl, piece) != nil {
			err = errGone
		}
	}
	end := streamEnd(ctx, p.severed, err)
	w.torn = end != memproxy.StreamWhole
	if end != memproxy.StreamWhole && end != memproxy.StreamGone { // clients may disconnect at any time
		p.opt.Log.WarnContext(ctx, "a stream was interrupted", "backend", p.opt.Name, "ended", string(end), "error", err)
	}
	if a != nil {
		p.opt.Gate.RecordUnfiltered(context.WithoutCancel(ctx), a, status, end)
	}
	if len(last) > 0 {
		_ = deliver(w, ctl, last) // the caller may have disconnected; the outcome is recorded already
	}
}

// deliver sends pieces to the client immediately.
func deliver(w *answerWriter, ctl *http.ResponseController, pieces ...[]byte) error {
	for _, b := range pieces {
		if _, err := w.Write(b); err != nil {
			return err
		}
	}
	if err := ctl.Flush(); !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil
}

func (p *Proxy) copyResponseHeaders(w *answerWriter, from http.Header) {
	p.opt.Credential.CopyResponseHeaders(w.Header(), from, func(names []string) bool {
		return p.opt.Gate.Headers(context.Background(), w.admission, p.opt.Name, names)
	})
}

// stream forwards an answer as it arrives. a is nil for a public route.
func (p *Proxy) stream(on *watchdog, w *answerWriter, resp *http.Response, a *gate.Admission) {
	p.copyResponseHeaders(w, resp.Header)
	w.WriteHeader(resp.StatusCode)
	body := on.stream(resp.Body)
	buf := make([]byte, 16<<10)
	p.relay(on, w, a, resp.StatusCode, func() ([]byte, error) {
		n, err := body.Read(buf)
		return buf[:n], err
	})
}

// streamFiltered forwards a stream after the gate has filtered each event. An error means that
// the stream cannot be read and that nothing was sent.
func (p *Proxy) streamFiltered(on *watchdog, w *answerWriter, resp *http.Response, a *gate.Admission) error {
	body, err := frontend.Inflate(on.stream(resp.Body), resp.Header)
	if err != nil {
		return err
	}
	frontend.DropEntityHeaders(resp.Header)
	p.copyResponseHeaders(w, resp.Header)
	w.WriteHeader(resp.StatusCode)
	if a.Call().Request.Method == http.MethodHead {
		body = http.NoBody
	}
	in := frontend.NewEventReader(body, p.opt.MaxAnswer, w.lease)
	p.relay(on, w, a, resp.StatusCode, func() ([]byte, error) {
		event, err := in.Next(on)
		if err != nil {
			return nil, err
		}
		event = p.opt.Gate.Event(on, a, event)
		if a.IsForeignStream() {
			return event, io.EOF
		}
		return event, nil
	})
	return nil
}
