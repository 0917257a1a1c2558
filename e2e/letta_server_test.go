//go:build e2e

package e2e

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"

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
