package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// bareName is the contestant that the others are measured by.
const bareName = "bare ReverseProxy"

// results gathers the rounds; a contestant's figure is the median of its rounds.
type results struct {
	lab   *lab
	conns int
	cpus  int
	rate  map[string][]float64
	p50   map[string][]time.Duration // at one connection
	p99   map[string][]time.Duration
}

func newResults(l *lab, conns, cpus int) *results {
	return &results{lab: l, conns: conns, cpus: cpus, rate: map[string][]float64{}, p50: map[string][]time.Duration{}, p99: map[string][]time.Duration{}}
}

func (r *results) add(name string, one, many run) {
	r.rate[name] = append(r.rate[name], many.rate())
	r.p50[name] = append(r.p50[name], one.quantile(0.5))
	r.p99[name] = append(r.p99[name], one.quantile(0.99))
}

func median[T float64 | time.Duration](xs []T) T {
	s := slices.Clone(xs)
	slices.Sort(s)
	return s[len(s)/2]
}

// ratio is a contestant's throughput as a part of the bare proxy's.
func (r *results) ratio(name string) float64 { return median(r.rate[name]) / median(r.rate[bareName]) }

func (r *results) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d-byte adds, %s %s/%s, %d cores shared by client, proxy and backend; median of %d rounds; throughput at %d connections, latency at one.\n\n",
		bodySize, runtime.Version(), runtime.GOOS, runtime.GOARCH, r.cpus, len(r.rate[r.lab.contestants[0].name]), r.conns)
	b.WriteString("| | requests/s | ratio to bare | p50 µs | added to backend | p99 µs | added to bare p50 / p99 | start ms | idle MiB |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	const base, bare = "backend alone", bareName
	for _, c := range r.lab.contestants {
		fmt.Fprintf(&b, "| %s | %.0f | %.2f | %.0f | %.0f | %.0f | %.0f / %.0f | %.0f | %.1f |\n", c.name,
			median(r.rate[c.name]), r.ratio(c.name),
			us(median(r.p50[c.name])), us(median(r.p50[c.name])-median(r.p50[base])), us(median(r.p99[c.name])),
			us(median(r.p50[c.name])-median(r.p50[bare])), us(median(r.p99[c.name])-median(r.p99[bare])),
			float64(c.start)/float64(time.Millisecond), float64(c.rss)/1024)
	}
	for _, m := range r.lab.missing {
		fmt.Fprintf(&b, "\n%s.\n", m)
	}
	return b.String()
}

func writeReport(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o644)
}
