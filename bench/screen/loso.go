package main

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/memproxy/memproxy/screen"
)

// bench has the data and its training features.
type bench struct {
	rows []row
	bags []bag // one per row
	pack *screen.Pack
	// group numbers the sources; kin have the same number.
	group map[string]int
}

// bag has the examples of a row for the two models. fit sets their weights.
type bag struct{ windows, whole example }

func newBench(rows []row, p *screen.Pack) *bench {
	b := &bench{rows: rows, bags: make([]bag, len(rows)), pack: p, group: map[string]int{}}
	next := 0
	for i := range rows {
		first := kinOf(rows[i].Source)[0]
		if _, ok := b.group[first]; !ok {
			b.group[first] = next
			next++
		}
		b.group[rows[i].Source] = b.group[first]
	}
	parallel(len(rows), func(i int) {
		s := p.Sample(rows[i].Text)
		b.bags[i] = bag{
			example{Features: s.Windows, Words: s.Words, Poison: rows[i].attack()},
			example{Features: s.Whole, Words: s.Words, Parts: s.Parts, Poison: rows[i].attack()},
		}
	})
	return b
}

// parallel runs f for 0..n-1 on two goroutines.
func parallel(n int, f func(int)) {
	var wg sync.WaitGroup
	for w := range 2 {
		wg.Go(func() {
			for i := w; i < n; i += 2 {
				f(i)
			}
		})
	}
	wg.Wait()
}

const (
	// poisonShare is the share of poisoned texts in the total weight.
	poisonShare = 0.3
	// ownWeight is the factor for sources that were written for this project: they alone
	// teach attacks in the form of memories, and harmless memories with the same words.
	ownWeight = 3
)

// fit trains the two models on every row that may be used and is not left out. The weight
// of a source grows with the square root of its size, so that a large one does not
// dominate.
func (b *bench) fit(without func(*row) bool) (windows, whole []byte) {
	type group struct {
		source string
		attack bool
	}
	sizes := map[group]int{}
	counts := func(g group) float64 {
		if strings.HasPrefix(g.source, ownPrefix) {
			return ownWeight * math.Sqrt(float64(sizes[g]))
		}
		return math.Sqrt(float64(sizes[g]))
	}
	use := make([]int, 0, len(b.rows))
	for i := range b.rows {
		r := &b.rows[i]
		if r.trainable() && !without(r) && b.bags[i].windows.Words > 0 {
			use = append(use, i)
			sizes[group{r.Source, r.attack()}]++
		}
	}
	total := map[bool]float64{}
	for _, g := range slices.SortedFunc(maps.Keys(sizes), func(a, b group) int { return strings.Compare(a.source, b.source) }) {
		total[g.attack] += counts(g) // in one order: sums of fractions depend on it
	}
	share := map[bool]float64{true: poisonShare, false: 1 - poisonShare}
	narrow, wide := make([]example, 0, len(use)), make([]example, 0, len(use))
	for _, i := range use {
		r := &b.rows[i]
		g, e := group{r.Source, r.attack()}, b.bags[i]
		weight := share[r.attack()] * counts(g) / total[r.attack()] / float64(sizes[g]) * float64(len(use)) * 2
		e.windows.Group, e.whole.Group = b.group[r.Source], b.group[r.Source]
		e.windows.Weight, e.whole.Weight = weight, weight
		narrow, wide = append(narrow, e.windows), append(wide, e.whole)
	}
	return fitted(narrow, windowTraining()), fitted(wide, wholeTraining())
}

// margins are the classifier's margins for a row: Source of a model trained without its
// source and kin, and Family, for an attack, of one trained without its family.
type margins struct {
	ID     string  `json:"id"`
	Source float64 `json:"source"`
	Family float64 `json:"family"`
}

// result has the report for a row with each of its margins.
type result struct{ source, family screen.Report }

// fold is one fold of the cross-validation: the rows it is trained without, and the rows
// it judges.
type fold struct {
	without func(*row) bool
	judge   func(*row) bool
	put     func(*margins, float64)
}

// Several sources are left out together: stricter than one by one, and much faster. A
// fold leaves out at most packedRows attacks, or packedSources harmless sources.
const (
	packedRows    = 300
	packedSources = 7
)

