package proxy

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/memproxy/memproxy"
	"go.opentelemetry.io/otel/propagation"
)

// target is the upstream URL of a request: the same path, spelled the same
// way, behind the upstream's own prefix.
func (p *Proxy) target(in *url.URL, query string) *url.URL {
	return p.join(in.Path, in.EscapedPath(), query, in.ForceQuery)
}

func (p *Proxy) join(path, escaped, query string, force bool) *url.URL {
	u := p.opt.Upstream
	out := &url.URL{Scheme: u.Scheme, Host: u.Host, Path: path, RawPath: escaped, RawQuery: query, ForceQuery: force}
	if prefix := strings.TrimSuffix(u.Path, "/"); prefix != "" {
		out.Path = prefix + path
		out.RawPath = strings.TrimSuffix(u.EscapedPath(), "/") + escaped
	}
	return out
}

// present replaces the client's backend credential by the proxy's own.
func (p *Proxy) present(h http.Header) {
	c := p.opt.Credential
	if c == nil {
		return
	}
	h.Del("Authorization")
	h.Del("X-Api-Key")
	h.Set(c.Header, c.Value)
}

// relocate leads a redirect to the upstream back through the proxy.
func (p *Proxy) relocate(resp *http.Response) {
	loc := resp.Header.Get("Location")
	if loc == "" {
		return
	}
	u, err := url.Parse(loc)
	if err != nil || !strings.EqualFold(u.Host, p.opt.Upstream.Host) {
		return
	}
	// A relative reference resolves against what the client asked.
	u.Scheme, u.Host, u.User = "", "", nil
	if prefix := strings.TrimSuffix(p.opt.Upstream.Path, "/"); prefix != "" {
		u.Path, u.RawPath = strings.TrimPrefix(u.Path, prefix), ""
	}
	resp.Header.Set("Location", u.String())
}

// errTooLarge says that an answer is over the limit.
var errTooLarge = errors.New("answer over the limit")

// readAnswer reads an answer whole, decoded, up to limit bytes.
func readAnswer(resp *http.Response, limit int64) (body []byte, decoded bool, err error) {
	src := io.Reader(resp.Body)
	switch enc := strings.ToLower(resp.Header.Get("Content-Encoding")); enc {
	case "", "identity":
	case "gzip":
		// Identity was asked for; some servers compress all the same.
		zr, err := gzip.NewReader(src)
		if err != nil {
			return nil, false, fmt.Errorf("gzip answer: %w", err)
		}
		src, decoded = zr, true
	default:
		return nil, false, fmt.Errorf("answer encoded as %q, although identity was asked for", enc)
	}
	if !decoded && resp.ContentLength > limit {
		return nil, false, errTooLarge
	}
	if !decoded && resp.ContentLength >= 0 {
		body = make([]byte, resp.ContentLength)
		if _, err = io.ReadFull(src, body); err != nil {
			return nil, false, err
		}
		return body, false, nil
	}
	body, err = io.ReadAll(io.LimitReader(src, limit+1))
	if err != nil {
		return nil, decoded, err
	}
	if int64(len(body)) > limit {
		return nil, decoded, errTooLarge
	}
	return body, decoded, nil
}

// fetcher sends the gate's side requests to the same upstream.
type fetcher struct{ p *Proxy }

// fetchHeaders are the client headers that a side request carries: who asks,
// never what was asked.
var fetchHeaders = [...]string{"Authorization", "X-Api-Key", "Cookie", "User-Agent", "Mem0-User-Id", "X-Mem0-Mode",
	"User_id", "X-Bare-Password", "X-Project", "X-Project-Id", "X-Stainless-Package-Version"}

// maxFetch bounds one memory fetched from the side.
const maxFetch = 1 << 20

// Fetch implements gate.Fetcher. The deadline is the context's.
func (f fetcher) Fetch(ctx context.Context, q memproxy.Request) (memproxy.Reply, error) {
	return f.Send(ctx, q, nil)
}

// Send implements gate.Sender.
func (f fetcher) Send(ctx context.Context, q memproxy.Request, body []byte) (memproxy.Reply, error) {
	path := q.Path
	if path == "" {
		var err error
		if path, err = url.PathUnescape(q.EscapedPath); err != nil {
			return memproxy.Reply{}, err
		}
	}
	out := &http.Request{Method: q.Method, URL: f.p.join(path, q.EscapedPath, q.Query, false), Header: http.Header{}}
	for _, name := range fetchHeaders {
		if v := q.Header[name]; len(v) > 0 {
			out.Header[name] = v
		}
	}
	out.Header.Set("Accept", "application/json")
	if body != nil {
		out.Header.Set("Content-Type", "application/json")
		out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	}
	f.p.present(out.Header)
	f.p.opt.Propagator.Inject(ctx, propagation.HeaderCarrier(out.Header))
	resp, err := f.p.opt.Transport.RoundTrip(out.WithContext(ctx))
	if err != nil {
		return memproxy.Reply{}, err
	}
	defer resp.Body.Close()
	answer, _, err := readAnswer(resp, maxFetch)
	if err != nil {
		return memproxy.Reply{}, err
	}
	return memproxy.Reply{Status: resp.StatusCode, Header: memproxy.Header(resp.Header), Body: answer}, nil
}
