package redisstore_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/budgets/redisstore"
	"github.com/memproxy/memproxy/envoy/xds/xdstest"

	"github.com/alicebob/miniredis/v2"
	peer "github.com/alicebob/miniredis/v2/server"

	"github.com/memproxy/memproxy/budgets"
	"github.com/memproxy/memproxy/budgets/budgettest"
	"github.com/memproxy/memproxy/internal/expect"
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
	dir := must.Get(os.MkdirTemp("", "redis"))(t) // short: the path of a socket has at most 107 bytes
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

func imitation(t *testing.T) (string, bool) {
	return "redis://" + miniredis.RunT(t).Addr(), true
}

// Proves CARD-4, TRL-6, TRL-8: the contract on an in-process imitation of Redis, whose
// clock follows the test's, so that windows expire.
func TestImitationKeepsTheContract(t *testing.T) {
	budgettest.Run(t, func(t *testing.T, clock *budgettest.Clock) budgets.Store {
		server := miniredis.RunT(t)
		clock.OnAdvance(server.FastForward)
		return connect(t, redisstore.Options{URL: "redis://" + server.Addr()})
	})
}

// failed makes a charge and expects an error with the text.
func failed(t *testing.T, s *redisstore.Store, want string) {
	t.Helper()
	a, err := s.Charge(t.Context(), hourly("1", 1, 100))
	if err == nil || a.Granted || !strings.Contains(err.Error(), want) {
		t.Errorf("%+v, %v; want an error with %q", a, err, want)
	}
}

// says makes the server answer a command with a given text.
func says(m *miniredis.Miniredis, command, answer string) {
	m.Server().SetPreHook(func(c *peer.Peer, cmd string, _ ...string) bool {
		if strings.Contains(command, cmd) {
			c.WriteRaw(answer)
		}
		return strings.Contains(command, cmd)
	})
}

// Connections that a server restart closed are replaced.
func TestRestartBetweenCharges(t *testing.T) {
	m := miniredis.RunT(t)
	s := connect(t, redisstore.Options{URL: "redis://" + m.Addr()})
	charges(t, s, hourly("1", 1, 100), 1)
	m.Close()
	must.Do(t, m.Restart())
	charges(t, s, hourly("2", 1, 100), 2)
}

// Errors contain only the server's error code: a server without AUTH echoes the
// password, and another could put a message into the log.
func TestErrorsAreCodes(t *testing.T) {
	for _, answer := range []string{
		"WRONGPASS invalid username-password pair or user is disabled.",
		"ERR unknown command `AUTH`, with args beginning with: `hunter2` ",
		"ERR unknown command `AUTH`, with args beginning with: `hunt", // Redis truncates it
		"ERR what is hunter2",
		"BUSY as hunting is, approve what waits",
	} {
		m := miniredis.RunT(t)
		says(m, "HELLO AUTH", "-"+answer+"\r\n")
		for _, url := range []string{"redis://ann:hunter2@" + m.Addr(), "redis://:hunter2@" + m.Addr() + "?cluster=true"} {
			s := connect(t, redisstore.Options{URL: url})
			_, err := s.Charge(t.Context(), hourly("1", 1, 100))
			for _, err := range []error{err, s.Ping(t.Context()), s.Release(t.Context(), hourly("1", 1, 100))} {
				must.Error(t, err)
				expect.Text(t, err.Error()).Lacks("hunt").Has(strings.Fields(answer)[0])
			}
		}
	}
}

// A Cluster redirect is followed.
func TestClusterRedirects(t *testing.T) {
	a, b := miniredis.RunT(t), miniredis.RunT(t)
	says(a, "EVALSHA EVAL", fmt.Sprintf("-MOVED %d %s\r\n", slot("{acme}"), b.Addr()))
	charges(t, connect(t, redisstore.Options{URL: "redis://" + a.Addr() + "?cluster=true"}), hourly("1", 1, 100), 1)
	if len(b.Keys()) == 0 || len(a.Keys()) != 0 {
		t.Error("the charge is not where the redirect says")
	}
}

// A dead node is replaced by the new owner of its slots. The client reloads the slot
// map in the background.
func TestDeadNodeIsLeft(t *testing.T) {
	a, b := miniredis.RunT(t), miniredis.RunT(t)
	says(a, "CLUSTER", fmt.Sprintf("*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n+127.0.0.1\r\n:%s\r\n", b.Port()))
	s := connect(t, redisstore.Options{URL: "redis://" + a.Addr() + "?cluster=true"})
	charges(t, s, hourly("1", 1, 100), 1)
	b.Close()
	failed(t, s, "refused")
	a.Server().SetPreHook(nil)
	for i := 0; len(a.Keys()) == 0; i++ {
		if _, err := s.Charge(t.Context(), hourly("2", 1, 100)); err != nil && i == 10_000 {
			t.Fatal(err)
		}
	}
}

