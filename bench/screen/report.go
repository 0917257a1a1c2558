package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/memproxy/memproxy/internal/evasion"
	"github.com/memproxy/memproxy/screen"
)

// tally counts the rows of a group, and those that were held.
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

// byName has tallies by group.
type byName map[string]*tally

func (m byName) add(name string, held, wrong bool, id string) {
	if m[name] == nil {
		m[name] = &tally{}
	}
	m[name].add(held, wrong, id)
}

func (t *tally) share() float64 { return 100 * float64(t.held) / float64(max(t.n, 1)) }

// wilson returns the 95 % Wilson score interval of a share, in percent.
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

// counts has the results by source and by family, each judged by a model trained without
// it and its kin, and by group of harmless sources.
type counts struct {
	attacks, family, benign, kind byName
	dir                           map[string]string // by source
}

// tallies counts the results.
func tallies(b setting, res []result) counts {
	c := counts{byName{}, byName{}, byName{}, byName{}, map[string]string{}}
	for i := range b.rows {
		r := &b.rows[i]
		if !r.measured() {
			continue
		}
		c.dir[r.Source] = r.Dir
		held := res[i].source.Verdict.Stops()
		if r.attack() {
			c.attacks.add(r.Source, held, !held, r.ID)
			c.family.add(familyOf(r), res[i].family.Verdict.Stops(), false, r.ID)
			continue
		}
		c.benign.add(r.Source, held, held, r.ID)
		for k, sources := range ordinary {
			if slices.Contains(sources, r.Source) {
				c.kind.add(k, held, false, r.ID)
			}
		}
	}
	return c
}

// macro returns the mean percentage of the tallies that keep selects (macro average), and
// their number.
func macro(m byName, keep func(string) bool) (share float64, n int) {
	for k, t := range m {
		if keep(k) {
			share += t.share()
			n++
		}
	}
	return share / float64(max(n, 1)), n
}

// report writes docs/screening.md.
func report(w io.Writer, b setting, res []result) error {
	c, ev, g := tallies(b, res), evasions(), generate(b.rows, evadedEach)
	fmt.Fprintf(w, note("introduction"), b.pack.Version())
	fmt.Fprintf(w, "## Summary\n\n%s\n", summary(slices.Concat(byData(c), byEvasions(g), byTransforms(ev))))

	table := func(title, note string, m byName, names []string) {
		fmt.Fprintf(w, "## %s\n\n%s\n\n| | rows | held | 95 %% interval |\n|---|--:|--:|--:|\n", title, note)
		for _, k := range names {
			if t := m[k]; t != nil {
				lo, hi := wilson(t.held, t.n)
				fmt.Fprintf(w, "| %s | %d | %.1f %% | %.1f–%.1f |\n", k, t.n, t.share(), lo, hi)
			}
		}
		fmt.Fprintln(w)
	}
	table("Detection by family", strings.TrimSpace(note("family")), c.family, families)
	table("Detection by source", strings.TrimSpace(note("detection")), c.attacks, worstFirst(c.attacks, false))
	fmt.Fprintf(w, "## False positives by source\n\nHeld rows of sources that are harmless.\n\n| held | rows | 95 %% interval | sources |\n|--:|--:|--:|---|\n%s\n", alike(figures(c.benign)))
	if err := writeField(w, fieldKept); err != nil {
		return err
	}
	writeAblation(w, b, res)
	writeShifts(w, b, res)
	g.write(w)
	ev.write(w)
	blindly(w)
	blindTongues(w)
	speed(w)
	fmt.Fprint(w, note("limits"))
	fmt.Fprint(w, "## Misses\n\nBy source, with their number. Ids are those of the data; texts are never quoted.\n")
	for i, m := range []byName{c.attacks, c.benign} {
		fmt.Fprintf(w, "\n<details><summary>%s</summary>\n\n", []string{"Attacks that were not held", "Harmless rows that were held"}[i])
		for _, k := range slices.Sorted(maps.Keys(m)) {
			if t := m[k]; len(t.missed) > 0 {
				slices.Sort(t.missed)
				fmt.Fprintf(w, "- %s: %d: %s\n", k, len(t.missed), strings.Join(t.missed, " "))
			}
		}
		fmt.Fprint(w, "\n</details>\n")
	}
	return nil
}

// worstFirst returns the names of tallies, the worst first.
func worstFirst(m byName, high bool) []string {
	names := slices.Sorted(maps.Keys(m))
	slices.SortStableFunc(names, func(a, b string) int {
		if high {
			a, b = b, a
		}
		return cmp.Compare(m[a].share(), m[b].share())
	})
	return names
}

// figures returns the shares of the tallies with their intervals, the worst first.
func figures(m byName) (rows []named) {
	for _, k := range worstFirst(m, true) {
		t := m[k]
		lo, hi := wilson(t.held, t.n)
		rows = append(rows, named{k, fmt.Sprintf("%.1f %% | %d | %.1f–%.1f", t.share(), t.n, lo, hi)})
	}
	return rows
}

// named is the figures of one transform or source, as cells of a table.
type named struct{ name, figures string }

// alike returns a row of a table for each distinct figures, with the names that have them.
func alike(rows []named) string {
	var order []string
	names := map[string][]string{}
	for _, r := range rows {
		if names[r.figures] == nil {
			order = append(order, r.figures)
		}
		names[r.figures] = append(names[r.figures], r.name)
	}
	var b strings.Builder
	for _, f := range order {
		who := strings.Join(names[f], ", ")
		if len(order) == 1 {
			who = "every one"
		}
		fmt.Fprintf(&b, "| %s | %s |\n", f, who)
	}
	return b.String()
}

// evasionResult has the results for transformed poison and harmless text.
type evasionResult struct {
	rows            []named
	total, harmless tally
	worst           tally // of one transform
	worstName       string
	spoken          []string
}

func evasions() *evasionResult {
	s := noError(screen.New(screen.Options{}))
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
		if e.worst.n == 0 || here.share() < e.worst.share() {
			e.worst, e.worstName = here, t.Name
		}
		e.rows = append(e.rows, named{t.Name, fmt.Sprintf("%d of %d | %d of %d", here.held, here.n, fine.held, fine.n)})
	}
	spoken := evasion.PoisonsByLanguage()
	for _, l := range []string{"Chinese", "French", "German", "Russian", "Spanish", "Turkish"} {
		var here tally
		for _, p := range spoken[l] {
			here.add(s.Text(p, "", "").Verdict.Stops(), false, "")
		}
		e.spoken = append(e.spoken, fmt.Sprintf("%s %d of %d", l, here.held, here.n))
	}
	return &e
}

func (e *evasionResult) write(w io.Writer) {
	fmt.Fprintf(w, "## Evasions\n\nThe shipped pack; the texts and the %d transforms are in `internal/evasion`.\n\n| poison caught | harmless held | transforms |\n|--:|--:|---|\n%s\n", len(e.rows), alike(e.rows))
	fmt.Fprintf(w, "Poison in other languages, caught: %s.\n\n", strings.Join(e.spoken, ", "))
}

// speed measures one goroutine without the cache.
func speed(w io.Writer) {
	s := noError(screen.New(screen.Options{}))
	fmt.Fprintf(w, "## Speed\n\nOne goroutine, no cache, ordinary English; a shared machine of two cores. `go test -bench . ./screen` has more, including the most expensive inputs known.\n\n| bytes | p50 | p99 | wanted |\n|--:|--:|--:|---|\n")
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
	fmt.Fprintf(w, "\n%s", note("speed"))
}
