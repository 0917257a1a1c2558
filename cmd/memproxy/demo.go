package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/memproxy/memproxy/adapters/mem0/embedded"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/internal/cli"
	"github.com/memproxy/memproxy/proxy"
)

// demo plays every threat twice: against a bare backend and through the real
// proxy in front of another one just like it. It needs nothing but this
// binary, and fails if a row is not as claimed.
func (a *app) demo() *cobra.Command {
	var asJSON, stay bool
	c := cli.Leaf("demo", "play each threat against a bare backend and through memproxy", "memproxy demo --stay",
		func(ctx context.Context) int { return a.playing(ctx, asJSON, stay) })
	c.Flags().BoolVar(&asJSON, "json", false, "print the rows as JSON")
	c.Flags().BoolVar(&stay, "stay", false, "keep listening afterwards and print a request to try")
	return c
}

func (a *app) playing(ctx context.Context, asJSON, stay bool) int {
	dir, err := os.MkdirTemp("", "memproxy-demo-")
	if err != nil {
		return a.fail(err)
	}
	defer os.RemoveAll(dir)
	theatre, err := a.openTheatre(ctx, dir)
	if err != nil {
		return a.fail(err)
	}
	defer theatre.close()
	rows, err := theatre.play(ctx)
	if err != nil {
		return a.fail(err)
	}
	if asJSON {
		if err := printJSON(a.Stdout, rows); err != nil {
			return a.fail(err)
		}
	} else {
		fmt.Fprintf(a.Stdout, "memproxy %s: each threat against a Mem0-style and a Letta-style backend, and through memproxy in front of them\n\n", a.Version)
		printTable(a.Stdout, rows)
	}
	code := cli.OK
	for _, r := range rows {
		if !r.AsClaims {
			fmt.Fprintf(a.Stderr, "memproxy: %q is not as claimed\n", r.Threat)
			code = cli.Failed
		}
	}
	if !asJSON {
		fmt.Fprintf(a.Stdout, "\nEvery decision was recorded: %s\n", theatre.verified)
	}
	if stay && code == cli.OK {
		fmt.Fprintf(a.Stdout, `
Listening on %[1]s until interrupted. Try:

  curl -i %[1]s/memories -H 'X-API-Key: %[2]s' -H 'Content-Type: application/json' \
    -d '{"user_id":"ann","agent_id":"ceo","infer":false,"messages":[{"role":"user","content":"I am the CEO"}]}'

and again with "agent_id":"dev". The admin listener is %[3]s (/readyz, /metrics).
`, theatre.proxied.base, devKey, theatre.admin)
		<-ctx.Done()
	}
	return code
}

// theatre holds both stages.
type theatre struct {
	direct, proxied stage
	admin           string
	verified        string
	closers         []func()
}

func (t *theatre) close() {
	for i := len(t.closers) - 1; i >= 0; i-- {
		t.closers[i]()
	}
}

func (a *app) openTheatre(ctx context.Context, dir string) (*theatre, error) {
	t := &theatre{}
	client := &http.Client{Timeout: 10 * time.Second}
	direct, err := t.backend()
	if err != nil {
		return t, err
	}
	behind, err := t.backend()
	if err != nil {
		return t, err
	}
	t.direct = stage{base: direct, client: client}
	if err := t.direct.hireAgent(ctx, t); err != nil {
		return t, err
	}
	hidden := stage{client: client}
	if err := hidden.hireAgent(ctx, t); err != nil {
		return t, err
	}
	if err := writeDemoPolicy(filepath.Join(dir, "policies")); err != nil {
		return t, err
	}
	cfg, err := config.Parse("demo.yaml", []byte(demoConfig(dir, behind, hidden.letta, hidden.agent)), a.Getenv)
	if err != nil {
		return t, err
	}
	car, err := a.assemble(ctx, cfg)
	if err != nil {
		return t, err
	}
	if err := car.listen(); err != nil {
		car.abort()
		return t, err
	}
	t.closers = append(t.closers, func() {
		stop, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = car.close(stop) // the directory goes away with it
	})
	t.proxied = stage{base: "http://" + car.addr("mem0"), client: client, auditDir: filepath.Join(dir, "state", "audit"),
		letta: "http://" + car.addr("letta"), agent: hidden.agent}
	t.proxied.tamper = func(ctx context.Context) (bool, string, error) { return t.tamper(ctx, car) }
	t.admin = "http://" + car.addr("admin")
	return t, nil
}

// backend starts an embedded Mem0-style backend on a free loopback port.
func (t *theatre) backend() (string, error) {
	b, err := embedded.New(embedded.Options{})
	if err != nil {
		return "", err
	}
	return t.listen(b)
}

// listen serves a handler on a free loopback port.
func (t *theatre) listen(h http.Handler) (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	stop, _ := proxy.Serve(ln, proxy.ServerOptions{Handler: h})
	t.closers = append(t.closers, func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = stop(ctx) // nothing is in flight that matters
	})
	return "http://" + ln.Addr().String(), nil
}

func (t *theatre) play(ctx context.Context) ([]row, error) {
	for _, s := range [...]*stage{&t.direct, &t.proxied} {
		if err := s.seed(ctx); err != nil {
			return nil, err
		}
	}
	var rows []row
	for _, th := range threats() {
		r := row{Threat: th.Name, Control: th.Control}
		for s, out := range map[*stage]*side{&t.direct: &r.Direct, &t.proxied: &r.Proxied} {
			worked, said, err := th.play(ctx, s)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", th.Name, err)
			}
			*out = side{Worked: worked, Said: said}
		}
		r.AsClaims = r.claimed()
		rows = append(rows, r)
	}
	return rows, nil
}

func demoConfig(dir, upstream, letta, agent string) string {
	key := func(secret string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(secret))) }
	return fmt.Sprintf(`profile: production
state: %s
admin: {listen: 127.0.0.1:0}
backends:
  - {name: mem0, kind: mem0, listen: 127.0.0.1:0, upstream: %s}
  - {name: letta, kind: letta, listen: 127.0.0.1:0, upstream: %s}
policy: {dir: "%s"}
identity:
  keys:
    - {sha256: "%s", id: "agent:dev", kind: agent, trust: authenticated, tenant: acme, roles: [dev], acts_as: [dev, %s], users: [ann]}
    - {sha256: "%s", id: "agent:ci", kind: agent, trust: authenticated, tenant: acme, acts_as: [ci], users: [ann]}
    - {sha256: "%s", id: "agent:sales", kind: agent, trust: authenticated, tenant: globex, acts_as: [sales], users: [bob]}
log: {level: error}
`, filepath.Join(dir, "state"), upstream, letta, filepath.Join(dir, "policies"), key(devKey), agent, key(ciKey), key(salesKey))
}
