package frontend_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/frontend"
	"github.com/memproxy/memproxy/internal/must"
)

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(q *http.Request) (*http.Response, error) { return f(q) }

// Proves EDGE-14: side requests to a slow backend for one tenant's callers, and
// memproxy's own, leave room for those for another tenant.
func TestSideRequestsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var slow atomic.Int64
		side := must.Get(frontend.NewSide(frontend.SideOptions{
			Upstream: &url.URL{Scheme: "http", Host: "backend"}, InFlight: frontend.NewInFlight(0, 0).Side(),
			Transport: transport(func(q *http.Request) (*http.Response, error) {
				if q.URL.Path == "/slow" {
					slow.Add(1)
					<-q.Context().Done()
					return nil, q.Context().Err()
				}
				return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader("{}")), ContentLength: 2}, nil
			}),
		}))(t)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		for n := range 2000 {
			asker := side
			if n%4 != 0 {
				asker = side.For(fmt.Sprint("mallory ", n%7), fmt.Sprint("evil ", n%2))
			}
			go func() { _, _ = asker.Fetch(ctx, memproxy.Request{Method: "GET", Path: "/slow"}) }()
		}
		synctest.Wait()
		begun := time.Now()
		if _, err := side.For("ann", "acme").Fetch(ctx, memproxy.Request{Method: "GET", Path: "/quick"}); err != nil || time.Since(begun) != 0 {
			t.Errorf("another tenant's is asked after %v: %v", time.Since(begun), err)
		}
		if n := slow.Load(); n < 100 || n > 512 {
			t.Errorf("%d are under way", n)
		}
	})
}
