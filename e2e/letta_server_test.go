//go:build e2e

package e2e

import (
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/memproxy/memproxy/internal/freeport"
	"github.com/memproxy/memproxy/internal/must"
)

// spare are real Letta servers that a test has done with. A start costs nine
// seconds of CPU.
var spare struct {
	sync.Mutex
	servers []*spareLetta
}

type spareLetta struct {
	base, dir string
	process   *process
}

// lettaServer is a real server that no other test uses at the same time, and that
// may hold what earlier tests left. It is for tests that look only at objects of
// their own: what lists everything, counts, kills the server or leaves a run that
// is not over starts its own (startLetta).
func lettaServer(t *testing.T) string {
	t.Helper()
	spare.Lock()
	var l *spareLetta
	if n := len(spare.servers); n > 0 {
		l, spare.servers = spare.servers[n-1], spare.servers[:n-1]
	}
	spare.Unlock()
	if l == nil {
		dir := must.Get(os.MkdirTemp("", "memproxy-e2e-letta-"))(t)
		l = &spareLetta{dir: dir}
		l.base, l.process = launchLetta(t, dir)
	}
	before := len(l.process.log.String())
	t.Cleanup(func() { // after the sidecars of the test have stopped
		if t.Failed() {
			t.Logf("Letta said:\n%s", tail(l.process.log.String()[before:], 6000))
			l.end()
			return
		}
		spare.Lock()
		defer spare.Unlock()
		spare.servers = append(spare.servers, l)
	})
	waitFor(t, "Letta's health", healthy(l.base))
	return l.base
}

func (l *spareLetta) end() {
	l.process.stop()
	_ = os.RemoveAll(l.dir)
}

// endSpare ends the servers that are left when all tests are over.
func endSpare() {
	for _, l := range spare.servers {
		l.end()
	}
}

// startLetta starts a real server with a stub model for one test.
func startLetta(t *testing.T) string {
	t.Helper()
	return lettaWithData(t, t.TempDir())
}

// lettaWithData starts the real server with its database in a directory.
func lettaWithData(t *testing.T, data string) string {
	t.Helper()
	base, p := launchLetta(t, data)
	p.endsWith(t)
	waitFor(t, "Letta's health", healthy(base))
	return base
}

func launchLetta(t *testing.T, data string) (base string, p *process) {
	t.Helper()
	addr, stub := freeport.Addr(t), freeport.Addr(t)
	_, port, _ := net.SplitHostPort(addr)
	_, stubPort, _ := net.SplitHostPort(stub)
	return "http://" + addr, launch(t, filepath.Join("letta", "run-letta.sh"), "--port", port, "--stub-port", stubPort, "--data", data)
}

func healthy(base string) func() bool {
	return func() bool {
		resp, err := http.Get(base + "/v1/health/")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		return resp.StatusCode == 200
	}
}

// collector keeps what is sent to it over OTLP/HTTP, undecoded: the tests look
// for strings, which protobuf leaves readable.
type collector struct {
	url  string
	mu   sync.Mutex
	sent map[string][]byte // by path
}

func startCollector(t *testing.T) *collector {
	t.Helper()
	c := &collector{sent: map[string][]byte{}}
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body := io.Reader(r.Body)
		if r.Header.Get("Content-Encoding") == "gzip" {
			zr, err := gzip.NewReader(body)
			if err != nil {
				return
			}
			body = zr
		}
		b, _ := io.ReadAll(body)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.sent[r.URL.Path] = append(c.sent[r.URL.Path], b...)
	}))
	t.Cleanup(srv.Close)
	c.url = srv.URL
	return c
}

// wantDecision waits until a decision's id is in the traces and in the logs.
func (c *collector) wantDecision(t *testing.T, id string) {
	t.Helper()
	for _, path := range []string{"/v1/traces", "/v1/logs"} {
		waitFor(t, fmt.Sprintf("%s with decision %s", path, id), func() bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			return strings.Contains(string(c.sent[path]), id)
		})
	}
}

// slowBackend answers adds after a while.
type slowBackend struct {
	url     string
	arrived chan struct{}
}

func startSlowBackend(t *testing.T, wait time.Duration) slowBackend {
	t.Helper()
	b := slowBackend{arrived: make(chan struct{}, 16)}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		b.arrived <- struct{}{}
		time.Sleep(wait)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"results":[]}`)
	}))
	t.Cleanup(srv.Close)
	b.url = srv.URL
	return b
}
