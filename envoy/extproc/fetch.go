package extproc

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate"
	"go.opentelemetry.io/otel/propagation"
)

// FetchOptions configure a fetcher.
type FetchOptions struct {
	// Upstream is the backend's base URL; a path in it is a prefix.
	Upstream  *url.URL
	Transport http.RoundTripper
	// Credential replaces the client's backend credential, if set.
	Credential *Credential
	Propagator propagation.TextMapPropagator
	// Max bounds one answer, in bytes. Default 1 MiB.
	Max int64
}

// fetcher sends the gate's side requests: Envoy lends its filters no client
// of their own.
type fetcher struct{ opt FetchOptions }

// fetchHeaders are the client headers that a side request carries: who asks,
// never what was asked. They are the HTTP face's.
var fetchHeaders = [...]string{"Authorization", "X-Api-Key", "Cookie", "User-Agent", "Mem0-User-Id", "X-Mem0-Mode",
	"User_id", "X-Bare-Password", "X-Project", "X-Project-Id", "X-Stainless-Package-Version"}

// NewFetcher returns what asks a backend whose memories are.
func NewFetcher(o FetchOptions) (gate.Fetcher, error) {
	switch {
	case o.Upstream == nil || (o.Upstream.Scheme != "http" && o.Upstream.Scheme != "https") || o.Upstream.Host == "":
		return nil, errors.New("extproc: upstream must be an http or https URL with a host")
	case o.Transport == nil:
		return nil, errors.New("extproc: a fetcher needs a transport")
	}
	if o.Propagator == nil {
		o.Propagator = propagation.TraceContext{}
	}
	if o.Max <= 0 {
		o.Max = 1 << 20
	}
	return &fetcher{o}, nil
}

// Fetch implements gate.Fetcher. The deadline is the context's.
func (f *fetcher) Fetch(ctx context.Context, q memproxy.Request) (memproxy.Reply, error) {
	path := q.Path
	if path == "" {
		var err error
		if path, err = url.PathUnescape(q.EscapedPath); err != nil {
			return memproxy.Reply{}, err
		}
	}
	u := f.opt.Upstream
	to := &url.URL{
		Scheme: u.Scheme, Host: u.Host, RawQuery: q.Query,
		Path:    strings.TrimSuffix(u.Path, "/") + path,
		RawPath: strings.TrimSuffix(u.EscapedPath(), "/") + q.EscapedPath,
	}
	out := &http.Request{Method: q.Method, URL: to, Header: http.Header{}}
	for _, name := range fetchHeaders {
		if v := q.Header[name]; len(v) > 0 {
			out.Header[name] = v
		}
	}
	out.Header.Set("Accept", "application/json")
	if c := f.opt.Credential; c != nil {
		out.Header.Del("Authorization")
		out.Header.Del("X-Api-Key")
		out.Header.Set(c.Header, c.Value)
	}
	f.opt.Propagator.Inject(ctx, propagation.HeaderCarrier(out.Header))
	resp, err := f.opt.Transport.RoundTrip(out.WithContext(ctx))
	if err != nil {
		return memproxy.Reply{}, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, f.opt.Max+1))
	if err != nil {
		return memproxy.Reply{}, err
	}
	b := Backend{MaxAnswer: f.opt.Max}
	body, _, err := b.plain(raw, resp.Header.Get("Content-Encoding"))
	if err != nil {
		return memproxy.Reply{}, err
	}
	return memproxy.Reply{Status: resp.StatusCode, Header: memproxy.Header(resp.Header), Body: body}, nil
}
