package main

import (
	"context"
	"fmt"
	"net"
	"os"
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
func newEnvoyLab(ctx context.Context) (*lab, error) {
	l, err := openLab(ctx)
	if err != nil {
		return l, err
	}
	backend := l.port()
	if err := l.join("backend alone", backend, l.self, "backend", backend); err != nil {
		return l, err
	}
	if err := l.joinEnvoy(envoyAlone, backend, ""); err != nil {
		return l, err
	}
	noop := l.port()
	if _, err := l.run("noop", noop, l.self, "noop", noop); err != nil {
		return l, err
	}
	if err := l.joinEnvoy(envoyNoop, backend, noop); err != nil {
		return l, err
	}
	collector, err := startCollector()
	if err != nil {
		return l, err
	}
	// Everything is on: keys, built-in policies, budgets, durable audit, tracing.
	ours := l.port()
	_, err = l.sidecar("memproxy extproc", ours, mem0At(l.port(), backend), []string{benchIdentity, benchBudgets, "telemetry: {otlp: " + collector + "}"},
		"extproc", "--listen", ours, "--grace", "0s")
	if err != nil {
		return l, err
	}
	return l, l.joinEnvoy(envoyOurs, backend, ours)
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
	path, err := l.write(plain(name)+".yaml", conf)
	if err != nil {
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
	l, err := newEnvoyLab(ctx)
	defer l.close()
	if err != nil {
		return err
	}
	res := newResults(l, conns, 0)
	if err := res.measure(l.contestants, rounds, length, request(fact)); err != nil {
		return err
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
