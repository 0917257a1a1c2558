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

// measure loads each contestant once in each round, by one connection and by many.
func (r *results) measure(all []contestant, rounds int, length time.Duration, req []byte) error {
	for round := range rounds {
		for _, c := range all {
			if err := r.lab.ctx.Err(); err != nil {
				return err
			}
			load(c.addr, 4, 300*time.Millisecond, req) // to warm it
			one, many := load(c.addr, 1, length, req), load(c.addr, r.conns, length, req)
			if one.failed+many.failed > 0 {
				return fmt.Errorf("%s: %d requests failed: %s", c.name, one.failed+many.failed, one.firstError+many.firstError)
			}
			r.add(c.name, one, many)
			fmt.Fprintf(os.Stderr, "round %d %-28s %7.0f req/s   p50 %6.0f µs  p99 %6.0f µs (1 connection)\n",
				round+1, c.name, many.rate(), us(one.quantile(0.5)), us(one.quantile(0.99)))
		}
	}
	return nil
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
	fmt.Fprintf(&b, "600-byte adds, %s %s/%s, %d cores shared by client, proxy and backend; median of %d rounds; throughput at %d connections, latency at one.\n\n",
		runtime.Version(), runtime.GOOS, runtime.GOARCH, r.cpus, len(r.rate[r.lab.contestants[0].name]), r.conns)
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

// publish prints a report, and writes it to a file where one is named.
func publish(text, path string) error {
	fmt.Print(text)
	return save(text, path)
}

func save(text, path string) error {
	if path == "" {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o644)
}

func us(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
