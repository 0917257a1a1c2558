package app_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/internal/cli"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/freeport"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
)

// Check reports what prevents a configuration from running on this machine, and nothing
// otherwise; a running sidecar does not conflict with itself. Check leaves nothing
// behind.
//
// Proves CARD-8
func TestCheckReportsTheMachine(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	taken := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer taken.Close()
	file := filepath.Join(dir, "file")
	must.Do(t, os.WriteFile(file, nil, 0o600))
	admin := "127.0.0.1:0"
	check := func(listen, state string) string {
		t.Helper()
		path := filepath.Join(dir, "memproxy.yaml")
		text := fmt.Sprintf("profile: production\nstate: %q\nidentity: {keys: [{sha256: %q, id: \"agent:a\", tenant: t}]}\nadmin: {listen: %q}\nbackends:\n  - {name: mem0, kind: mem0, listen: %q, upstream: \"http://127.0.0.1:1\"}\n", state, sha("key"), admin, listen)
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
		code, out, errs := invoke(t, "check", "--config", path)
		must.Equal(t, code, 0, out, errs)
		var said []string
		for line := range strings.Lines(out) {
			if here, ok := strings.CutPrefix(line, "on this machine: "); ok {
				said = append(said, strings.TrimSpace(here))
			}
		}
		return strings.Join(said, "; ")
	}
	fine := filepath.Join(dir, "a", "b")
	for _, tc := range []struct{ name, listen, state, want string }{
		{"nothing", "127.0.0.1:0", fine, ""},
		{"a port in use", taken.Addr().String(), fine, "in use"},
		{"an address of elsewhere", "192.0.2.1:8081", fine, "cannot listen on"},
		{"a state that is a file", "127.0.0.1:0", file, "is not a directory"},
		{"a state under a file", "127.0.0.1:0", filepath.Join(file, "state"), "state cannot be written"},
	} {
		got := check(tc.listen, tc.state)
		expect.Equal(t, (got == "") == (tc.want == "") && strings.Contains(got, tc.want), true, tc.name, got, "want", tc.want)
	}
	admin = freeport.Addr(t)
	for _, spelled := range []string{strings.Replace(admin, "127.0.0.1", "localhost", 1), strings.Replace(admin, "127.0.0.1", "", 1)} {
		expect.Text(t, check(spelled, fine), spelled).Has("another address of this configuration")
	}
	admin = "127.0.0.1:0"
	expect.Error(t, expect.Err(os.Stat(filepath.Dir(fine))), "a check makes directories")
	expect.Len(t, must.Get(filepath.Glob(filepath.Join(dir, ".memproxy-check-*")))(t), 0, "left")
	r := start(t, screeningConf, "SCREENING", "")
	listening := strings.TrimPrefix(r.base, "http://")
	expect.Equal(t, check(listening, r.car.cfg.State), "", "beside the sidecar that listens there")
}

// Where the process may not open as many files as the connections need, a check and the log
// say so.
func TestFewFilesAreReported(t *testing.T) {
	t.Parallel()
	text := strings.NewReplacer("DIR", ring.Dir(t), "UPSTREAM", "http://127.0.0.1:1", "KEY", sha(devToken)).Replace(plain) + "limits: {connections: 1000000000}\n"
	const short = "limits.connections (1000000000) needs 3000000000 open files"
	served(t, text, short)
	_, out, _ := invoke(t, "check", "--config", writeFile(t, filepath.Join(t.TempDir(), "memproxy.yaml"), text))
	expect.Text(t, out).Has("on this machine: " + short)
}

// What a start would refuse in a value, a check refuses too, and both with its place.
// Neither quotes a secret.
func TestValuesAStartRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, text, want string }{
		{"a log's name", "audit: {origin: \"two words\"}", "audit.origin: a log's name must not"},
		{"Redis", "budgets: {redis: {url: \"redis://:hunter22/@cache:6379/0\"}}", "budgets.redis.url: redisstore: the URL cannot be read"},
		{"Redis' port", "budgets: {redis: {url: \"redis://:hunter22@cache:99999\"}}", "budgets.redis.url: redisstore: the URL cannot be read"},
		{"Postgres", "ledger: {url: \"postgres://u:hunter22/%zz@db/memproxy\"}", "ledger.url: not the URL of a Postgres database"},
	} {
		dir := t.TempDir()
		path := writeFile(t, filepath.Join(dir, "memproxy.yaml"), fmt.Sprintf("state: %q\nadmin: {listen: \"127.0.0.1:0\"}\nbackends:\n  - {name: mem0, kind: mem0, listen: \"127.0.0.1:0\", upstream: \"http://127.0.0.1:1\"}\n%s\n", filepath.Join(dir, "state"), c.text))
		for _, command := range []string{"check", "serve"} {
			code, _, errs := invoke(t, command, "--config", path)
			expect.Equal(t, code == 1 && strings.Contains(errs, path+":5: "+c.want) && !strings.Contains(errs, "hunter22"), true, c.name, command, code, errs)
		}
		expect.Error(t, expect.Err(os.Stat(filepath.Join(dir, "state"))), c.name, "the state was made")
	}
}

