package proxy_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel/propagation"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/frontend"
	"github.com/memproxy/memproxy/frontend/frontendtest"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/proxy"
)

// filled is a budget of bytes of which another request, at another address, holds so
// much that no large one fits.
func filled(t *testing.T) (budget *frontend.InFlight, free func()) {
	t.Helper()
	budget = frontend.NewInFlight(4<<20, 4<<20) // 2 MiB of data
	budget.Wait = 30 * time.Millisecond
	other := budget.Lease("192.0.2.1")
	other.Force(2 << 20)
	return budget, other.Release
}

// answerOf returns n bytes that the toy's filters can read: memories of 1 KiB, since each
// takes the filters as long as any other.
func answerOf(n int) string { return strings.Repeat("m"+strings.Repeat("1", 1018)+" ann\n", n>>10) }

// Proves EDGE-14: the answers in an agent's turn, in one piece or as a stream, and its
// events count in the budget of bytes in flight: they fail without room, and succeed
// with it.
func TestAnswersOfTurnsAreBounded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ media, answer string }{
		"in one piece":  {"application/json", answerOf(1 << 20)},
		"a large event": {"text/event-stream", "data: " + strings.Repeat("a", 1<<20) + "\n\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			budget, free := filled(t)
			r := newRig(t, func(r *rig) {
				r.opt.Adapter, r.opt.InFlight = running{}, budget
				r.answer = func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", c.media)
					fmt.Fprint(w, c.answer)
				}
			})
			_, body := r.do(t, "POST", "/run", "x")
			expect.Equal(t, len(body) <= 64<<10, true, len(body), "bytes are answered, and there is no room")
			expect.Equal(t, budget.Refused() != 0, true, "no request is counted that found no room")
			free()
			resp, body := r.do(t, "POST", "/run", "x")
			expect.That(t, resp.StatusCode == 200 && len(body) >= 1000<<10, "%d, %d bytes, and there is room", resp.StatusCode, len(body))
			// They are returned after the answer, which its reader may already have.
			ring.Until(t, "what is held given back", func() bool { return budget.UsedBytes() == 0 })
		})
	}
}

// Proves EDGE-14: the same for events of a filtered stream.
func TestEventsAreBounded(t *testing.T) {
	t.Parallel()
	budget, free := filled(t)
	r := newRig(t, func(r *rig) {
		r.opt.Adapter, r.opt.InFlight = frontendtest.Pruning{}, budget
		r.answer = func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "data: small\n\n", "data: ", strings.Repeat("a", 1<<20), "\n\n")
		}
	})
	if _, body, err := r.take(t, "POST", "/run", ""); err == nil || body != "data: small\n\n" {
		t.Errorf("%d bytes are answered, and there is no room for the large event: %.40q, %v", len(body), body, err)
	}
	free()
	if _, body := r.do(t, "POST", "/run", ""); len(body) < 1000<<10 {
		t.Errorf("%d bytes are answered, and there is room", len(body))
	}
	ring.Until(t, "what is held given back", func() bool { return budget.UsedBytes() == 0 })
}

// Proves EDGE-14: answers to memproxy's own requests count in a budget of their own: if
// it is full, the requests fail like any other failure, and do not use up the
// listener's.
func TestSideAnswersAreBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) {
		r.answer = func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, answerOf(800<<10)) }
	})
	u := must.Get(url.Parse(r.upstream.URL))(t)
	budget, free := filled(t)
	side := frontend.NewSide(&frontend.Backend{Upstream: u}, proxy.NewTransport(nil, 0), budget, propagation.TraceContext{})
	q := memproxy.Request{Method: "GET", EscapedPath: "/memory"}
	expect.Is(t, expect.Err(side.Fetch(context.Background(), q)), frontend.ErrBusy, "without room")
	free()
	got, err := side.Fetch(context.Background(), q)
	expect.That(t, err == nil && len(got.Body) >= 700<<10, "with room: %d bytes, %v", len(got.Body), err)
	ring.Until(t, "what is held given back", func() bool { return budget.UsedBytes() == 0 })
}

// Proves EDGE-11, EDGE-14: replays after a review count in the budget; without room, or a
// connection to the backend, they are not sent, and report it.
func TestReplaysAreBounded(t *testing.T) {
	t.Parallel()
	budget, free := filled(t)
	transport := proxy.NewTransport(nil, 0)
	var moved atomic.Bool
	r := newRig(t, func(r *rig) {
		r.opt.InFlight, r.opt.Transport = budget, transport
		r.answer = func(w http.ResponseWriter, q *http.Request) {
			if moved.Load() {
				w.Header().Set("Location", "http://"+q.Host+"/memories")
				w.WriteHeader(307)
			}
		}
	})
	p := must.Get(proxy.New(r.opt))(t)
	held := memproxy.HeldWrite{ID: "h1", Backend: "toy", Route: "toy.add", Method: "POST", EscapedPath: "/memory", Principal: "agent:dev", Kind: memproxy.Learn}
	content := memproxy.HoldContent{Body: []byte(strings.Repeat("x", 600<<10)), Author: &memproxy.Principal{ID: "agent:dev", Kind: memproxy.KindAgent, Trust: memproxy.TrustAuthenticated, ActsAs: memproxy.Limit{All: true}}}
	before := r.count()
	got := p.BackendClient().Replay(context.Background(), held, content)
	expect.That(t, got.Outcome == memproxy.OutcomeUnsent && errors.Is(got.Err, frontend.ErrBusy) && r.count() == before, "without room: %+v, %d requests", got, r.count()-before)
	expect.Equal(t, r.parts.Recorded()[len(r.parts.Recorded())-1].Ended, memproxy.StreamNoRoom, "no client hung up")
	free()
	got = p.BackendClient().Replay(context.Background(), held, content)
	expect.That(t, got.Outcome == memproxy.OutcomeDone && got.Result.Status == 200 && r.count() == before+1, "with room: %+v", got)
	moved.Store(true)
	expect.Equal(t, p.BackendClient().Replay(context.Background(), held, content).Result.Status, 307, "redirected")
	expect.Len(t, r.parts.Recorded()[len(r.parts.Recorded())-1].Reasons, 0, "of a redirect to the backend itself")
	r.upstream.Close()
	transport.CloseIdleConnections()
	got = p.BackendClient().Replay(context.Background(), held, content)
	expect.That(t, got.Outcome == memproxy.OutcomeUnsent && errors.Is(got.Err, memproxy.ErrAway), "without a backend: %+v", got)
	ring.Until(t, "what is held given back", func() bool { return budget.UsedBytes() == 0 })
}
