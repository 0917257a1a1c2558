package main

import (
	"fmt"
	"math"
	"slices"

	"github.com/memproxy/memproxy/screen"
	"github.com/memproxy/memproxy/screen/classify"
)

var trainOpts = classify.DefaultTraining()

func (b *bench) margins() []float64 {
	out := make([]float64, len(b.rows))
	var keys []string
	for i := range b.rows {
		if k := related(b.rows[i].Source)[0]; !b.rows[i].own() && !slices.Contains(keys, k) {
			keys = append(keys, k)
		}
	}
	parallel(len(keys), func(k int) {
		left := related(keys[k])
		m := b.fit(left)
		for i := range b.rows {
			if slices.Contains(left, b.rows[i].Source) && b.bags[i].Words > 0 {
				out[i] = float64(m.Score(b.bags[i].Features, b.bags[i].Words).Margin)
			}
		}
	})
	return out
}

func (b *bench) sweep() error {
	s, err := screen.New(screen.Options{Pack: b.pack, CacheSize: -1, Disable: []string{screen.LayerClassify}})
	if err != nil {
		return err
	}
	rules := make([]float64, len(b.rows))
	parallel(len(b.rows), func(i int) { rules[i] = float64(s.Text(b.rows[i].Text, "", "").Score) })
	try := func(name string) {
		m := b.margins()
		type key struct {
			s string
			a bool
		}
		eval := func(t float64) (macro, fpr, worst float64, ws string, n int) {
			tot, hit := map[key]int{}, map[key]int{}
			for i := range b.rows {
				if b.rows[i].own() {
					continue
				}
				k := key{b.rows[i].Source, b.rows[i].attack()}
				tot[k]++
				p := 1000 / (1 + math.Exp(-(m[i] - t)))
				hi, lo := max(p, rules[i]), min(p, rules[i])
				if hi+(1000-hi)*lo*.3/1000 >= 500 {
					hit[k]++
				}
			}
			src, fp, be := 0, 0, 0
			for k, c := range tot {
				sh := float64(hit[k]) / float64(c)
				if k.a {
					macro += sh
					src++
				} else {
					fp += hit[k]
					be += c
					if sh > .04 {
						n++
					}
					if sh > worst {
						worst, ws = sh, k.s
					}
				}
			}
			return macro / float64(src), float64(fp) / float64(be), worst, ws, n
		}
		for _, target := range []float64{.015, .011} {
			lo, hi := -5.0, 20.0
			for range 40 {
				mid := (lo + hi) / 2
				if _, f, _, _, _ := eval(mid); f > target {
					lo = mid
				} else {
					hi = mid
				}
			}
			ma, f, w, ws, n := eval(hi)
			fmt.Printf("%-40s t=%.2f macro %.2f fpr %.2f worst %.1f %s over4 %d\n", name, hi, 100*ma, 100*f, 100*w, ws, n)
		}
	}
	base := trainOpts
	try("base")
	for _, g := range []int{1, 3, 4} {
		trainOpts = base
		trainOpts.Groups = g
		try(fmt.Sprint("groups ", g))
	}
	for _, e := range []int{4, 16} {
		trainOpts = base
		trainOpts.Epochs = e
		try(fmt.Sprint("epochs ", e))
	}
	for _, r := range []float64{.1, .2, 1} {
		trainOpts = base
		trainOpts.Rate = r
		try(fmt.Sprint("rate ", r))
	}
	for _, l := range []float64{1e-4, 1e-3, 5e-3} {
		trainOpts = base
		trainOpts.L2 = l
		try(fmt.Sprint("l2 ", l))
	}
	trainOpts = base
	trainOpts.Bits = 19
	try("bits 19")
	return nil
}
