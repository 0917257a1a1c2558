package review

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/memproxy/memproxy"
)

// maxAnswer is the largest answer that a client reads, in bytes.
const maxAnswer = 64 << 20

// ClientOptions configure a Client.
type ClientOptions struct {
	// URL is the admin listener's, "http://127.0.0.1:9901".
	URL   string
	Token string
	// Socket is the path of the local operator's socket, instead of URL and
	// Token.
	Socket string
	// Transport makes the connections. Nil is http.DefaultTransport.
	Transport http.RoundTripper
	// Timeout bounds one request; 0 is two minutes, longer than a replay.
	Timeout time.Duration
}

// Client calls the API.
type Client struct {
	base  string
	token string
	http  http.Client
}

// NewClient returns a client.
func NewClient(opt ClientOptions) (*Client, error) {
	if opt.Socket != "" {
		path := opt.Socket
		opt.URL, opt.Token = "http://memproxy.local", "local"
		opt.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}}
	}
	u, err := url.Parse(opt.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("review: the address is http://HOST:PORT")
	}
	if opt.Token == "" {
		return nil, errors.New("review: no token")
	}
	if opt.Timeout <= 0 {
		opt.Timeout = 2 * time.Minute
	}
	return &Client{
		base: strings.TrimSuffix(u.String(), "/"), token: opt.Token,
		http: http.Client{Transport: opt.Transport, Timeout: opt.Timeout, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}, nil
}

// Refused is the error of an answer that is not a success.
type Refused struct {
	Status int
	Problem
}

// Error is what was answered, in one line.
func (r *Refused) Error() string {
	return fmt.Sprintf("%s (%s, status %d)", r.Detail, r.Problem.Error, r.Status)
}

// do calls the API and reads the answer into out.
func (c *Client) do(ctx context.Context, method string, path []string, query url.Values, in, out any) error {
	address := c.base + "/v1"
	for _, p := range path {
		address += "/" + url.PathEscape(p)
	}
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, address, body)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		r := &Refused{Status: resp.StatusCode}
		if json.Unmarshal(answer, &r.Problem) != nil || r.Detail == "" {
			r.Detail = "not an answer of memproxy's review API"
		}
		return r
	}
	if err := json.Unmarshal(answer, out); err != nil {
		return fmt.Errorf("the answer cannot be read: %w", err)
	}
	return nil
}

// confirmed repeats a request with the confirmation that it was answered with.
func (c *Client) confirmed(ctx context.Context, path []string, query url.Values, out any) error {
	err := c.do(ctx, http.MethodGet, path, query, nil, out)
	var r *Refused
	if errors.As(err, &r) && r.Status == http.StatusPreconditionRequired && r.Confirm != "" {
		query.Set("confirm", r.Confirm)
		return c.do(ctx, http.MethodGet, path, query, nil, out)
	}
	return err
}

// Holds lists held writes.
func (c *Client) Holds(ctx context.Context, f memproxy.HoldFilter) (page memproxy.HoldPage, err error) {
	q := url.Values{}
	for name, value := range map[string]string{
		"state": string(f.State), "tenant": f.Tenant, "backend": f.Backend, "principal": f.Principal,
		"session": f.Session, "similarity": f.Similarity, "cursor": f.After,
	} {
		if value != "" {
			q.Set(name, value)
		}
	}
	for name, at := range map[string]time.Time{"since": f.Since, "before": f.Before} {
		if !at.IsZero() {
			q.Set(name, at.UTC().Format(time.RFC3339Nano))
		}
	}
	if f.Limit > 0 {
		q.Set("limit", strconv.Itoa(f.Limit))
	}
	return page, c.do(ctx, http.MethodGet, []string{"holds"}, q, nil, &page)
}

// Hold shows one held write: sanitised, or with full as it is.
func (c *Client) Hold(ctx context.Context, id string, full bool) (h HoldView, err error) {
	q := url.Values{}
	if full {
		q.Set("content", "full")
	}
	return h, c.confirmed(ctx, []string{"holds", id}, q, &h)
}

// Approve agrees to a held write.
func (c *Client) Approve(ctx context.Context, id string, in ApproveRequest) (s Settled, err error) {
	return s, c.do(ctx, http.MethodPost, []string{"holds", id, "approve"}, nil, in, &s)
}

// Reject gives a held write up.
func (c *Client) Reject(ctx context.Context, id, reason string) (s Settled, err error) {
	return s, c.do(ctx, http.MethodPost, []string{"holds", id, "reject"}, nil, Reason{reason}, &s)
}

// Resolve says what became of a write that may have been sent.
func (c *Client) Resolve(ctx context.Context, id string, in ResolveRequest) (s Settled, err error) {
	return s, c.do(ctx, http.MethodPost, []string{"holds", id, "resolve"}, nil, in, &s)
}

