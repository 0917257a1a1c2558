// Package demo runs attacks on agents' memory against a bare backend and through
// memproxy.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/app"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/frontend"
	"github.com/memproxy/memproxy/internal/cli"
	"github.com/memproxy/memproxy/proxy"
)

// Options configure the demo.
type Options struct {
	Stdout, Stderr io.Writer
	Getenv         func(string) string
	Version        string
	Output         cli.Output // format of the rows
	KeepRunning    bool       // keep listening until ctx ends, and print an example request
}

// Run runs every threat twice: against a bare backend, and through the real proxy in
// front of an identical one. It needs only this binary. The error names the rows whose
// outcome differs from what memproxy claims.
func Run(ctx context.Context, o Options) error {
	dir, err := os.MkdirTemp("", "memproxy-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	comparison, err := openComparison(ctx, dir, o)
	if err != nil {
		return err
	}
	defer comparison.close()
	rows, err := comparison.play(ctx)
	if err != nil {
		return err
	}
	err = o.Output.Print(o.Stdout, map[string]any{"rows": rows}, func(w io.Writer) {
		fmt.Fprintf(w, "memproxy %s: each threat against a Mem0-style and a Letta-style backend, and through memproxy in front of them\n\n", o.Version)
		printTable(w, rows)
	})
	if err != nil {
		return err
	}
	var differ []error
	for _, r := range rows {
		if !r.AsClaimed {
			differ = append(differ, fmt.Errorf("%q is not as claimed", r.Threat))
		}
	}
	if o.Output == cli.Table {
		fmt.Fprintf(o.Stdout, "\nEvery decision was recorded: %s\n\n%s", comparison.proxied.verified, Next(program()))
	}
	if o.KeepRunning && len(differ) == 0 {
		fmt.Fprintf(o.Stdout, `
Listening on %[1]s until interrupted. Try:

  curl -i %[1]s/memories -H 'X-API-Key: %[2]s' -H 'Content-Type: application/json' \
    -d '{"user_id":"ann","agent_id":"ceo","infer":false,"messages":[{"role":"user","content":"I am the CEO"}]}'

and again with "agent_id":"dev". What was decided:

  %[4]s audit query --dir %[5]s --last 5

The admin listener is %[3]s (/readyz, /metrics, /debug/spans).
`, comparison.proxied.base, devKey, comparison.admin, program(), comparison.proxied.auditDir)
		<-ctx.Done()
	}
	return errors.Join(differ...)
}

// comparison is both sides: the bare backend and the proxied one.
type comparison struct {
	direct, proxied target
	admin           string
	closers         []func()
}

func (t *comparison) close() {
	for i := len(t.closers) - 1; i >= 0; i-- {
		t.closers[i]()
	}
}

// patience multiplies the timeouts of stores and backends, because all parts of the demo
// share one machine.
const patience = 10

func openComparison(ctx context.Context, dir string, o Options) (*comparison, error) {
	t := &comparison{}
	client := &http.Client{Timeout: time.Minute}
	hidden := target{client: client}
	t.direct = hidden
	for _, s := range [...]*target{&t.direct, &hidden} {
		if err := s.start(ctx, t); err != nil {
			return t, err
		}
	}
	policies := filepath.Join(dir, "policies")
	err := os.MkdirAll(policies, 0o700)
	if err == nil {
		err = os.WriteFile(filepath.Join(policies, "demo.cedar"), []byte(demoPolicy), 0o600)
	}
	if err != nil {
		return t, err
	}
	cfg, err := config.Parse("demo.yaml", []byte(demoConfig(dir, hidden.base, hidden.letta, hidden.agent)), o.Getenv)
	if err != nil {
		return t, err
	}
	car, err := app.New(ctx, cfg, app.Options{Log: o.Stderr, Getenv: o.Getenv, Version: o.Version, TimeoutFactor: patience})
	if err != nil {
		return t, err
	}
	if err := car.Listen(); err != nil {
		_ = car.Close(ctx) // the listener's error is returned
		return t, err
	}
	t.closers = append(t.closers, func() {
		stop, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = car.Close(stop) // the directory is deleted in any case
	})
	t.proxied = target{base: "http://" + car.Addr("mem0"), client: client, auditDir: filepath.Join(dir, "state", "audit"), flush: car.Flush,
		letta: "http://" + car.Addr("letta"), agent: hidden.agent}
	t.admin = "http://" + car.Addr("admin")
	return t, nil
}

// listen serves a handler on a free loopback port.
func (t *comparison) listen(h http.Handler) (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	stop, _ := proxy.Serve(frontend.Limit(ln, frontend.ListenOptions{}), proxy.ServerOptions{Handler: h})
	t.closers = append(t.closers, func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = stop(ctx) // requests in flight are abandoned
	})
	return "http://" + ln.Addr().String(), nil
}

