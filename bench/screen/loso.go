package main

import (
	"math"
	"slices"
	"sync"

	"github.com/memproxy/memproxy/screen"
	"github.com/memproxy/memproxy/screen/classify"
)

// bench is the data with what the classifier sees of it.
type bench struct {
	rows []row
	bags []classify.Example // one per row; Weight is set by fit
	pack *screen.Pack
	// group numbers the sources; kin have one number.
	group map[string]uint8
}

func newBench(rows []row, p *screen.Pack) *bench {
	b := &bench{rows: rows, bags: make([]classify.Example, len(rows)), pack: p, group: map[string]uint8{}}
	next := uint8(0)
	for i := range rows {
		first := related(rows[i].Source)[0]
		if _, ok := b.group[first]; !ok {
			b.group[first] = next
			next++
		}
		b.group[rows[i].Source] = b.group[first]
	}
	parallel(len(rows), func(i int) {
		f, n := p.Example(rows[i].Text)
		b.bags[i] = classify.Example{Features: f, Words: n, Poison: rows[i].attack()}
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

// poisonShare is how much of all weight poisoned texts have.
const poisonShare = 0.35

// fit trains on every row that may be trained on and whose source is not left
// out. Sources count by the root of their size, so that a large one does not
// drown the others.
func (b *bench) fit(without []string) *classify.Model {
	type group struct {
		source string
		attack bool
	}
	sizes := map[group]int{}
	use := make([]int, 0, len(b.rows))
	for i := range b.rows {
		r := &b.rows[i]
		if r.trainable() && !slices.Contains(without, r.Source) && b.bags[i].Words > 0 {
			use = append(use, i)
			sizes[group{r.Source, r.attack()}]++
		}
	}
	total := map[bool]float64{}
	for g, n := range sizes {
		total[g.attack] += math.Sqrt(float64(n))
	}
	share := map[bool]float64{true: poisonShare, false: 1 - poisonShare}
	examples := make([]classify.Example, 0, len(use))
	for _, i := range use {
		r := &b.rows[i]
		n := float64(sizes[group{r.Source, r.attack()}])
		e := b.bags[i]
		e.Group = b.group[r.Source]
		e.Weight = share[r.attack()] * math.Sqrt(n) / total[r.attack()] / n * float64(len(use)) * 2
		examples = append(examples, e)
	}
	return classify.Train(examples, classify.DefaultTraining())
}

// result is what was found in one row.
type result struct {
	report screen.Report
	margin float64
}

// run judges every row by a model that was trained without its source and its
// kin.
func (b *bench) run() ([]result, error) {
	out := make([]result, len(b.rows))
	folds := map[string][]string{}
	var keys []string
	for i := range b.rows {
		if b.rows[i].own() {
			continue
		}
		k := related(b.rows[i].Source)
		if _, ok := folds[k[0]]; !ok {
			folds[k[0]] = k
			keys = append(keys, k[0])
		}
	}
	errs := make([]error, len(keys))
	parallel(len(keys), func(k int) {
		left := folds[keys[k]]
		m := b.fit(left)
		s, err := screen.New(screen.Options{Pack: b.pack.WithModel(m), CacheSize: -1})
		if err != nil {
			errs[k] = err
			return
		}
		for i := range b.rows {
			if slices.Contains(left, b.rows[i].Source) {
				out[i].report = s.Text(b.rows[i].Text, "", "")
				if b.bags[i].Words > 0 {
					out[i].margin = float64(m.Score(b.bags[i].Features, b.bags[i].Words).Margin)
				}
			}
		}
	})
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}
