package proxy

import (
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/memproxy/memproxy/frontend"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/internal/wait"
)

// drainTimeout bounds the reading of the rest of an unwanted body.
const drainTimeout = time.Second

// paced puts a deadline on the body of a request, on every route and for every
// reader, and on writes to one stream of a multiplexed connection (HTTP/2). A
// request that is paced already is left unchanged.
func paced(w http.ResponseWriter, r *http.Request, timeout, stall time.Duration) (*answerWriter, *http.Request) {
	if aw, is := w.(*answerWriter); is {
		return aw, r
	}
	aw := &answerWriter{ResponseWriter: w, multiplexed: r.ProtoMajor > 1, stall: stall}
	if r.Body == nil || r.Body == http.NoBody {
		return aw, r
	}
	aw.body = &pacedBody{ReadCloser: r.Body, ctl: http.NewResponseController(w), allowed: timeout, left: timeout}
	// The deadline also covers what the server itself reads of the body, if no
	// handler does.
	_ = aw.body.ctl.SetReadDeadline(time.Now().Add(timeout)) // unsupported only in tests' recorders
	r = r.WithContext(r.Context())                           // the server looks at the body in its own request
	r.Body = aw.body
	return aw, r
}

// pacedBody is a request body with a minimum pace: its reader may wait for as long as
// allowed, and received data extends that. Time without a read does not count.
//
// A transport reads it in its own goroutine, also after the answer has begun and after
// its end. Therefore the end of the body is recorded, whatever the server does with its
// own body, and no read starts once the handler has returned.
type pacedBody struct {
	io.ReadCloser
	ctl     *http.ResponseController
	allowed time.Duration

	mu     sync.Mutex
	left   time.Duration
	ended  bool
	closed bool // by its reader, or because the handler is done
}

// Read fails if the body does not arrive in time.
func (b *pacedBody) Read(p []byte) (int, error) {
	start := time.Now()
	if err := b.begin(start); err != nil {
		return 0, err
	}
	n, err := b.ReadCloser.Read(p)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left = min(b.allowed, b.left-time.Since(start)+time.Duration(n)*time.Second/frontend.Slowest)
	if err == io.EOF {
		b.ended = true
		_ = b.ctl.SetReadDeadline(time.Time{}) // from here on the server detects whether the caller disconnects
	}
	return n, err
}

func (b *pacedBody) begin(start time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.ended:
		return io.EOF
	case b.closed:
		return http.ErrBodyReadAfterClose
	}
	_ = b.ctl.SetReadDeadline(start.Add(b.left))
	return nil
}

// Close ends reading. The body itself is closed by the server, when the handler
// is done.
func (b *pacedBody) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	return nil
}

func (b *pacedBody) whole() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ended
}

// hurry shortens the deadline of a body whose rest is unwanted.
func (b *pacedBody) hurry() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.left = min(b.left, drainTimeout); !b.ended {
		_ = b.ctl.SetReadDeadline(time.Now().Add(b.left))
	}
}

// answerWriter records the status that was sent, and puts a deadline on writes. Over
// HTTP/1 the connection has one; a stream of a multiplexed connection needs its own.
type answerWriter struct {
	http.ResponseWriter
	body        *pacedBody // nil without one
	code        int        // 0 until the answer begins
	multiplexed bool
	stall       time.Duration
	accepted    func(remote, caller string) // or nil
	lease       *frontend.Lease
	torn        bool   // the answer is incomplete: the connection is aborted without its end, or the HTTP/2 stream reset
	ruled       bool   // the answer is for one caller only
	before      func() // is called before an answer that is no stream of events; or nil
}

func (w *answerWriter) WriteHeader(code int) {
	if w.code == 0 && code >= 200 {
		if w.before != nil && !frontend.EventStream(w.Header()) {
			w.before()
		}
		w.begin(code)
		if w.ruled {
			frontend.Uncached(w.Header())
		}
	}
	w.ResponseWriter.WriteHeader(code)
}

func (w *answerWriter) Write(b []byte) (written int, err error) {
	if w.code == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if !w.multiplexed {
		return w.ResponseWriter.Write(b)
	}
	ctl := http.NewResponseController(w.ResponseWriter)
	for {
		piece := b[:min(len(b), frontend.WritePiece)]
		_ = ctl.SetWriteDeadline(time.Now().Add(w.stall)) // unsupported only in tests' recorders
		n, err := w.ResponseWriter.Write(piece)
		written += n
		if b = b[n:]; err != nil || len(b) == 0 {
			break
		}
	}
	_ = ctl.SetWriteDeadline(time.Time{}) // a stream may be silent for long
	return written, err
}

// FlushError flushes with a deadline.
func (w *answerWriter) FlushError() error {
	ctl := http.NewResponseController(w.ResponseWriter)
	if w.multiplexed {
		_ = ctl.SetWriteDeadline(time.Now().Add(w.stall))
		defer func() { _ = ctl.SetWriteDeadline(time.Time{}) }()
	}
	return ctl.Flush()
}

// end marks the end of the handler. It bounds what the server itself still reads of
// the body and sends of a stream.
func (w *answerWriter) end() {
	if w.code == 0 {
		w.begin(http.StatusOK)
	}
	if w.body != nil {
		_ = w.body.Close()
		w.body.hurry()
	}
	if w.multiplexed {
		_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Now().Add(w.stall))
	}
}

// begin marks the start of the answer. An HTTP/1 connection on which the request's
// body has not ended by then is closed after the answer, with Connection: close. If
// it were kept, the server would read the rest of the body and close it while the
// transport still reads it; the transport would abort the upstream connection and
// with it the answer. Delaying the answer until the body has ended could wait for
// ever, if the backend does not read on.
func (w *answerWriter) begin(code int) {
	if w.body != nil && !w.multiplexed && !w.body.whole() {
		w.Header().Set("Connection", "close")
	}
	w.code = code
}

// Unwrap lets http.ResponseController reach the connection.
func (w *answerWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// drainMost bounds, in bytes, how much of an unwanted body is read so that an
// ordinary client keeps its connection.
const drainMost = 256 << 10

func drain(r *http.Request) {
	b, ok := r.Body.(*pacedBody)
	if !ok || r.ContentLength > drainMost {
		return
	}
	b.hurry()
	_, _ = io.CopyN(io.Discard, b, drainMost) // if the body does not arrive, the connection is closed
}

// dawdleTime is how long the sender of a flood of rejected requests waits for an
// answer.
const dawdleTime = time.Second

// accept attributes a request to its caller before the body is read: its connection,
// bytes and place then count as the caller's. If the caller has too many, the request
// is refused, in shadow mode as well.
func accept(w *answerWriter, r *http.Request, e *frontend.Entry) (accepted bool) {
	if w.accepted != nil {
		caller, _ := e.Call.Caller()
		w.accepted(r.RemoteAddr, caller)
	}
	return e.Enter(r.Context())
}

// decided adds the decision's header to an answer, and marks it as not cacheable. The
// sender of a flood is delayed, which costs the sender more than memproxy.
func decided(w *answerWriter, r *http.Request, a *gate.Admission) {
	if a.Flooded {
		_ = wait.Sleep(r.Context(), dawdleTime) // or until the sender disconnects
	}
	w.Header().Set(frontend.DecisionHeader, frontend.Decision(a.Shown()))
	w.ruled = !a.Shadow()
}
