package extproc

import (
	"context"
	"net/http"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/frontend"
)

// headTime bounds the GET behind a HEAD.
const headTime = 60 * time.Second

// reader requests a whole answer from the backend.
type reader interface {
	Whole(context.Context, memproxy.Request, int64) (memproxy.Reply, error)
}

// whole answers a HEAD whose answer would be filtered; nil means that Envoy
// continues. Envoy does not let a filter change the method, so the processor sends
// the corresponding GET itself, and filters its answer.
func (an *answer) whole() *response {
	x := an.x
	a := x.admission
	ask, ok := x.entry.Call.Backend.Fetch.(reader) // counted as the caller's
	if frontend.Asks(x.req.Method, a) == x.req.Method || !ok {
		return nil
	}
	q := a.Call().Request
	q.Method, q.Query = http.MethodGet, a.Query
	ctx, cancel := context.WithTimeout(x.forwarded, headTime)
	defer cancel()
	reply, err := ask.Whole(ctx, q, x.b.MaxAnswer)
	x.arrived()
	if err != nil {
		return x.unread(err)
	}
	defer x.entry.Lease.Done()
	if an.reserve(int64(len(reply.Body))) != nil {
		return x.unread(frontend.ErrBusy)
	}
	an.reply, x.status = reply, reply.Status
	changed, refusal := an.returned(reply.Body)
	if refusal != nil {
		return refusal
	}
	h := an.header(changed)
	delete(h, "Content-Length") // Envoy sets it
	an.reply.Header = memproxy.Header(h)
	return immediate(an.reply, &a.Decision)
}