// What explain says of a request is what the listener answers it: also of what is decided
// by the request's head, and of patterns and limits of the backend. Proves EDGE-18.
func TestExplainAnswersAsTheListener(t *testing.T) {
	t.Parallel()
	r := start(t, strings.Replace(plain, "upstream:", "passthrough: [\"GET /custom/*\"], limits: {body: 1024}, upstream:", 1))
	path := writeFile(t, filepath.Join(t.TempDir(), "memproxy.yaml"), r.conf)
	good := noted("x")
	for _, c := range []struct{ method, path, body, verdict string }{
		{"POST", "/memories", good, "allow"},
		{"X-HTTP-Method-Override: DELETE\nPOST", "/memories", good, "deny"},
		{"Content-Encoding: gzip\nPOST", "/memories", good, "deny"},
		{"X-Envoy-Max-Retries: 3\nPOST", "/memories", good, "deny"},
		{"Upgrade: websocket\nGET", "/memories?user_id=ann", "", "deny"},
		{"X-Memproxy-Min-Trust: nonsense\nGET", "/memories?user_id=ann", "", "deny"},
		{"X-Other: x\nPOST", "/memories", good, "allow"},
		{"POST", "/memories", strings.Replace(good, "x", strings.Repeat("x ", 800), 1), "deny"},
		{"POST", "/memories?_method=DELETE", good, "deny"},
		{"POST", "/memories?of=method", good, "allow"},
		{"GET", "/memories?user_id=ann", "", "allow"},
		{"GET", "/memories?user_id=ann", good, "deny"},
		{"GET", "/custom/x", "", "allow"},
		{"POST", "/custom/x", good, "deny"},
		{"TRACE", "/memories", "", "deny"},
	} {
		args, headers, method := []string{}, []string{}, c.method
		if header, below, ok := strings.Cut(c.method, "\n"); ok {
			name, value, _ := strings.Cut(header, ": ")
			args, headers, method = []string{"--header", header}, []string{name, value}, below
		}
		served := r.do(method, c.path, c.body, headers...).header.Get("X-Memproxy-Decision")
		args = append([]string{"explain", "--config", path, "--method", method, "--path", c.path, "--as", "agent:dev", "--json"}, args...)
		if c.body != "" {
			args = append(args, "--body", writeFile(t, filepath.Join(t.TempDir(), "body.json"), c.body))
		}
		_, out, _ := invoke(t, args...)
		ex := decoded[struct{ Verdict string }](t, out)
		verdict, _, _ := strings.Cut(served, ";")
		expect.Equal(t, verdict == c.verdict && ex.Verdict == c.verdict, true, c.method, c.path, "the listener says", verdict, "explain", ex.Verdict, "want", c.verdict)
	}
}

// Proves TRL-3, CARD-5, EDGE-13: explain lists the locks that apply to a write, with
// their state in the ledger of a running sidecar, and the filters for an answer.
func TestExplainShowsLocksAndFilters(t *testing.T) {
	t.Parallel()
	r := start(t, strings.Replace(plain, "log: {level: info}", "sessions: {max_rejections: 2}\nlog: {level: info}", 1))
	bad := strings.Replace(noted("x"), "ann", "bob", 1)
	for range 3 {
		r.do("POST", "/memories", bad, "X-Memproxy-Session", "one").want(t, 403)
	}
	path, body := writeFile(t, filepath.Join(t.TempDir(), "memproxy.yaml"), r.conf), writeFile(t, filepath.Join(t.TempDir(), "body.json"), bad)
	args := []string{"explain", "--config", path, "--method", "POST", "--path", "/memories", "--body", body, "--as", "agent:dev"}
	ring.Until(r.t, "the lock", func() bool {
		_, out, _ := invoke(t, append(args, "--session", "one")...)
		return strings.Contains(out, "locked until")
	})
	type lock struct {
		Until string `json:"locked_until"`
	}
	var ex struct {
		Locks   []lock
		Filters []gate.Filter
	}
	ask := func(more ...string) {
		t.Helper()
		ex.Locks, ex.Filters = nil, nil
		code, out, errs := invoke(t, append(append(args, "--json"), more...)...)
		if err := json.Unmarshal([]byte(out), &ex); err != nil || code != 0 && code != 3 {
			t.Fatalf("exit %d, %v: %s %s", code, err, out, errs)
		}
	}
	ask("--session", "one")
	must.Len(t, ex.Locks, 3)
	locked := slices.DeleteFunc(ex.Locks, func(l lock) bool { return l.Until == "" })
	expect.Len(t, locked, 1)
	expect.Equal(t, len(ex.Filters) == len(gate.Filters()) && ex.Filters[1].Name == "readable" && ex.Filters[1].What != "", true, ex.Filters)
	writeFile(t, body, noted("x"))
	ask("--session", "another")
	for _, l := range ex.Locks {
		expect.Equal(t, l.Until, "", "another session is locked", ex.Locks)
	}
	_, out, _ := invoke(t, "explain", "--config", path, "--path", "/docs", "--as", "agent:dev")
	expect.Text(t, out).Has("forwarded without filtering").Lacks("\nlock ")
}