// folds returns the folds that leave out sources, and those that leave out families.
func (b *bench) folds() []fold {
	attacks, here, sources := map[string]int{}, map[string]bool{}, []string(nil)
	for i := range b.rows {
		r := &b.rows[i]
		if !r.measured() {
			continue
		}
		if !here[r.Source] {
			here[r.Source] = true
			sources = append(sources, r.Source)
		}
		if r.attack() {
			attacks[r.Source]++
		}
	}
	var units []*unit
	open := map[string]*unit{} // the current unit of each sort
	taken := map[string]bool{}
	for _, s := range sources {
		if taken[s] {
			continue
		}
		u := &unit{judged: kinOf(s), without: related(s)}
		for _, k := range u.judged {
			taken[k] = true
			u.attacks += attacks[k]
		}
		sort := "attacks"
		if u.attacks == 0 {
			sort = "harmless"
		} else if len(u.without) != len(u.judged) {
			sort = "composed"
		}
		last := open[sort]
		if last == nil || last.attacks+u.attacks > packedRows || len(last.judged) >= packedSources {
			units, open[sort] = append(units, u), u
			continue
		}
		last.judged, last.without, last.attacks = slices.Concat(last.judged, u.judged), slices.Concat(last.without, u.without), last.attacks+u.attacks
	}
	var out []fold
	for _, u := range units {
		out = append(out, fold{
			without: func(r *row) bool { return slices.Contains(u.without, r.Source) },
			judge:   func(r *row) bool { return slices.Contains(u.judged, r.Source) },
			put:     func(o *margins, m float64) { o.Source = m },
		})
	}
	for _, f := range families {
		out = append(out, b.family(f))
	}
	return out
}

// unit has the sources that one fold leaves out.
type unit struct {
	judged, without []string
	attacks         int
}

// family returns the fold that leaves out one family of attacks, and every source that
// its rows are composed of or that is composed of them.
func (b *bench) family(name string) fold {
	of := func(r *row) bool { return !r.own() && r.attack() && familyOf(r) == name }
	parts := map[string]bool{}
	for i := range b.rows {
		r := &b.rows[i]
		if !of(r) {
			continue
		}
		for _, p := range composed[r.Source] {
			parts[p] = true
		}
		for whole, p := range composed {
			if slices.Contains(p, r.Source) {
				parts[whole] = true
			}
		}
	}
	return fold{
		without: func(r *row) bool { return of(r) || parts[r.Source] && r.attack() },
		judge:   of,
		put:     func(o *margins, m float64) { o.Family = m },
	}
}

// train computes the margins of every row, in the folds that leave it out.
func (b *bench) train() []margins {
	out := make([]margins, foreign(b.rows))
	for i := range out {
		out[i] = margins{b.rows[i].ID, noMargin, noMargin}
	}
	folds := b.folds()
	parallel(len(folds), func(k int) {
		f := &folds[k]
		s := noError(screen.New(screen.Options{Pack: noError(b.pack.WithModels(b.fit(f.without)))}))
		for i := range b.rows {
			if r := &b.rows[i]; r.measured() && f.judge(r) {
				f.put(&out[i], max(noMargin, s.Margin(r.Text)))
			}
		}
	})
	return out
}

// foreign returns the number of measured rows. The project's own rows, and those for
// training only, follow them.
func foreign(rows []row) int {
	n := slices.IndexFunc(rows, func(r row) bool { return !r.measured() })
	if n < 0 {
		return len(rows)
	}
	return n
}

// noMargin is the margin of a text without anything to classify.
const noMargin = -99

// judge combines the margins with the findings of the rules.
func judge(rows []row, p *screen.Pack, found []margins) ([]result, error) {
	rules := noError(screen.New(screen.Options{Pack: p, Disable: []string{screen.LayerClassify}}))
	if n := foreign(rows); len(found) != n {
		return nil, fmt.Errorf("%d margins for %d rows: they are of other data", len(found), n)
	}
	out := make([]result, len(rows))
	errs := make([]error, len(rows))
	parallel(len(rows), func(i int) {
		r := &rows[i]
		if !r.measured() {
			return
		}
		if found[i].ID != r.ID {
			errs[i] = fmt.Errorf("the margins of %s stand where those of %s should: they are of other data", found[i].ID, r.ID)
			return
		}
		others := rules.Text(r.Text, "", "")
		out[i].source = rules.WithMargin(others, found[i].Source, len(r.Text))
		out[i].family = rules.WithMargin(others, found[i].Family, len(r.Text))
	})
	return out, errors.Join(errs...)
}
