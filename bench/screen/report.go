package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/memproxy/memproxy/screen"
	"github.com/memproxy/memproxy/screen/evasion"
)

// tally counts how many of a group were held.
type tally struct {
	n, held int
	missed  []string // ids of attacks that were not held, or of harmless rows that were
}

func (t *tally) add(held, wrong bool, id string) {
	t.n++
	if held {
		t.held++
	}
	if wrong {
		_, hash, ok := strings.Cut(id, "-")
		if !ok {
			hash = id
		}
		t.missed = append(t.missed, hash)
	}
}

func (t *tally) share() float64 { return 100 * float64(t.held) / float64(max(t.n, 1)) }

// wilson is the 95 % interval of a share, in percent.
func wilson(held, n int) (lo, hi float64) {
	if n == 0 {
		return 0, 100
	}
	const z = 1.96
	p, m := float64(held)/float64(n), float64(n)
	mid := (p + z*z/(2*m)) / (1 + z*z/m)
	half := z / (1 + z*z/m) * math.Sqrt(p*(1-p)/m+z*z/(4*m*m))
	return 100 * max(0, mid-half), 100 * min(1, mid+half)
}

// report writes docs/screening.md.
func report(w io.Writer, b *bench, res []result) error {
	attacks, benign, byFamily := map[string]*tally{}, map[string]*tally{}, map[string]*tally{}
	get := func(m map[string]*tally, k string) *tally {
		if m[k] == nil {
			m[k] = &tally{}
		}
		return m[k]
	}
	for i := range b.rows {
		r := &b.rows[i]
		if r.own() {
			continue
		}
		held := res[i].report.Verdict.Stops()
		if r.attack() {
			get(attacks, r.Source).add(held, !held, r.ID)
			get(byFamily, familyOf(r)).add(held, false, r.ID)
		} else {
			get(benign, r.Source).add(held, held, r.ID)
		}
	}
	fmt.Fprintf(w, introduction, b.pack.Version())
	macro := 0.0
	for _, t := range attacks {
		macro += t.share()
	}
	macro /= float64(len(attacks))
	pooled := &tally{}
	worst, worstName := 0.0, ""
	for _, k := range sorted(benign) {
		t := benign[k]
		pooled.n += t.n
		pooled.held += t.held
		if t.share() > worst {
			worst, worstName = t.share(), k
		}
	}
	lo, hi := wilson(pooled.held, pooled.n)
	fmt.Fprintf(w, "## Summary\n\n| what | measured | wanted |\n|---|--:|--:|\n")
	fmt.Fprintf(w, "| macro mean detection over %d attack sources | %.1f %% | ≥ 70 %% |\n", len(attacks), macro)
	fmt.Fprintf(w, "| false positives, %d harmless rows pooled | %.2f %% (%.2f–%.2f) | ≤ 1.5 %% |\n", pooled.n, pooled.share(), lo, hi)
	fmt.Fprintf(w, "| the worst harmless source (%s) | %.2f %% | ≤ 4 %% |\n", worstName, worst)
	for _, k := range []string{"persona_chat", "memorybank", "mem0_docs"} {
		if t := benign[k]; t != nil {
			fmt.Fprintf(w, "| false positives on %s | %.2f %% | ≤ 0.5 %% |\n", k, t.share())
		}
	}
	ev, err := evasions()
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "| evasions caught, %d transforms of %d poisons | %.1f %% | ≥ 85 %% |\n", len(ev.rows), len(evasion.Poisons()), ev.total.share())
	fmt.Fprintf(w, "| harmless texts in the same transforms that were held | %d of %d | 0 |\n\n", ev.harmless.held, ev.harmless.n)

	table := func(title, note string, m map[string]*tally, names []string) {
		fmt.Fprintf(w, "## %s\n\n%s\n\n| | rows | held | 95 %% interval |\n|---|--:|--:|--:|\n", title, note)
		for _, k := range names {
			if t := m[k]; t != nil {
				lo, hi := wilson(t.held, t.n)
				fmt.Fprintf(w, "| %s | %d | %.1f %% | %.1f–%.1f |\n", k, t.n, t.share(), lo, hi)
			}
		}
		fmt.Fprintln(w)
	}
	table("Detection by source", detectionNote, attacks, sorted(attacks))
	table("False positives by source", "Held rows of sources that are harmless.", benign, sorted(benign))
	table("Detection by family", familyNote, byFamily, families)
	ev.write(w)
	if err := blindly(w); err != nil {
		return err
	}
	if err := speed(w); err != nil {
		return err
	}
	fmt.Fprint(w, limits)
	fmt.Fprint(w, "## Misses\n\nBy source: attacks that were not held, then harmless rows that were. Ids are those of the data; texts are never quoted.\n")
	for _, m := range []map[string]*tally{attacks, benign} {
		for _, k := range sorted(m) {
			if t := m[k]; len(t.missed) > 0 {
				slices.Sort(t.missed)
				fmt.Fprintf(w, "\n<details><summary>%s: %d</summary>\n\n%s\n\n</details>\n", k, len(t.missed), strings.Join(t.missed, " "))
			}
		}
	}
	return nil
}