// go-redis would send COMMAND to each node, behind a lock and for 5 s regardless of the
// context.
func TestClusterIsNotAskedForCommand(t *testing.T) {
	m := miniredis.RunT(t)
	m.Server().SetPreHook(func(_ *peer.Peer, cmd string, _ ...string) bool {
		if cmd == "COMMAND" {
			t.Error("COMMAND was sent")
		}
		return false
	})
	charges(t, connect(t, redisstore.Options{URL: "redis://" + m.Addr() + "?cluster=true"}), hourly("1", 1, 100), 1)
}

// Each host's certificate is verified against its name in the URL or in the Cluster.
func TestTLS(t *testing.T) {
	web := httptest.NewTLSServer(nil) // its certificate is for 127.0.0.1, not for localhost
	defer web.Close()
	roots := filepath.Join(t.TempDir(), "roots.pem") // of the system, which this process reads once
	must.Do(t, os.WriteFile(roots, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: web.Certificate().Raw}), 0o600))
	t.Setenv("SSL_CERT_FILE", roots)
	m := must.Get(miniredis.RunTLS(&tls.Config{Certificates: web.TLS.Certificates}))(t)
	defer m.Close()
	other := must.Get(miniredis.RunTLS(must.Get(must.Get(xdstest.NewCA())(t).Server())(t)))(t)
	defer other.Close()
	over := func(hosts string) *redisstore.Store { return connect(t, redisstore.Options{URL: "rediss://" + hosts}) }
	charges(t, over(m.Addr()), hourly("1", 1, 100), 1)
	failed(t, over("localhost:"+m.Port()), "not localhost")
	charges(t, over("localhost:"+m.Port()+","+m.Addr()), hourly("2", 1, 100), 2)
	failed(t, over(other.Addr()), "unknown authority")
}

// A call with a cancelled context sends nothing.
func TestCancelledIsNotSent(t *testing.T) {
	m := miniredis.RunT(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, query := range []string{"", "?cluster=true", "?master=m"} {
		s := connect(t, redisstore.Options{URL: "redis://" + m.Addr() + query})
		expect.Is(t, expect.Err(s.Charge(ctx, hourly("1", 1, 100))), context.Canceled, query)
	}
	expect.Len(t, m.Keys(), 0)
}

// An invalid reply is an error, in bounded time and memory, and the next charge counts.
func TestNonsenseIsAnError(t *testing.T) {
	for name, answer := range map[string]string{
		"a long string":         "$200000000\r\n",
		"a long list":           "*20000000\r\n",
		"a long map":            "%2000000\r\n",
		"a length that wraps":   "$9223372036854775807\r\n",
		"a list that is beyond": "*9223372036854775807\r\n",
		"a length like none":    "*99999999999999999999999\r\n",
		"lists in lists":        strings.Repeat("*65000\r\n", 400),
		"deep lists":            strings.Repeat("*1\r\n", 1_000_000),
		"an endless line":       "+" + strings.Repeat("x", 8<<20),
		"no numbers":            "*4\r\n:1\r\n:1\r\n$1\r\nx\r\n:0\r\n",
		"nothing":               "*4\r\n:1\r\n:1\r\n*-1\r\n:0\r\n",
		"too few":               "*2\r\n:1\r\n:1\r\n",
		"no list":               "+OK\r\n",
		"nil":                   "*-1\r\n",
		"HTTP":                  "HTTP/1.1 400 Bad Request\r\n\r\n",
		"zeros":                 "\x00\x00\x00\r\n",
		"a map":                 "%1\r\n+a\r\n:1\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			m := miniredis.RunT(t)
			s := connect(t, redisstore.Options{URL: "redis://" + m.Addr()})
			charges(t, s, hourly("0", 1, 100), 1)
			says(m, "EVALSHA", answer)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			failed(t, s, "redisstore: ")
			runtime.ReadMemStats(&after)
			if used := after.TotalAlloc - before.TotalAlloc; used > 100<<20 {
				t.Errorf("%d bytes", used)
			}
			m.Server().SetPreHook(nil)
			charges(t, s, hourly("2", 1, 100), 2)
		})
	}
	for _, query := range []string{"?cluster=true", "?master=m"} {
		m := miniredis.RunT(t)
		says(m, "EVALSHA SENTINEL", "$9223372036854775807\r\n")
		failed(t, connect(t, redisstore.Options{URL: "redis://" + m.Addr() + query}), "too long")
	}
}
