package redisstore

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/internal/must"
)

// redisServer is the path of the program, or "".
func redisServer() string {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return ""
	}
	return path
}

// process is a running redis-server.
type process struct {
	t    *testing.T
	args []string
	cmd  *exec.Cmd
}

// launch starts a redis-server without persistence and returns when it accepts
// connections.
func launch(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{t: t, args: args}
	t.Cleanup(p.kill)
	p.start()
	return p
}

func (p *process) start() {
	p.t.Helper()
	p.cmd = exec.Command(redisServer(), append([]string{"--save", "", "--appendonly", "no", "--daemonize", "no", "--protected-mode", "no"}, p.args...)...)
	out := must.Get(p.cmd.StdoutPipe())(p.t)
	must.Do(p.t, p.cmd.Start())
	var said []string
	for lines := bufio.NewScanner(out); lines.Scan(); {
		said = append(said, lines.Text())
		if strings.Contains(strings.ToLower(lines.Text()), "ready to accept connections") {
			go func() { // drain the pipe
				for lines.Scan() {
				}
			}()
			return
		}
	}
	p.t.Fatalf("redis-server did not start:\n%s", strings.Join(said, "\n"))
}

// kill ends the server like a crash.
func (p *process) kill() {
	if p.cmd != nil && p.cmd.Process != nil {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
		p.cmd = nil
	}
}

// socket starts a server on a unix socket only, so that tests need no port.
func socket(t *testing.T) (*process, string) {
	t.Helper()
	if redisServer() == "" {
		t.Skip("no redis-server on PATH")
	}
	dir, err := os.MkdirTemp("", "redis") // short: the path of a socket has at most 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	return launch(t, "--port", "0", "--unixsocket", path, "--dir", dir), "unix://" + path
}

// fresh is the URL of an empty server: a real one if installed, else the imitation.
func fresh(t *testing.T) string {
	t.Helper()
	if redisServer() == "" {
		if url, ok := imitation(t); ok {
			return url
		}
		t.Skip("neither a redis-server on PATH nor an imitation in this build")
	}
	_, url := socket(t)
	return url
}
