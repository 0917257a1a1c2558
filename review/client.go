package review

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/memproxy/memproxy"
)

const maxAnswer = 64 << 20 // maximum size of an answer in bytes

// requestTimeout is the timeout of an ordinary request. A replay takes less time.
const requestTimeout = 2 * time.Minute

const pageTimeout = 10 * time.Second // timeout of a request for a page

// ClientOptions configure a Client.
type ClientOptions struct {
	// URL is the address of the admin listener, "http://127.0.0.1:9901".
	URL   string
	Token string
	// Socket is the path of the local operator's socket, in place of URL and Token.
	Socket string
	// Progress receives the progress of a long request, if the sidecar reports it.
	Progress memproxy.Progress
}

// Client calls the API.
type Client struct {
	base, token string
	progress    memproxy.Progress
	http        http.Client
}

// NewClient returns a client.
func NewClient(opt ClientOptions) (*Client, error) {
	var way http.RoundTripper
	if opt.Socket != "" {
		path := opt.Socket
		opt.URL, opt.Token = "http://localhost", "local"
		way = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}}
	}
	u, err := url.Parse(opt.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("review: the address must be http://HOST:PORT")
	}
	if opt.Token == "" {
		return nil, errors.New("review: no token")
	}
	return &Client{
		base: strings.TrimSuffix(u.String(), "/"), token: opt.Token, progress: opt.Progress,
		http: http.Client{Transport: way, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}, nil
}

// Call calls a route of the API by its operationId. values are the path and query
// parameters by name, and in is the body. Call repeats a request for original content
// with the confirmation that the API asks for.
func Call[Out any](ctx context.Context, c *Client, op string, values map[string]string, in any) (out Out, err error) {
	rt, err := routeOf(op)
	if err != nil {
		return out, err
	}
	if reflect.TypeOf(rt.out) != reflect.TypeFor[Out]() {
		return out, fmt.Errorf("review: %s answers %T", op, rt.out)
	}
	path, query, err := rt.address(values)
	if err != nil {
		return out, err
	}
	err = c.do(ctx, rt, path, query, in, &out)
	if r, ok := errors.AsType[Problem](err); ok && r.Status == http.StatusPreconditionRequired && r.Confirm != "" {
		query.Set("confirm", r.Confirm)
		err = c.do(ctx, rt, path, query, in, &out)
	}
	return out, err
}

func routeOf(op string) (route, error) {
	for _, rt := range routes() {
		if rt.op == op {
			return rt, nil
		}
	}
	return route{}, fmt.Errorf("review: unknown operation %s", op)
}

// wildcards returns the names of the values in the route's path, in order.
func (rt route) wildcards() (names []string) {
	for segment := range strings.SplitSeq(rt.path, "/") {
		if name, ok := strings.CutPrefix(segment, "{"); ok {
			names = append(names, strings.TrimSuffix(name, "}"))
		}
	}
	return names
}

// address returns the path and query of the route with these values. It omits empty
// values from the query.
func (rt route) address(values map[string]string) (string, url.Values, error) {
	path, query, used := rt.path, url.Values{}, 0
	for _, name := range rt.wildcards() {
		value := values[name]
		if value == "" {
			return "", nil, fmt.Errorf("review: %s needs %s", rt.op, name)
		}
		path = strings.Replace(path, "{"+name+"}", url.PathEscape(value), 1)
		used++
	}
	for _, p := range rt.query {
		if value, given := values[p.name]; given {
			used++
			if value != "" {
				query.Set(p.name, value)
			}
		}
	}
	if used != len(values) {
		return "", nil, fmt.Errorf("review: %s takes other values than %s", rt.op, slices.Sorted(maps.Keys(values)))
	}
	return path, query, nil
}

// fetch sends a request to the listener, and reads the answer within the timeout most.
func (c *Client) fetch(ctx context.Context, most time.Duration, method, address string, header http.Header, body []byte) (answer []byte, status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, c.base+address, bytes.NewReader(body))
	if err != nil {
		return nil, 0, err
	}
	req.Header = header
	resp, err := c.http.Do(req)
	if dial, ok := errors.AsType[*net.OpError](err); ok && dial.Op == "dial" {
		if dial.Net == "unix" {
			return nil, 0, fmt.Errorf("no sidecar answers: %w", dial)
		}
		return nil, 0, fmt.Errorf("no sidecar answers; --admin is its admin.listen: %w", dial)
	}
	if err != nil {
		return nil, 0, err
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	return answer, resp.StatusCode, err
}

// getPage reads a page that is served in addition to the API, without a token.
func (c *Client) getPage(ctx context.Context, path string) (text []byte, status int, err error) {
	return c.fetch(ctx, pageTimeout, http.MethodGet, path, http.Header{}, nil)
}

func (c *Client) interim(_ int, header textproto.MIMEHeader) error {
	done, total, _ := strings.Cut(header.Get(ProgressHeader), "/")
	n, err := strconv.ParseInt(done, 10, 64)
	of, _ := strconv.ParseInt(total, 10, 64) // absent: 0, which means unknown
	if err == nil {
		c.progress(n, of)
	}
	return nil
}

func (c *Client) do(ctx context.Context, rt route, address string, query url.Values, in, out any) (err error) {
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	header := http.Header{"Authorization": {"Bearer " + c.token}}
	var body []byte
	if rt.in != nil {
		header.Set("Content-Type", "application/json")
		if body, err = json.Marshal(in); err != nil {
			return err
		}
	}
	most := requestTimeout
	if rt.long {
		most = longestOperation + time.Minute
	}
	if rt.long && c.progress != nil {
		header.Set(ProgressHeader, "102")
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{Got1xxResponse: c.interim})
	}
	answer, status, err := c.fetch(ctx, most, rt.method, address, header, body)
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		r := Problem{Status: status}
		if json.Unmarshal(answer, &r) != nil || r.Detail == "" {
			r.Detail = "not an answer of memproxy's review API"
		}
		return r
	}
	if err := json.Unmarshal(answer, out); err != nil {
		return fmt.Errorf("the answer cannot be read: %w", err)
	}
	return nil
}
