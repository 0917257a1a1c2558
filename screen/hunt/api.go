package hunt

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/wait"
)

// API configures the requests to a backend. Zero fields take the defaults.
type API struct {
	// URL is the backend's address: "https://api.mem0.ai".
	URL string
	// Header has the credential: {"Authorization": "Token …"}.
	Header http.Header

	PageSize  int               // elements of a page; default 100, or 1000 for a Mem0 server, which has no pages
	Timeout   time.Duration     // of one attempt including its answer; default 30 s
	Transport http.RoundTripper // default: a new http.Transport
	Sleep     func(context.Context, time.Duration) error
}

const (
	defaultTimeout = 30 * time.Second
	tries          = 5
	backoff        = 500 * time.Millisecond // before the second attempt, doubled for each further one
	maxWait        = time.Minute
	maxBody        = 32 << 20 // bytes of an answer
)

// statusError is a response with a status other than 200.
type statusError int

// Error implements error.
func (s statusError) Error() string { return fmt.Sprintf("the backend returned status %d", int(s)) }

// IsUnauthorized reports whether an error is a backend's response of 401 or 403.
func IsUnauthorized(err error) bool {
	no, ok := errors.AsType[statusError](err)
	return ok && (no == http.StatusUnauthorized || no == http.StatusForbidden)
}

type caller struct {
	api  API
	base *url.URL
	http *http.Client
}

func newCaller(a API, size int) (*caller, error) {
	u, err := url.Parse(a.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" {
		return nil, errors.New("hunt: the backend's URL must be an http or https URL without credentials or query")
	}
	a.PageSize, a.Timeout = cmp.Or(a.PageSize, size), cmp.Or(a.Timeout, defaultTimeout)
	if a.Sleep == nil {
		a.Sleep = wait.Sleep
	}
	if a.Transport == nil {
		a.Transport = &http.Transport{Proxy: http.ProxyFromEnvironment, IdleConnTimeout: time.Minute, ForceAttemptHTTP2: true}
	}
	return &caller{a, u, &http.Client{
		Transport: a.Transport,
		// The credential goes to the configured address only.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// call requests one page, and retries if the backend is overloaded, failing or
// unreachable. Every request reads only, POSTs of lists included, so a retry is safe.
func (c *caller) call(ctx context.Context, method string, path []string, query url.Values, body []byte) ([]byte, error) {
	wait := backoff
	for try := 1; ; try++ {
		raw, after, err := c.once(ctx, method, path, query, body)
		if err == nil {
			return raw, nil
		}
		if after < 0 || try == tries || ctx.Err() != nil {
			return nil, err
		}
		if err := c.api.Sleep(ctx, min(max(wait, after), maxWait)); err != nil {
			return nil, err
		}
		wait *= 2
	}
}

// once makes one attempt. With an error, after is negative if a retry is useless, and
// otherwise the delay of Retry-After, or 0.
func (c *caller) once(ctx context.Context, method string, path []string, query url.Values, body []byte) (raw []byte, after time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.api.Timeout)
	defer cancel()
	u := c.base.JoinPath(path...)
	u.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, -1, errors.New("the request cannot be created")
	}
	for name, values := range c.api.Header {
		req.Header[http.CanonicalHeaderKey(name)] = values
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", memproxy.UserAgent)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err // without the address
		}
		return nil, 0, err
	}
	defer resp.Body.Close()
	raw, err = io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	if err != nil {
		return nil, 0, fmt.Errorf("reading the response: %w", err)
	}
	switch s := resp.StatusCode; {
	case s == http.StatusTooManyRequests || s >= 500:
		n, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
		return nil, time.Duration(min(max(n, 0), 3600)) * time.Second, statusError(s)
	case s != http.StatusOK:
		return nil, -1, statusError(s)
	case len(raw) > maxBody:
		return nil, -1, fmt.Errorf("the response exceeds %d bytes", maxBody)
	}
	return raw, 0, nil
}
