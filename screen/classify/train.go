package classify

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
)

// Example is a text to learn from: its features, in words, and whether it is
// poison. Weight says how much it counts.
type Example struct {
	Features []Feature
	Words    int
	Poison   bool
	Weight   float64
	// Group is the source of the text, 0 to 63. Only features that occur in
	// several groups are learned: one that is peculiar to a source says what
	// the source is, not what poison is.
	Group uint8
}

// TrainOptions are the settings of training. The zero value is not valid; see
// DefaultTraining.
type TrainOptions struct {
	Bits   uint8
	Epochs int
	Rate   float64
	L2     float64
	Seed   uint64
	// Groups is in how many groups a feature must occur.
	Groups int
}

// DefaultTraining are the settings of the shipped model.
func DefaultTraining() TrainOptions {
	return TrainOptions{Bits: 18, Epochs: 8, Rate: 0.2, L2: 1e-5, Seed: 7, Groups: 3}
}

// Train fits a model by stochastic gradient descent. Of a text with several
// windows, the one with the highest margin teaches: somewhere in a poisoned
// text is poison, and nowhere in a harmless one. The same examples, options
// and seed give the same bytes.
func Train(examples []Example, o TrainOptions) *Model {
	size := 1 << o.Bits
	w := make([]float64, size)
	g := make([]float64, size) // sums of squared gradients (AdaGrad)
	var bias, biasG float64
	shift := 32 - o.Bits
	keep := common(examples, o.Groups)
	rng := rand.New(rand.NewPCG(o.Seed, o.Seed))
	order := make([]int, len(examples))
	for i := range order {
		order[i] = i
	}
	for range o.Epochs {
		rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		for _, ei := range order {
			e := &examples[ei]
			from, to, margin := bestWindow(w, bias, shift, e)
			n := to - from
			if n == 0 {
				continue
			}
			y := 0.0
			if e.Poison {
				y = 1
			}
			p := 1 / (1 + math.Exp(-margin))
			grad := (p - y) * e.Weight
			step := grad / norm(n)
			for _, f := range e.Features[from:to] {
				if f.Hash == 0 || !keep.has(f.Hash) {
					continue
				}
				i := f.Hash >> shift
				d := step + o.L2*w[i]
				g[i] += d * d
				w[i] -= o.Rate * d / (math.Sqrt(g[i]) + 1e-3)
			}
			biasG += grad * grad
			bias -= o.Rate * grad / (math.Sqrt(biasG) + 1e-3)
		}
	}
	return quantise(w, bias, o.Bits)
}

// groupBits is the size of the table in which common counts.
const groupBits = 22

// set is a set of features, by the beginning of their hashes.
type set [1 << (groupBits - 6)]uint64

func (s *set) has(h uint32) bool { return s[h>>(32-groupBits+6)]>>(h>>(32-groupBits)&63)&1 != 0 }

// common returns the features that occur in at least n groups.
func common(examples []Example, n int) *set {
	groups := make([]uint64, 1<<groupBits)
	for i := range examples {
		g := uint64(1) << examples[i].Group
		for _, f := range examples[i].Features {
			groups[f.Hash>>(32-groupBits)] |= g
		}
	}
	s := new(set)
	for i, g := range groups {
		if bits.OnesCount64(g) >= n {
			s[i>>6] |= 1 << (i & 63)
		}
	}
	return s
}

// bestWindow returns the features of the window with the highest margin.
func bestWindow(w []float64, bias float64, shift uint8, e *Example) (from, to int, margin float64) {
	margin = math.Inf(-1)
	start := 0
	for s := 0; s == 0 || s+Window-Stride < e.Words; s += Stride {
		for start < len(e.Features) && int(e.Features[start].At) < s {
			start++
		}
		sum, end := 0.0, start
		for end < len(e.Features) && int(e.Features[end].At) < s+Window {
			sum += w[e.Features[end].Hash>>shift]
			end++
		}
		if m := sum/norm(end-start) + bias; m > margin {
			from, to, margin = start, end, m
		}
	}
	return from, to, margin
}

// quantise makes whole numbers of the weights. The largest half per mille are
// cut off, so that a few do not coarsen all.
func quantise(w []float64, bias float64, bits uint8) *Model {
	abs := make([]float64, 0, len(w))
	for _, x := range w {
		if x != 0 {
			abs = append(abs, math.Abs(x))
		}
	}
	m := &Model{bits: bits, weights: make([]int8, len(w)), bias: float32(bias), scale: 1}
	if len(abs) == 0 {
		return m
	}
	slices.Sort(abs)
	top := abs[len(abs)-1-len(abs)/2000]
	m.scale = float32(top / 127)
	for i, x := range w {
		m.weights[i] = int8(max(-127, min(127, math.Round(x/float64(m.scale)))))
	}
	return m
}
