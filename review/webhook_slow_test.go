package review_test

import (
	"context"
	"log/slog"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/review"
)

// oneNotice is a store with a single notice.
type oneNotice struct {
	given   bool
	delayed string
}

func (s *oneNotice) Due(context.Context, int, time.Duration) ([]memproxy.Notice, time.Time, error) {
	if s.given {
		return nil, time.Time{}, nil
	}
	s.given = true
	return []memproxy.Notice{{ID: "n", Kind: memproxy.NoticeHold, Data: []byte("{}")}}, time.Time{}, nil
}
func (s *oneNotice) MarkDelivered(context.Context, string) error { s.delayed = "delivered"; return nil }
func (s *oneNotice) Postpone(_ context.Context, _ string, _ time.Time, why string) error {
	s.delayed = why
	return nil
}

type trip func(*http.Request) (*http.Response, error)

func (f trip) RoundTrip(q *http.Request) (*http.Response, error) { return f(q) }

// silent is a body that never arrives.
type silent struct{ ctx context.Context }

func (s silent) Read([]byte) (int, error) { <-s.ctx.Done(); return 0, s.ctx.Err() }
func (silent) Close() error               { return nil }

// Proves MFW-10: a receiver that does not answer, or whose answer does not end, takes
// ten seconds of one attempt and no more; the notice is retried unless it was accepted.
func TestSlowWebhooks(t *testing.T) {
	for what, tc := range map[string]struct {
		answer    trip
		delivered bool
	}{
		"no answer": {func(q *http.Request) (*http.Response, error) { <-q.Context().Done(); return nil, q.Context().Err() }, false},
		"an answer without an end": {func(q *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Header: http.Header{}, Body: silent{q.Context()}, Request: q}, nil
		}, true},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &oneNotice{}
				w := review.NewWebhooks(review.WebhookOptions{
					Store: store, URL: "https://hooks.example/s3cret", Secret: secret(), Transport: tc.answer, Clock: time.Now,
					Jitter: func() float64 { return 0 }, Log: slog.New(slog.DiscardHandler),
				})
				began := time.Now()
				must.Get(w.Deliver(t.Context()))(t)
				if took := time.Since(began); took > 10*time.Second || (store.delayed == "delivered") != tc.delivered || store.delayed == "" {
					t.Errorf("after %v: %q", took, store.delayed)
				}
			})
		})
	}
}