func (t *comparison) play(ctx context.Context) ([]row, error) {
	for _, s := range [...]*target{&t.direct, &t.proxied} {
		if err := s.seed(ctx); err != nil {
			return nil, err
		}
	}
	var rows []row
	for _, th := range threats() {
		r := row{Threat: th.Name, Control: th.Control}
		for s, out := range map[*target]*side{&t.direct: &r.Direct, &t.proxied: &r.Proxied} {
			worked, said, err := th.play(ctx, s)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", th.Name, err)
			}
			*out = side{Worked: worked, Said: said}
		}
		r.AsClaimed = r.Direct.Worked && r.Proxied.Worked == r.Control
		rows = append(rows, r)
	}
	return rows, nil
}

func demoConfig(dir, upstream, letta, agent string) string {
	return fmt.Sprintf(`profile: production
state: %q
admin: {listen: 127.0.0.1:0}
backends:
  - {name: mem0, kind: mem0, listen: 127.0.0.1:0, upstream: %s}
  - {name: letta, kind: letta, listen: 127.0.0.1:0, upstream: %s}
policy: {dir: %q}
identity:
  keys:
    - {sha256: "%s", id: "agent:dev", kind: agent, trust: authenticated, tenant: acme, roles: [dev], acts_as: [dev, %s], users: [ann]}
    - {sha256: "%s", id: "agent:ci", kind: agent, trust: authenticated, tenant: acme, acts_as: [ci], users: [ann]}
    - {sha256: "%s", id: "agent:sales", kind: agent, trust: authenticated, tenant: globex, acts_as: [sales], users: [bob]}
log: {level: error}
`, filepath.Join(dir, "state"), upstream, letta, filepath.Join(dir, "policies"), memproxy.TextSHA256(devKey), agent, memproxy.TextSHA256(ciKey), memproxy.TextSHA256(salesKey))
}

// row is the outcome of a threat on both sides. It is as claimed if attacks succeed on the
// bare backend and fail through the proxy, and ordinary use works on both.
type row struct {
	Threat    string `json:"threat"`
	Control   bool   `json:"control,omitempty"`
	Direct    side   `json:"direct"`
	Proxied   side   `json:"proxied"`
	AsClaimed bool   `json:"as_claimed"`
}

type side struct {
	Worked bool   `json:"worked"`
	Said   string `json:"said"`
}

func printTable(w io.Writer, rows []row) {
	width := [2]int{len("threat"), len("directly")}
	for _, r := range rows {
		width[0] = max(width[0], len(r.Threat))
		width[1] = max(width[1], len(mark(r.Control, r.Direct)))
	}
	line := func(a, b, c string) { cli.Printf(w, "  %-*s  %-*s  %s\n", width[0], a, width[1], b, c) }
	line("threat", "directly", "through memproxy")
	line(strings.Repeat("-", width[0]), strings.Repeat("-", width[1]), strings.Repeat("-", 40))
	for _, r := range rows {
		end := ""
		if !r.AsClaimed {
			end = "   <-- not as claimed"
		}
		line(r.Threat, mark(r.Control, r.Direct), mark(r.Control, r.Proxied)+end)
	}
}

func mark(control bool, s side) string {
	switch {
	case control && s.Worked:
		return "works: " + s.Said
	case control:
		return "BROKEN: " + s.Said
	case s.Worked:
		return "SUCCEEDS: " + s.Said
	}
	return "stopped: " + s.Said
}

// Next returns the text with the commands to continue with.
func Next(program string) string {
	return fmt.Sprintf(`Now with your own Mem0 or Letta:

  %[1]s init     asks which one it is and where, and writes memproxy.yaml
  %[1]s check    says what is wrong with that file, and what it protects
  %[1]s serve    runs; give your application the address that init prints in place of the old one
`, program)
}

// program returns the command that runs this program. A program that is run from source
// has no name of its own.
func program() string {
	if path, err := os.Executable(); err == nil && strings.Contains(filepath.ToSlash(path), "/go-build") {
		return "go run ./cmd/memproxy"
	}
	return "memproxy"
}
