package extproc_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/frontend"
	"github.com/memproxy/memproxy/internal/ring"
)

// lines is a log that can be read while it is written.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) count(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), what)
}

// Proves EDGE-14: a flood of rejections from one address is answered, and neither
// recorded nor logged one by one; another address and an identified caller are not
// affected.
func TestFloodsOfRejections(t *testing.T) {
	const limit, flood = 300, 320
	var log lines
	r := newRig(t, func(r *rig) { r.opt.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	from := func(address string) { r.envoy.Attributes = map[string]any{"source.address": address} }
	from("10.1.1.1:5000")
	for i := range flood {
		want := http.StatusUnauthorized
		if i >= limit {
			want = http.StatusTooManyRequests
		}
		if resp, _ := r.do("GET", "/memory", "", "X-Key", "bad"); resp.StatusCode != want {
			t.Fatalf("rejection %d: %d", i, resp.StatusCode)
		}
	}
	if n := r.parts.Decisions(memproxy.IdentityInvalid); n != limit {
		t.Errorf("%d rejections are recorded", n)
	}
	if n := log.count("identity.invalid"); n != limit || log.count("limit.rejections") > 0 {
		t.Errorf("%d lines of rejections, %d of those that are only counted", n, log.count("limit.rejections"))
	}
	if resp, _ := r.do("GET", "/memory", ""); resp.StatusCode != 200 {
		t.Error("a known caller at the same address:", resp.StatusCode)
	}
	from("10.1.1.2:5000")
	if resp, _ := r.do("GET", "/memory", "", "X-Key", "bad"); resp.StatusCode != http.StatusUnauthorized || r.parts.Decisions(memproxy.IdentityInvalid) != limit+1 {
		t.Error("another address is taken for the flood's:", resp.StatusCode)
	}
}

// Proves EDGE-14: bodies and answers in memory share one budget here, too; over it they
// are refused with a time to retry, and recorded.
func TestBytesInFlightAreBounded(t *testing.T) {
	ring.Slow(t, "fills sockets and waits")
	t.Parallel()
	const total = 8 << 20 // half of it for data
	held := frontend.NewInFlight(total, total)
	r := newRig(t, func(r *rig) {
		r.opt.Backends[0].InFlight = held
		r.envoy.Attributes = map[string]any{"source.address": "10.1.1.1:5000"}
		r.answer = func(w http.ResponseWriter, q *http.Request) {
			if q.URL.RawQuery != "" {
				fmt.Fprint(w, strings.Repeat("m1 ann\n", 80<<10))
				return
			}
			fmt.Fprint(w, "m1 ann\n")
		}
	})
	body := strings.Repeat("x", 600<<10)
	other := held.Lease("10.1.1.2")
	other.Force(total/2 - 300<<10)
	if resp, _ := r.do("POST", "/memory", body); resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "" || len(r.arrived()) > 0 {
		t.Error("a body for which there is no room:", resp.StatusCode, resp.Header)
	}
	if n := r.parts.Decisions(memproxy.LimitInFlight); n != 1 {
		t.Errorf("%d refusals are recorded", n)
	}
	if resp, _ := r.do("GET", "/memory?large", ""); resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "" {
		t.Error("an answer for which there is no room:", resp.StatusCode, resp.Header)
	}
	if resp, _ := r.do("POST", "/memory", "small"); resp.StatusCode != 200 {
		t.Error("a small body beside it:", resp.StatusCode)
	}
	other.Release()
	for _, q := range [][2]string{{"POST", "/memory"}, {"GET", "/memory?large"}} {
		if resp, _ := r.do(q[0], q[1], map[string]string{"POST": body}[q[0]]); resp.StatusCode != 200 {
			t.Error("with room:", q, resp.StatusCode)
		}
	}
	ring.Until(t, "nothing is held for nobody", func() bool { return held.Held() == 0 })
}

// Proves EDGE-14: the concurrent requests are bounded; further ones are refused.
func TestExchangesAreBounded(t *testing.T) {
	t.Parallel()
	release, arrived := make(chan struct{}), make(chan struct{}, 1)
	r := newRig(t, func(r *rig) {
		r.opt.Exchanges = 1
		r.answer = func(w http.ResponseWriter, q *http.Request) {
			arrived <- struct{}{}
			<-release
			fmt.Fprint(w, "m1 ann\n")
		}
	})
	done := make(chan int)
	go func() {
		resp, err := http.Get(r.URL + "/memory")
		if err != nil {
			done <- 0
			return
		}
		resp.Body.Close()
		done <- resp.StatusCode
	}()
	<-arrived
	if resp, _ := r.do("GET", "/memory", ""); resp.StatusCode < 500 {
		t.Error("one more than are bounded:", resp.StatusCode)
	}
	close(release)
	if code := <-done; code != 200 {
		t.Error("the one that is under way:", code)
	}
	if n := len(r.arrived()); n != 1 {
		t.Errorf("%d requests arrived", n)
	}
	ring.Until(t, "something is served afterwards", func() bool {
		resp, _ := r.do("GET", "/health", "")
		return resp.StatusCode == 200
	})
}