// screenOf returns what a terminal shows after the output, and the longest text that
// was overwritten after a carriage return.
func screenOf(written string) (stands, over string) {
	var lines []string
	for line := range strings.SplitSeq(written, "\n") {
		shown := ""
		for part := range strings.SplitSeq(line, "\r") {
			if text := strings.TrimRight(shown, " "); len(text) > len(over) {
				over = text
			}
			shown = part + shown[min(len(part), len(shown)):]
		}
		lines = append(lines, strings.TrimRight(shown, " "))
	}
	return strings.Join(lines, "\n"), over
}

// A long command shows progress on a terminal and clears it at the end; into a pipe,
// and with machine-readable output, it shows none.
func TestCommandsShowProgress(t *testing.T) {
	t.Parallel()
	r := start(t, screeningConf, "SCREENING", fmt.Sprintf(`memories: {validate: 0}
review: {reviewers: [{id: eve, sha256: %q, roles: [view, review], tenants: "*"}]}`, sha(reviewToken)))
	r.versioned(r.written("Ann likes green tea.", ""))
	conf := writeFile(t, filepath.Join(r.dir, "memproxy.yaml"), r.conf)
	ask := []string{"--admin", r.admin, "--token-file", writeFile(t, filepath.Join(r.dir, "token"), reviewToken)}
	verify := []string{"audit", "verify", "--dir", filepath.Join(r.dir, "state", "audit")}
	hunt := []string{"screen", "--config", conf, "--backend", "mem0", "--api", "server", "--rate", "1000", "--scope", "user=ann"}
	const lines = `{"text":"Ann likes tea."}` + "\n"
	type line struct {
		words []string
		shows string
		forms bool // accepts --output
	}
	all := []line{
		{append([]string{"ledger", "sweep"}, ask...), "looked at", true},
		{append([]string{"audit", "seal", "--backend", "mem0", "--tenant", "acme"}, ask...), "1 looked at", true},
		{verify, "] 100%", true}, {hunt, "1 texts", false}, {[]string{"screen"}, "1 lines", false},
	}
	show := func(l line, stderr func(io.Writer) io.Writer, more ...string) (out, errs string) {
		var stdout, written lockedBuffer
		a := &invocation{Args: append(l.words[:len(l.words):len(l.words)], more...), Stdin: strings.NewReader(lines), Stdout: &stdout, Stderr: stderr(&written), Getenv: os.Getenv, Version: "test"}
		expect.Equal(t, a.run(t.Context()), cli.OK, a.Args, written.String())
		return stdout.String(), written.String()
	}
	terminal := func(w io.Writer) io.Writer { return cli.Terminal{Writer: w} }
	pipe := func(w io.Writer) io.Writer { return w }
	try := func(l line) {
		out, piped := show(l, pipe)
		expect.Equal(t, !strings.Contains(out+piped, "\r") && !strings.Contains(piped, l.shows), true, l.words, "shows progress in a pipe", piped)
		_, errs := show(l, terminal)
		stands, over := screenOf(errs)
		expect.Equal(t, strings.Contains(over, l.shows) && !strings.Contains(stands, l.shows), true, l.words, "of", errs, "stands", stands, "and stood", over, "want", l.shows, "shown and cleared")
		if l.forms {
			_, errs = show(l, terminal, "--output", "json")
			expect.Equal(t, errs, "", "written for a program", l.words)
		}
	}
	for _, l := range all {
		try(l)
	}
	r.offline()
	for _, l := range all[:2] {
		try(line{append(l.words[:len(l.words)-len(ask):len(l.words)-len(ask)], "--config", conf), l.shows, true})
	}
}

// Other output on the same terminal does not mix with the progress line.
func TestProgressDoesNotMixWithOutput(t *testing.T) {
	t.Parallel()
	var written lockedBuffer
	both := cli.Terminal{Writer: &written}
	a := &invocation{Args: []string{"screen"}, Stdin: strings.NewReader(strings.Repeat("{\"text\":\"tea\"}\n", 300) + "bad\n"), Stdout: both, Stderr: both, Getenv: os.Getenv, Version: "test"}
	a.run(t.Context())
	for line := range strings.Lines(written.String()) {
		stands, _ := screenOf(line)
		expect.Equal(t, !strings.Contains(stands, "lines "), true, stands, "stands in a line with others")
	}
}
