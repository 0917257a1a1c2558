package proxy

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate"
	"go.opentelemetry.io/otel/propagation"
)

// side sends a request of the proxy's own to the backend, in the name of a
// caller where there is one: with its credentials, or with the backend's.
func (p *Proxy) side(ctx context.Context, q memproxy.Request, body []byte, caller http.Header) (memproxy.Reply, error) {
	path, err := url.PathUnescape(q.EscapedPath)
	if err != nil {
		return memproxy.Reply{}, err
	}
	out := &http.Request{Method: q.Method, URL: p.join(path, q.EscapedPath, q.Query, false), Header: http.Header{}}
	for _, name := range fetchHeaders {
		if v := caller[name]; len(v) > 0 {
			out.Header[name] = v
		}
	}
	for name, v := range q.Header {
		out.Header[name] = v
	}
	out.Header.Set("Accept", "application/json")
	out.Header.Set("Accept-Encoding", "identity")
	if body != nil {
		out.Header.Set("Content-Type", "application/json")
		out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	}
	p.present(out.Header)
	p.opt.Propagator.Inject(ctx, propagation.HeaderCarrier(out.Header))
	resp, err := p.opt.Transport.RoundTrip(out.WithContext(ctx))
	if err != nil {
		return memproxy.Reply{}, err
	}
	defer resp.Body.Close()
	answer, _, err := readAnswer(resp, p.opt.MaxAnswer)
	if err != nil {
		return memproxy.Reply{}, err
	}
	return memproxy.Reply{Status: resp.StatusCode, Header: memproxy.Header(resp.Header), Body: answer}, nil
}

// ask is side for a question, with the deadline of one.
func (p *Proxy) ask(ctx context.Context, q memproxy.Request, caller http.Header) (memproxy.Reply, error) {
	ctx, cancel := context.WithTimeout(ctx, gate.DefaultFetchTimeout)
	defer cancel()
	return p.side(ctx, q, nil, caller)
}
