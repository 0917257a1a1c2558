package frontend

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"net/url"
	"strings"

	"go.opentelemetry.io/otel/propagation"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate/paths"
)

// Limits of answers to side requests, in bytes: maxFetch for one fetched memory, and
// maxSent for any other answer, such as a page of a list, whose elements may have
// embeddings of thousands of numbers.
const (
	maxFetch = 1 << 20
	maxSent  = 16 << 20
)

// callerHeaders lists the client headers that a side request carries: those that identify
// the caller, and none that describe its request.
var callerHeaders = [...]string{"Authorization", "X-Api-Key", "Cookie", "User-Agent", "Mem0-User-Id", "X-Mem0-Mode",
	"User_id", "X-Bare-Password", "X-Project", "X-Project-Id", "X-Stainless-Package-Version"}

// Side sends memproxy's own requests to a backend, on behalf of a caller or with the
// backend's credential. It implements backend.Fetcher. Contexts set the deadlines.
type Side struct {
	to             *Backend
	transport      http.RoundTripper
	inFlight       *InFlight // limits the requests, and the bytes of answers that are being read; nil is no limit
	propagator     propagation.TextMapPropagator
	caller, tenant string // the caller on whose behalf; "" is memproxy itself
}

// NewSide returns the sender of memproxy's own requests to a backend.
func NewSide(to *Backend, transport http.RoundTripper, inFlight *InFlight, propagator propagation.TextMapPropagator) *Side {
	return &Side{to: to, transport: NoUpgrade(transport), inFlight: inFlight, propagator: propagator}
}

// For returns a Side whose requests are counted for the caller.
func (s *Side) For(caller, tenant string) *Side {
	of := *s
	of.caller, of.tenant = caller, tenant
	return &of
}

// Fetch sends a request without a body.
func (s *Side) Fetch(ctx context.Context, q memproxy.Request) (memproxy.Reply, error) {
	return s.SendAs(ctx, q, nil, q.Header, nil, maxFetch)
}

// Send sends a request with a body. Of the request's headers only those that identify the
// caller are sent.
func (s *Side) Send(ctx context.Context, q memproxy.Request, body []byte) (memproxy.Reply, error) {
	return s.SendAs(ctx, q, body, q.Header, nil, maxSent)
}

// FetchAnswer sends an admitted request without a body as the HTTP listener does, and
// reads an answer of up to limit bytes.
func (s *Side) FetchAnswer(ctx context.Context, q memproxy.Request, limit int64) (memproxy.Reply, error) {
	out := &http.Request{Method: q.Method, URL: Join(s.to.Upstream, q.EscapedPath, q.Query, false), Header: forwarded(http.Header(q.Header), true)}
	if _, ok := q.Header["User-Agent"]; !ok {
		out.Header["User-Agent"] = nil // otherwise the transport adds one
	}
	return s.send(ctx, out, limit)
}

// SendAs sends a request on behalf of a caller, with additional headers of memproxy's own,
// and reads an answer of up to limit bytes. Ids in the path may come from a caller's body: no
// object has one that leads to another path, so the answer is 404 and nothing is sent.
func (s *Side) SendAs(ctx context.Context, q memproxy.Request, body []byte, caller, own memproxy.Header, limit int64) (memproxy.Reply, error) {
	if !paths.Segmented(q.EscapedPath) {
		return memproxy.Reply{Status: http.StatusNotFound}, nil
	}
	out := &http.Request{Method: q.Method, URL: Join(s.to.Upstream, q.EscapedPath, q.Query, false), Header: http.Header{}}
	for _, name := range callerHeaders {
		if v := caller[name]; len(v) > 0 {
			out.Header[name] = v
		}
	}
	maps.Copy(out.Header, http.Header(own))
	out.Header.Set("Accept", "application/json")
	out.Header.Set("Accept-Encoding", "identity")
	if body != nil {
		out.Header.Set("Content-Type", "application/json")
		SetBody(out, body)
	}
	return s.send(ctx, out, limit)
}

func (s *Side) send(ctx context.Context, out *http.Request, limit int64) (memproxy.Reply, error) {
	lease := s.inFlight.Lease(OwnPeer)
	defer lease.Release()
	if err := lease.Enter(ctx, s.caller, s.tenant); err != nil {
		return memproxy.Reply{}, UnsentError{err}
	}
	s.to.Credential.Present(out.Header)
	s.propagator.Inject(ctx, propagation.HeaderCarrier(out.Header))
	resp, err := s.transport.RoundTrip(out.WithContext(ctx))
	if err != nil {
		return memproxy.Reply{}, err
	}
	defer resp.Body.Close()
	answer, decoded, err := ReadAnswer(resp, limit, func(n int64) error { return lease.Grow(ctx, n) })
	if err != nil {
		return memproxy.Reply{}, err
	}
	if decoded {
		DropEntityHeaders(resp.Header)
	}
	return memproxy.Reply{Status: resp.StatusCode, Header: memproxy.Header(resp.Header), Body: answer}, nil
}

// Join returns the URL of a request at an upstream: the same path in the same spelling,
// after the upstream's own prefix.
func Join(upstream *url.URL, escaped, query string, force bool) *url.URL {
	out := &url.URL{Scheme: upstream.Scheme, Host: upstream.Host, RawPath: escaped, RawQuery: query, ForceQuery: force}
	if strings.Trim(upstream.Path, "/") != "" {
		out.RawPath = strings.TrimSuffix(upstream.EscapedPath(), "/") + escaped
	}
	path, _ := url.PathUnescape(out.RawPath)
	out.Path = cmp.Or(path, out.RawPath) // of one that cannot be decoded the percent signs are escaped
	return out
}

// NoUpgrade rejects 101 Switching Protocols, which would turn the connection into an
// unfiltered tunnel: the answer becomes an error, and the connection is closed. It also
// stops the reuse of a connection of Dial after an internal error of the server.
func NoUpgrade(next http.RoundTripper) http.RoundTripper { return noUpgrade{next} }

type noUpgrade struct{ next http.RoundTripper }

// CloseIdleConnections closes the unused connections, so that none remains after a stop.
func (f noUpgrade) CloseIdleConnections() {
	(&http.Client{Transport: f.next}).CloseIdleConnections()
}
