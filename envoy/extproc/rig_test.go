package extproc_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/memproxy/memproxy/envoy/extproc"
	"github.com/memproxy/memproxy/envoy/extproc/extproctest"
	"github.com/memproxy/memproxy/frontend"
	"github.com/memproxy/memproxy/frontend/frontendtest"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
)

// rig is a processor behind a small Envoy, with a scripted backend.
type rig struct {
	*httptest.Server
	t      *testing.T
	parts  *frontendtest.Parts
	rules  gate.Rules
	opt    extproc.Options
	serve  extproc.ServerOptions
	envoy  *extproctest.Envoy
	conn   *grpc.ClientConn
	stop   func(context.Context) error
	mu     sync.Mutex
	got    []string
	answer http.HandlerFunc
}

func newRig(t *testing.T, change func(*rig)) *rig {
	t.Helper()
	r := &rig{t: t, parts: &frontendtest.Parts{}, answer: func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "m1 ann\n") }}
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		b, _ := io.ReadAll(q.Body)
		r.mu.Lock()
		r.got = append(r.got, fmt.Sprintf("%s %s %s", q.Method, q.RequestURI, b))
		answer := r.answer
		r.mu.Unlock()
		answer(w, q)
	}))
	t.Cleanup(up.Close)
	r.rules = frontendtest.Rules(r.parts)
	r.opt = extproc.Options{Backends: []frontend.Backend{{Backend: gate.Backend{Name: "toy", Adapter: frontendtest.Toy{}}}}}
	r.envoy = &extproctest.Envoy{Upstream: up.URL, Backend: "toy"}
	if change != nil {
		change(r)
	}
	r.opt.Gate = frontendtest.NewGate(t, r.parts, &r.rules)
	p := must.Get(extproc.New(r.opt))(t)
	ln := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	r.serve.Processor, r.serve.Authorize = p, true
	r.stop, _ = extproc.Serve(extproc.Limit(ln), r.serve)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), ring.Limit)
		defer cancel()
		_ = r.stop(ctx) // some tests stop it themselves
	})
	r.conn = must.Get(grpc.NewClient(ln.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	t.Cleanup(func() { _ = r.conn.Close() })
	r.envoy.Conn = r.conn
	r.Server = httptest.NewServer(r.envoy)
	t.Cleanup(r.Server.Close)
	return r
}

// arrived returns the requests that reached the backend since the last call.
func (r *rig) arrived() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.got
	r.got = nil
	return out
}

func (r *rig) do(method, path, body string, header ...string) (*http.Response, string) {
	r.t.Helper()
	q := must.Get(http.NewRequest(method, r.URL+path, strings.NewReader(body)))(r.t)
	for i := 0; i+1 < len(header); i += 2 {
		q.Header.Add(header[i], header[i+1])
	}
	resp := must.Get((&http.Client{Timeout: ring.Limit, Transport: &http.Transport{DisableCompression: true}}).Do(q))(r.t)
	defer resp.Body.Close()
	b := must.Get(io.ReadAll(resp.Body))(r.t)
	return resp, string(b)
}

// status is that of do's answer.
func (r *rig) status(method, path, body string, header ...string) int {
	r.t.Helper()
	resp, _ := r.do(method, path, body, header...)
	return resp.StatusCode
}

// starts returns a listener for the tests of all listeners. Change is applied first.
func starts(change func(*rig, frontendtest.Setup)) frontendtest.Start {
	return func(t *testing.T, s frontendtest.Setup) func(method, path, body string, header ...string) (*http.Response, string) {
		return newRig(t, func(r *rig) {
			if change != nil {
				change(r, s)
			}
			r.opt.Backends[0].Adapter, r.opt.Backends[0].Passthrough, r.answer = s.Adapter, []string{"GET /custom/*"}, s.Answer
			if s.Rules != nil {
				s.Rules(&r.rules)
			}
		}).do
	}
}