// Batch settles a similarity group.
func (c *Client) Batch(ctx context.Context, in BatchRequest) (b BatchAnswer, err error) {
	return b, c.do(ctx, http.MethodPost, []string{"holds", "batch"}, nil, in, &b)
}

// Sessions lists what is locked, or all records of rejections.
func (c *Client) Sessions(ctx context.Context, f memproxy.SessionFilter) (page memproxy.SessionPage, err error) {
	q := url.Values{}
	for name, value := range map[string]string{"tenant": f.Tenant, "principal": f.Principal, "cursor": f.After} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if f.All {
		q.Set("all", "true")
	}
	if f.Limit > 0 {
		q.Set("limit", strconv.Itoa(f.Limit))
	}
	return page, c.do(ctx, http.MethodGet, []string{"sessions"}, q, nil, &page)
}

// Session summarises a session. The tenant may be left out by who has one only.
func (c *Client) Session(ctx context.Context, tenant, id string) (s SessionSummary, err error) {
	q := url.Values{}
	if tenant != "" {
		q.Set("tenant", tenant)
	}
	return s, c.do(ctx, http.MethodGet, []string{"sessions", id, "summary"}, q, nil, &s)
}

// Unlock lets a session write again.
func (c *Client) Unlock(ctx context.Context, id string, in UnlockRequest) (s SessionSummary, err error) {
	return s, c.do(ctx, http.MethodPost, []string{"sessions", id, "unlock"}, nil, in, &s)
}

func memoryPath(k memproxy.MemoryKey, verb string) ([]string, url.Values) {
	q := url.Values{}
	if k.Kind != "" {
		q.Set("kind", string(k.Kind))
	}
	return []string{"memories", k.Backend, k.ID, verb}, q
}

// History lists a memory's versions below a number, 0 for the newest.
func (c *Client) History(ctx context.Context, k memproxy.MemoryKey, before int64, limit int) (h HistoryAnswer, err error) {
	path, q := memoryPath(k, "history")
	if before > 0 {
		q.Set("before", strconv.FormatInt(before, 10))
	}
	if limit > 0 {
		q.Set("limit", strconv.Itoa(limit))
	}
	return h, c.do(ctx, http.MethodGet, path, q, nil, &h)
}

// Version shows one version, with full as it says.
func (c *Client) Version(ctx context.Context, k memproxy.MemoryKey, number int64, full bool) (v VersionView, err error) {
	path, q := memoryPath(k, "versions")
	if full {
		q.Set("content", "full")
	}
	return v, c.confirmed(ctx, append(path, strconv.FormatInt(number, 10)), q, &v)
}

// Pattern shows what a placeholder of a flagged memory stands for, with full
// as it says. Name is PATTERN_001.
func (c *Client) Pattern(ctx context.Context, k memproxy.MemoryKey, name string, full bool) (v PatternView, err error) {
	path, q := memoryPath(k, "patterns")
	if full {
		q.Set("content", "full")
	}
	return v, c.confirmed(ctx, append(path, name), q, &v)
}

// HoldPattern shows what a placeholder of a held write stands for, with full as
// it says. Pointer is which of its texts; "" where it has one.
func (c *Client) HoldPattern(ctx context.Context, id, pointer, name string, full bool) (v PatternView, err error) {
	q := url.Values{}
	if full {
		q.Set("content", "full")
	}
	if pointer != "" {
		q.Set("pointer", pointer)
	}
	return v, c.confirmed(ctx, []string{"holds", id, "patterns", name}, q, &v)
}

// Trace tells everything that is known of a memory.
func (c *Client) Trace(ctx context.Context, k memproxy.MemoryKey) (t TraceAnswer, err error) {
	path, q := memoryPath(k, "trace")
	return t, c.do(ctx, http.MethodGet, path, q, nil, &t)
}

// Pin pins a memory or a version of it.
func (c *Client) Pin(ctx context.Context, k memproxy.MemoryKey, in PinRequest) (out PinRequest, err error) {
	path, q := memoryPath(k, "pin")
	return out, c.do(ctx, http.MethodPost, path, q, in, &out)
}

// Rollback makes a memory what a version of it was.
func (c *Client) Rollback(ctx context.Context, k memproxy.MemoryKey, in RollbackRequest) (out RollbackAnswer, err error) {
	path, q := memoryPath(k, "rollback")
	return out, c.do(ctx, http.MethodPost, path, q, in, &out)
}

// Promote agrees to show a memory.
func (c *Client) Promote(ctx context.Context, k memproxy.MemoryKey, reason string) (out memproxy.Tallied, err error) {
	path, q := memoryPath(k, "promote")
	return out, c.do(ctx, http.MethodPost, path, q, Reason{reason}, &out)
}
