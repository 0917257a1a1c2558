package hunt

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/wait"
	"github.com/memproxy/memproxy/screen/endpoint"
)

// API configures the requests to a backend. Zero fields take the defaults.
type API struct {
	// URL is the backend's address: "https://api.mem0.ai".
	URL string
	// Header has the credential: {"Authorization": "Token …"}.
	Header http.Header

	PageSize  int               // elements of a page; default 100, or 1000 for a Mem0 server, which has no pages
	Transport http.RoundTripper // default: a new http.Transport
}

const (
	timeout = 30 * time.Second // of one attempt including its answer
	tries   = 5
	backoff = 500 * time.Millisecond // before the second attempt, doubled for each further one
	maxWait = time.Minute
	maxBody = 32 << 20 // bytes of an answer
)

// statusOf returns the status of a response that is an error, or 0.
func statusOf(err error) int {
	if no, ok := errors.AsType[*endpoint.StatusError](err); ok {
		return no.Status
	}
	return 0
}

// IsUnauthorized reports whether an error is a backend's response of 401 or 403.
func IsUnauthorized(err error) bool {
	status := statusOf(err)
	return status == http.StatusUnauthorized || status == http.StatusForbidden
}

type caller struct {
	*endpoint.Endpoint
	size int // elements of a page
}

func newCaller(a API, size int) (*caller, error) {
	header := http.Header{"User-Agent": {memproxy.UserAgent}}
	for name, values := range a.Header {
		header[http.CanonicalHeaderKey(name)] = values
	}
	to, err := endpoint.New("backend", a.URL, header, timeout, a.Transport)
	if err != nil || strings.Contains(a.URL, "?") {
		return nil, errors.New("hunt: the backend's URL must be an http or https URL without credentials or query")
	}
	return &caller{to, cmp.Or(a.PageSize, size)}, nil
}

// call requests one page, and retries if the backend is overloaded, failing or
// unreachable. Every request reads only, POSTs of lists included, so a retry is safe.
func (c *caller) call(ctx context.Context, method string, path []string, query url.Values, body []byte) ([]byte, error) {
	pause := backoff
	for try := 1; ; try++ {
		raw, err := c.Do(ctx, method, path, query, body, maxBody)
		after, status := time.Duration(0), http.StatusServiceUnavailable // as if it was unreachable
		if no, ok := errors.AsType[*endpoint.StatusError](err); ok {
			after, status = no.After, no.Status
		}
		if err == nil || status < 500 && status != http.StatusTooManyRequests || errors.As(err, new(endpoint.TooLongError)) || try == tries || ctx.Err() != nil {
			return raw, err
		}
		if err := wait.Sleep(ctx, min(max(pause, after), maxWait)); err != nil {
			return nil, err
		}
		pause *= 2
	}
}
