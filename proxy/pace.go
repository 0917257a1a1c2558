package proxy

import (
	"io"
	"maps"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/frontend"
	"github.com/memproxy/memproxy/gate"
)

// drainTimeout is how long the rest of an unwanted body is read.
const drainTimeout = time.Second

// paced sets deadlines on reading a request's body, on every route and for every reader,
// and on writes to one stream of a multiplexed connection (HTTP/2). It leaves a request
// unchanged that is paced already.
func paced(w http.ResponseWriter, r *http.Request, timeout, stall time.Duration) (*answerWriter, *http.Request) {
	if aw, is := w.(*answerWriter); is {
		return aw, r
	}
	aw := &answerWriter{ResponseWriter: w, multiplexed: r.ProtoMajor > 1, stall: stall}
	if r.Body == nil || r.Body == http.NoBody {
		return aw, r
	}
	aw.body = &pacedBody{ReadCloser: r.Body, ctl: http.NewResponseController(w), allowed: timeout, left: timeout}
	// The deadline also covers the part of the body that the server itself reads if no
	// handler does.
	_ = aw.body.ctl.SetReadDeadline(time.Now().Add(timeout)) // fails only with the recorders of tests
	r = r.WithContext(r.Context())                           // the server keeps the body in its own request
	r.Body = aw.body
	return aw, r
}

// pacedBody is a request body with a minimum rate: each read may wait for the timeout,
// and received data extends the deadline. Time without a read does not count.
//
// A transport reads the body in its own goroutine, also after the answer has begun and
// after it has ended. pacedBody therefore records the end of the body, whatever the
// server does with the underlying body, and lets no read start once the handler has
// returned.
type pacedBody struct {
	io.ReadCloser
	ctl     *http.ResponseController
	allowed time.Duration

	mu     sync.Mutex
	left   time.Duration
	ended  bool
	closed bool // by its reader, or because the handler has returned
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
	b.left = min(b.allowed, b.left-time.Since(start)+time.Duration(n)*time.Second/frontend.MinRate)
	if err == io.EOF {
		b.ended = true
		_ = b.ctl.SetReadDeadline(time.Time{}) // from here on the server watches for a disconnect of the caller
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

// Close ends reading. The server closes the underlying body when the handler has
// returned.
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

func (b *pacedBody) shortenDeadline() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left = min(b.left, drainTimeout)
	if !b.ended {
		_ = b.ctl.SetReadDeadline(time.Now().Add(b.left))
	}
}

// answerWriter records the status that was sent, and sets deadlines on writes. An HTTP/1
// connection has its own write deadline; a stream of a multiplexed connection needs this
// one.
type answerWriter struct {
	http.ResponseWriter
	body        *pacedBody // nil if the request has none
	code        int        // 0 until the answer begins; statusHungUp if the caller could not get it
	multiplexed bool
	stall       time.Duration
	lease       *frontend.Lease
	torn        bool            // the answer is incomplete: abort the connection without a regular end, or reset the HTTP/2 stream
	admission   *gate.Admission // of the request; nil if it is not ruled on
	before      func()          // called before an answer that is not a stream of events; may be nil
	hungUp      func() bool     // reports whether the caller disconnected
}

// statusHungUp stands in spans and metrics for memproxy's own error to a caller that
// disconnected, which mostly is why the request failed: nginx and Envoy count it as 499, too.
const statusHungUp = 499

func (w *answerWriter) WriteHeader(code int) {
	if w.code == 0 && code >= 200 {
		if w.before != nil && !frontend.EventStream(w.Header()) {
			w.before()
		}
		w.begin(code)
		if a := w.admission; a != nil {
			w.Header().Set(frontend.DecisionHeader, frontend.FormatDecision(a.Shown()))
			if !a.Shadow() { // the answer is for one caller only
				frontend.DisableCaching(w.Header())
			}
		}
	}
	w.ResponseWriter.WriteHeader(code)
}

func (w *answerWriter) reply(reply memproxy.Reply) {
	hungUp := reply.Status >= http.StatusInternalServerError && w.hungUp()
	maps.Copy(w.Header(), http.Header(reply.Header))
	w.writeWhole(reply)
	if hungUp {
		w.code = statusHungUp
	}
}

func (w *answerWriter) writeWhole(reply memproxy.Reply) {
	if reply.Status != http.StatusNoContent && reply.Status != http.StatusNotModified {
		w.Header()["Content-Length"] = []string{strconv.Itoa(len(reply.Body))}
	}
	w.WriteHeader(reply.Status)
	_, _ = w.Write(reply.Body) // the caller may have disconnected; the outcome is recorded already
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
		_ = ctl.SetWriteDeadline(time.Now().Add(w.stall)) // fails only with the recorders of tests
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

// end marks the end of the handler. It limits how long the server may still read the body
// and send a stream.
func (w *answerWriter) end() {
	if w.code == 0 {
		w.begin(http.StatusOK)
	}
	if w.body != nil {
		_ = w.body.Close()
		w.body.shortenDeadline()
	}
	if w.multiplexed {
		_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Now().Add(w.stall))
	}
}

// begin marks the start of the answer. If the request's body has not ended by then, an
// HTTP/1 connection is closed after the answer, with Connection: close. If the connection
// were kept, the server would read the rest of the body and close it while the transport
// still reads it; the transport would then abort the upstream connection, and the answer
// with it. Waiting for the end of the body could last for ever, if the backend does not
// read on.
func (w *answerWriter) begin(code int) {
	if w.body != nil && !w.multiplexed && !w.body.whole() {
		w.Header().Set("Connection", "close")
	}
	w.code = code
}

// Unwrap lets http.ResponseController reach the connection.
func (w *answerWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// drainMost is how much of an unwanted body is read, in bytes, so that an ordinary client
// can keep its connection.
const drainMost = 256 << 10

// drain reads an unwanted body, unless the client waits for 100 Continue: the first read sends it.
// Over HTTP/2 the server hides whether the client waits.
func drain(r *http.Request, waits bool) {
	b, ok := r.Body.(*pacedBody)
	if !ok || waits || r.ContentLength > drainMost {
		return
	}
	b.shortenDeadline()
	_, _ = io.CopyN(io.Discard, b, drainMost) // if the body does not arrive, the connection is closed
}

// floodDelay is the delay of answers to the sender of a flood of rejected requests.
const floodDelay = time.Second
