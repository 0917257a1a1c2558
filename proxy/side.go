package proxy

import (
	"context"
	"net/http"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/face"
	"github.com/memproxy/memproxy/gate"
)

// beside sends a request of the proxy's own to the backend, in the name of a
// caller where there is one: with its credentials, or with the backend's.
func (p *Proxy) beside(ctx context.Context, q memproxy.Request, body []byte, caller http.Header) (memproxy.Reply, error) {
	return p.side.As(ctx, q, body, memproxy.Header(caller), q.Header, p.opt.MaxAnswer)
}

// ask is beside for a question, with the deadline of one.
func (p *Proxy) ask(ctx context.Context, q memproxy.Request, caller http.Header) (memproxy.Reply, error) {
	ctx, cancel := context.WithTimeout(ctx, gate.DefaultFetchTimeout)
	defer cancel()
	return p.beside(ctx, q, nil, caller)
}

// side sends what the turn's caller causes.
func (t *turning) side() *face.Side { return t.p.side.For(t.a.Call().Caller()) }
