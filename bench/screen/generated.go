package main

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"io"
	"slices"
	"strings"

	"github.com/memproxy/memproxy/internal/evasion"
	"github.com/memproxy/memproxy/screen"
)

// generatedResult has the results for rows of the data in every transform, and in pairs
// of nested transforms: attacks that are stopped without a transform, and harmless rows
// that are not.
type generatedResult struct {
	attacks, benign int // rows
	single          []transformed
	caught, held    tally // singles
	pairs, pairHeld tally
	pairMissed      byName // by either transform
}

// transformed has the results of one transform.
type transformed struct {
	name           string
	caught, benign tally
}

// Bounds of the rows that are transformed: long enough to be an attack, and short enough
// that a model still reads all of it.
const (
	leastBytes, mostBytes = 24, 1500
	// plainShare is the least share of English letters, spaces and ordinary punctuation.
	plainShare = 0.97
	leastWords = 4
	// pairsEach is the number of pairs of transforms for each row.
	pairsEach = 12
	// evadedEach is the number of rows of each source for the report and the floors.
	evadedEach = 4
)

// generate transforms each rows of each source, always the same.
func generate(rows []row, each int) *generatedResult {
	s := noError(screen.New(screen.Options{}))
	stops := func(text string) bool { return s.Text(text, "", "").Verdict.Stops() }
	chosen := choose(rows, each, func(r *row) bool {
		return !strings.Contains(r.Source, "obfuscated") && len(r.Text) >= leastBytes && len(r.Text) <= mostBytes && plain(r.Text) && stops(r.Text) == r.attack()
	})
	g := &generatedResult{pairMissed: byName{}}
	all := evasion.Transforms()
	for _, r := range chosen {
		if r.attack() {
			g.attacks++
		} else {
			g.benign++
		}
	}
	for _, t := range all {
		one := transformed{name: t.Name}
		for _, r := range chosen {
			if !t.KeepsMeaning(r.Text) {
				continue
			}
			held := stops(t.Apply(r.Text))
			if r.attack() {
				one.caught.add(held, !held, r.ID)
				g.caught.add(held, false, "")
			} else {
				one.benign.add(held, held, r.ID)
				g.held.add(held, false, "")
			}
		}
		g.single = append(g.single, one)
	}
	for _, r := range chosen {
		for n, done := 0, 0; done < pairsEach; n++ {
			a, b := all[number(r.ID, 2*n)%len(all)], all[number(r.ID, 2*n+1)%len(all)]
			if !a.KeepsMeaning(r.Text) || !b.KeepsMeaning(a.Apply(r.Text)) {
				continue
			}
			done++
			held := stops(b.Apply(a.Apply(r.Text)))
			if !r.attack() {
				g.pairHeld.add(held, false, "")
				continue
			}
			g.pairs.add(held, false, "")
			for _, name := range []string{a.Name + ", then", "then " + b.Name} {
				g.pairMissed.add(name, held, false, "")
			}
		}
	}
	slices.SortStableFunc(g.single, func(a, b transformed) int { return cmp.Compare(a.caught.share(), b.caught.share()) })
	return g
}

// choose returns up to each measured rows of each source and label that fit, selected by
// hash.
func choose(rows []row, each int, fits func(*row) bool) []*row {
	order := make([]*row, len(rows))
	for i := range rows {
		order[i] = &rows[i]
	}
	slices.SortStableFunc(order, func(a, b *row) int {
		return cmp.Or(cmp.Compare(a.Source, b.Source), cmp.Compare(number(a.ID, 0), number(b.ID, 0)))
	})
	taken := map[string]int{}
	var out []*row
	for _, r := range order {
		key := r.Source + " " + r.Label
		if !r.measured() || taken[key] >= each || !fits(r) {
			continue
		}
		taken[key]++
		out = append(out, r)
	}
	return out
}

// plain reports whether s is words in letters, as some rows that are already hidden are,
// too. Text made of symbols (markup, code, an encoding) does not survive most transforms.
func plain(s string) bool {
	n := 0
	for _, c := range []byte(s) {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || strings.IndexByte(" \n.,;:!?'\"-()", c) >= 0 {
			n++
		}
	}
	return float64(n) >= plainShare*float64(len(s)) && len(strings.Fields(s)) >= leastWords
}

// number returns the n-th pseudo-random number of a name.
func number(name string, n int) int {
	h := fnv.New32a()
	fmt.Fprint(h, n, " ", name)
	return int(h.Sum32() >> 1)
}

func (g *generatedResult) write(w io.Writer) {
	fmt.Fprintf(w, note("generated"), g.attacks, g.benign)
	rows := make([]named, 0, len(g.single))
	for _, t := range g.single {
		rows = append(rows, named{t.name, fmt.Sprintf("%.1f %% | %.1f %%", t.caught.share(), t.benign.share())})
	}
	fmt.Fprintf(w, "| attacks caught | harmless held | transforms |\n|--:|--:|---|\n%s", alike(rows))
	fmt.Fprintf(w, "\nTwo transforms, one in the other: %.1f %% of %d attacks are caught, %.1f %% of %d harmless texts are held. Those that hide most:\n\n| | caught |\n|---|--:|\n",
		g.pairs.share(), g.pairs.n, g.pairHeld.share(), g.pairHeld.n)
	names := worstFirst(g.pairMissed, false)
	for _, name := range names[:min(12, len(names))] {
		fmt.Fprintf(w, "| %s | %.0f %% of %d |\n", name, g.pairMissed[name].share(), g.pairMissed[name].n)
	}
	fmt.Fprintln(w)
}

// missed prints the rows that each transform hid, and the harmless ones that it made look
// like an attack.
func (g *generatedResult) missed(w io.Writer) {
	for _, t := range g.single {
		fmt.Fprintf(w, "%-22s caught %5.1f %%  held %4.1f %%  missed %s  wrongly %s\n", t.name, t.caught.share(), t.benign.share(),
			strings.Join(head(t.caught.missed), " "), strings.Join(head(t.benign.missed), " "))
	}
	fmt.Fprintf(w, "all: %.2f %% of %d caught, %.2f %% of %d held; pairs: %.2f %% of %d, %.2f %% of %d\n",
		g.caught.share(), g.caught.n, g.held.share(), g.held.n, g.pairs.share(), g.pairs.n, g.pairHeld.share(), g.pairHeld.n)
}

func head(ids []string) []string { return ids[:min(5, len(ids))] }