func sorted(m map[string]*tally) []string {
	var names []string
	for k := range m {
		names = append(names, k)
	}
	slices.Sort(names)
	return names
}

// evasionResult is what became of hidden poison and of hidden harmless text.
type evasionResult struct {
	rows            []string
	total, harmless tally
	spoken          []string
}

func evasions() (*evasionResult, error) {
	s, err := screen.New(screen.Options{CacheSize: -1})
	if err != nil {
		return nil, err
	}
	var e evasionResult
	for _, t := range evasion.Transforms() {
		var here, fine tally
		for _, p := range evasion.Poisons() {
			held := s.Text(t.Apply(p), "", "").Verdict.Stops()
			here.add(held, false, "")
			e.total.add(held, false, "")
		}
		for _, p := range evasion.Benign() {
			held := s.Text(t.Apply(p), "", "").Verdict.Stops()
			fine.add(held, false, "")
			e.harmless.add(held, false, "")
		}
		e.rows = append(e.rows, fmt.Sprintf("| %s | %d of %d | %d of %d |", t.Name, here.held, here.n, fine.held, fine.n))
	}
	spoken := evasion.Spoken()
	for _, l := range []string{"Chinese", "French", "German", "Russian", "Spanish", "Turkish"} {
		var here tally
		for _, p := range spoken[l] {
			here.add(s.Text(p, "", "").Verdict.Stops(), false, "")
		}
		e.spoken = append(e.spoken, fmt.Sprintf("| %s | %d of %d |", l, here.held, here.n))
	}
	return &e, nil
}

func (e *evasionResult) write(w io.Writer) {
	fmt.Fprintf(w, "## Evasions\n\nThe shipped pack; the texts are in `screen/evasion`.\n\n| transform | poison caught | harmless held |\n|---|--:|--:|\n%s\n\n", strings.Join(e.rows, "\n"))
	fmt.Fprintf(w, "Poison in other languages:\n\n| language | caught |\n|---|--:|\n%s\n\n", strings.Join(e.spoken, "\n"))
}

// speed measures one goroutine, without the cache.
func speed(w io.Writer) error {
	s, err := screen.New(screen.Options{CacheSize: -1})
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "## Speed\n\nOne goroutine, no cache, ordinary English; a shared machine of two cores. `go test -bench . ./screen` has more, among it the dearest inputs known.\n\n| bytes | p50 | p99 | wanted |\n|--:|--:|--:|---|\n")
	sentence := "The meeting with the design team moved to Tuesday, and the customer asked for short answers with examples. "
	for _, c := range []struct {
		n, rounds int
		want      string
	}{{500, 4000, "p50 ≤ 40 µs, p99 ≤ 150 µs"}, {8 << 10, 400, "≤ 600 µs"}, {64 << 10, 60, "linear"}} {
		text := strings.Repeat(sentence, c.n/len(sentence)+1)[:c.n]
		took := make([]time.Duration, 0, c.rounds)
		for range c.rounds {
			start := time.Now()
			s.Text(text, "", "")
			took = append(took, time.Since(start))
		}
		slices.Sort(took)
		us := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }
		fmt.Fprintf(w, "| %d | %.0f µs | %.0f µs | %s |\n", c.n, us(took[len(took)/2]), us(took[len(took)*99/100]), c.want)
	}
	fmt.Fprintln(w)
	return nil
}
