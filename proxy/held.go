package proxy

import (
	"bytes"
	"errors"
	"net/http"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate"
)

// compensate admits a run that cannot be gated call by call. At its end, its memory
// writes are ruled on, and undone if they are not admitted. A stream is passed on at
// once, other answers after that.
func (p *Proxy) compensate(w http.ResponseWriter, r *http.Request, a *gate.Admission) {
	ctx, cancel := p.upstreamContext(r.Context(), a)
	defer cancel()
	c, err := p.runs.Watch(ctx, a, r.Header)
	if errors.Is(err, memproxy.ErrUngated) {
		if reply, refused := p.opt.Gate.Agents().Blind(ctx, a); refused {
			p.write(w, reply, nil, a)
			return
		}
		p.send(w, r, a, nil)
		return
	}
	if err != nil {
		p.abandon(w, r, a, err)
		return
	}
	settles := false
	defer func() {
		if !settles { // a panic on the way
			c.Leave()
		}
	}()
	p.opt.Gate.Agents().Watching(ctx, a)
	p.opt.Steps.At(memproxy.StepRunJournalled)
	answer := &heldAnswer{ResponseWriter: w, limit: p.opt.MaxAnswer, passes: c.Background()}
	p.send(answer, r, a, nil)
	p.opt.Steps.At(memproxy.StepRunAnswered)
	settles = true
	if answer.passes {
		c.Later()
		return
	}
	c.Settle(ctx)
	answer.release()
}

// heldAnswer holds an answer back until it is released. A stream, or an answer that
// is too large, is passed on at once.
type heldAnswer struct {
	http.ResponseWriter
	limit  int64
	passes bool

	status int
	body   bytes.Buffer
}

func (h *heldAnswer) WriteHeader(code int) {
	if strings.HasPrefix(h.Header().Get("Content-Type"), "text/event-stream") {
		h.passes = true
	}
	if h.passes {
		h.ResponseWriter.WriteHeader(code)
	} else if h.status == 0 && code >= 200 {
		h.status = code
	}
}

func (h *heldAnswer) Write(b []byte) (int, error) {
	if h.passes {
		return h.ResponseWriter.Write(b)
	}
	if int64(h.body.Len()+len(b)) > h.limit {
		h.release()
		h.passes = true
		return h.ResponseWriter.Write(b)
	}
	return h.body.Write(b)
}

// FlushError lets http.ResponseController flush an answer that is passed on.
func (h *heldAnswer) FlushError() error {
	if !h.passes {
		return nil
	}
	return http.NewResponseController(h.ResponseWriter).Flush()
}

// release sends the answer that was held back.
func (h *heldAnswer) release() {
	if h.status != 0 {
		h.ResponseWriter.WriteHeader(h.status)
	}
	_, _ = h.ResponseWriter.Write(h.body.Bytes()) // the caller may have disconnected; everything is settled
	h.body.Reset()
}
