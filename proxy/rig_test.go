package proxy_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/memproxy/memproxy/frontend"
	"github.com/memproxy/memproxy/frontend/frontendtest"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/seldomgc"
	"github.com/memproxy/memproxy/proxy"
)

// arrived is a request that reached the upstream.
type arrived struct {
	target string
	header http.Header
	body   string
}

// rig is a proxy in front of a scripted upstream.
type rig struct {
	*httptest.Server
	parts    *frontendtest.Parts
	upstream *httptest.Server
	mu       sync.Mutex
	got      []arrived
	answer   http.HandlerFunc
	opt      proxy.Options
	rules    gate.Rules
}

func newRig(t *testing.T, change func(*rig)) *rig {
	t.Helper()
	r := &rig{parts: &frontendtest.Parts{}, answer: func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "m1 ann\n") }}
	r.upstream = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		b, _ := io.ReadAll(q.Body)
		r.mu.Lock()
		r.got = append(r.got, arrived{q.RequestURI, q.Header.Clone(), string(b)})
		answer := r.answer
		r.mu.Unlock()
		answer(w, q)
	}))
	t.Cleanup(r.upstream.Close)
	u := must.Get(url.Parse(r.upstream.URL))(t)
	r.opt = proxy.Options{Backend: frontend.Backend{Backend: gate.Backend{Name: "toy", Adapter: frontendtest.Toy{}}, Upstream: u}}
	r.rules = frontendtest.Rules(r.parts)
	if change != nil {
		change(r)
	}
	r.opt.Gate = frontendtest.NewGate(t, r.parts, &r.rules)
	p := must.Get(proxy.New(r.opt))(t)
	r.Server = httptest.NewServer(p)
	t.Cleanup(r.Server.Close)
	return r
}

// last returns the last request that reached the upstream.
func (r *rig) last(t *testing.T) arrived {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	must.Equal(t, len(r.got) != 0, true, "nothing reached the upstream")
	return r.got[len(r.got)-1]
}

func (r *rig) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.got)
}

func (r *rig) do(t *testing.T, method, path, body string, header ...string) (*http.Response, string) {
	t.Helper()
	resp, said, err := r.take(t, method, path, body, header...)
	must.Do(t, err)
	return resp, said
}

// take is do for an answer that may be incomplete, which the error reports.
func (r *rig) take(t *testing.T, method, path, body string, header ...string) (*http.Response, string, error) {
	t.Helper()
	q := must.Get(http.NewRequest(method, r.URL+path, strings.NewReader(body)))(t)
	for i := 0; i+1 < len(header); i += 2 {
		q.Header[header[i]] = append(q.Header[header[i]], header[i+1])
	}
	client := &http.Client{
		Transport:     &http.Transport{DisableCompression: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp := must.Get(client.Do(q))(t)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp, string(b), err
}

// start starts a listener for the tests of all listeners.
func start(t *testing.T, s frontendtest.Setup) func(method, path, body string, header ...string) (*http.Response, string) {
	r := newRig(t, func(r *rig) {
		r.opt.Adapter, r.opt.Passthrough, r.answer = s.Adapter, []string{"GET /custom/*"}, s.Answer
		if s.Rules != nil {
			s.Rules(&r.rules)
		}
	})
	return func(method, path, body string, header ...string) (*http.Response, string) {
		t.Helper()
		return r.do(t, method, path, body, header...)
	}
}

func TestMain(m *testing.M) { seldomgc.Main(m) }
