package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/memproxy/memproxy/envoy/extproc/extproctest"
)

// runNoop serves an external processor that does nothing.
func runNoop(addr string) {
	ln, err := net.Listen("tcp", addr)
	exit(err)
	exit(extproctest.ServeNoop(ln))
}

// The contestants behind Envoy. What memproxy adds is the difference of the
// last two: the one before pays for the same messages.
const (
	envoyAlone = "Envoy alone"
	envoyNoop  = "Envoy + no-op processor"
	envoyOurs  = "Envoy + memproxy extproc"
)

// envoyBinary is where e2e/envoy/install.sh puts the real Envoy.
const envoyBinary = ".e2e/envoy/envoy/_bin/envoy"

// newEnvoyLab runs the shipped configuration three times: without a filter,
// with a processor that does nothing, and with memproxy.
func newEnvoyLab(ctx context.Context, dir string) (*lab, error) {
	l := &lab{ctx: ctx, dir: dir}
	self, err := os.Executable()
	if err != nil {
		return l, err
	}
	bin := filepath.Join(dir, "memproxy.bin")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", bin, "github.com/memproxy/memproxy/cmd/memproxy")
	if out, err := build.CombinedOutput(); err != nil {
		return l, fmt.Errorf("build memproxy: %w\n%s", err, out)
	}
	backend := l.port()
	if err := l.join("backend alone", backend, self, "backend", backend); err != nil {
		return l, err
	}
	if err := l.joinEnvoy(envoyAlone, backend, ""); err != nil {
		return l, err
	}
	noop := l.port()
	if _, err := l.run("noop", noop, self, "noop", noop); err != nil {
		return l, err
	}
	if err := l.joinEnvoy(envoyNoop, backend, noop); err != nil {
		return l, err
	}
	collector, err := startCollector()
	if err != nil {
		return l, err
	}
	ours := l.port()
	if err := l.runExtproc(bin, ours, backend, collector); err != nil {
		return l, err
	}
	return l, l.joinEnvoy(envoyOurs, backend, ours)
}

// runExtproc runs memproxy behind Envoy with everything on: keys, built-in
// policies, budgets, durable audit, tracing to a collector.
func (l *lab) runExtproc(bin, addr, backend, collector string) error {
	path := filepath.Join(l.dir, "extproc.yaml")
	conf := fmt.Sprintf(`profile: production
state: %s
admin: {listen: %s}
backends:
  - {name: mem0, kind: mem0, listen: "%s", upstream: "http://%s"}
identity:
  keys:
    - {sha256: "%s", id: "agent:dev", kind: agent, trust: authenticated, tenant: acme, roles: [dev], acts_as: [dev]}
budgets:
  default: {writes_per_hour: 1000000000, writes_total: 1000000000}
telemetry: {otlp: %s}
log: {level: warn}
`, filepath.Join(l.dir, "extproc"), l.port(), l.port(), backend, benchKeyHash, collector)
	if err := os.WriteFile(path, []byte(conf), 0o600); err != nil {
		return err
	}
	_, err := l.run("memproxy extproc", addr, bin, "extproc", "--config", path, "--listen", addr, "--grace", "0s")
	return err
}

// joinEnvoy runs Envoy with examples/envoy/envoy.yaml; without a processor the
// filter is taken out.
func (l *lab) joinEnvoy(name, backend, processor string) error {
	raw, err := os.ReadFile(filepath.Join("examples", "envoy", "envoy.yaml"))
	if err != nil {
		return fmt.Errorf("run it at the root of the repository: %w", err)
	}
	conf := string(raw)
	if processor == "" {
		conf = without(conf, "          - name: envoy.filters.http.ext_proc", "          - name: envoy.filters.http.router")
		conf = without(conf, "                typed_per_filter_config: &unfiltered", "              - match: {safe_regex")
		conf = strings.ReplaceAll(conf, "                typed_per_filter_config: *unfiltered\n", "")
		processor = l.port()
	}
	addr := l.port()
	for port, to := range map[string]string{"8081": addr, "8082": l.port(), "9902": processor, "8182": l.port(), "8000": backend, "8283": l.port(), "9900": l.port()} {
		_, p, err := net.SplitHostPort(to)
		if err != nil {
			return err
		}
		conf = strings.ReplaceAll(conf, "port_value: "+port, "port_value: "+p)
	}
	path := filepath.Join(l.dir, strings.ReplaceAll(name, " ", "")+".yaml")
	if err := os.WriteFile(path, []byte(conf), 0o600); err != nil {
		return err
	}
	return l.join(name, addr, envoyBinary, "-c", path, "--use-dynamic-base-id", "--concurrency", "1", "--log-level", "error")
}

// without cuts every stretch that begins with from, up to the next that begins
// with to.
func without(s, from, to string) string {
	for {
		a := strings.Index(s, from)
		if a < 0 {
			return s
		}
		b := strings.Index(s[a:], to)
		if b < 0 {
			return s
		}
		s = s[:a] + s[a+b:]
	}
}

// benchEnvoy measures what the processor adds to Envoy.
func benchEnvoy(ctx context.Context, rounds int, length time.Duration, conns int) error {
	dir, err := os.MkdirTemp("", "memproxy-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	l, err := newEnvoyLab(ctx, dir)
	defer l.close()
	if err != nil {
		return err
	}
	res := newResults(l, conns, 0)
	for round := range rounds {
		for _, c := range l.contestants {
			if err := ctx.Err(); err != nil {
				return err
			}
			warm(c.addr, 300*time.Millisecond)
			one, many := load(c.addr, 1, length, request()), load(c.addr, conns, length, request())
			if one.failed+many.failed > 0 {
				return fmt.Errorf("%s: %d requests failed: %s", c.name, one.failed+many.failed, one.firstError+many.firstError)
			}
			res.add(c.name, one, many)
			fmt.Fprintf(os.Stderr, "round %d %-28s %7.0f req/s   p50 %6.0f µs  p99 %6.0f µs (1 connection)\n",
				round+1, c.name, many.rate(), us(one.quantile(0.5)), us(one.quantile(0.99)))
		}
	}
	fmt.Print(res.envoyMarkdown())
	return nil
}

func (r *results) envoyMarkdown() string {
	var b strings.Builder
	b.WriteString("| | requests/s | p50 µs | added to Envoy alone | added to the no-op | p99 µs |\n|---|--:|--:|--:|--:|--:|\n")
	for _, c := range r.lab.contestants {
		p50 := median(r.p50[c.name])
		fmt.Fprintf(&b, "| %s | %.0f | %.0f | %.0f | %.0f | %.0f |\n", c.name, median(r.rate[c.name]), us(p50),
			us(p50-median(r.p50[envoyAlone])), us(p50-median(r.p50[envoyNoop])), us(median(r.p99[c.name])))
	}
	return b.String()
}
