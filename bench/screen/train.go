package main

import (
	"cmp"
	"encoding/binary"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/memproxy/memproxy/screen/classify"
)

// example is a training example: the features of a text, and whether it is poison. Weight
// is its weight in the loss.
type example struct {
	Features []classify.Feature
	Words    int
	Poison   bool
	Weight   float64
	// Group is the source of the text. Only features that occur in several groups are
	// learned: one that is specific to a source identifies the source, not poison.
	Group int
	// Parts has the ends of the parts of the text, as indices of Features, for a model of
	// whole texts; nil for a model of windows.
	Parts []int32
}

// training has the settings of a training run.
type training struct {
	Bits   uint8
	Epochs int
	Rate   float64
	L2     float64
	Seed   uint64
	// Groups is the number of groups in which a feature must occur.
	Groups int
	// Averaged is the number of epochs, the last ones, whose weights are averaged: a
	// single epoch's depend on the order of its examples.
	Averaged int
}

// shipped returns the settings of a shipped model with a table of 1<<bits weights.
func shipped(bits uint8) training {
	return training{Bits: bits, Epochs: 16, Rate: 0.2, L2: 1e-5, Seed: 7, Groups: 2, Averaged: 8}
}

// wholeTraining returns the settings of the shipped model of whole texts.
func wholeTraining() training { return shipped(21) }

// windowTraining returns the settings of the shipped model of windows.
func windowTraining() training { return shipped(20) }

// settled is the error below which an example is skipped, in this epoch and the next ones:
// it is read again after rest epochs.
const (
	settled = 0.02
	rest    = 4
)

// param is a weight and the sum of its squared gradients (AdaGrad), next to each other
// because both are always used together.
type param struct{ weight, squares float32 }

// fitted returns an encoded logistic regression model, trained by stochastic gradient
// descent. Of a text with several windows only the one with the highest margin is used
// (multiple-instance learning): a poisoned text has at least one poisoned window, and a
// harmless one has none. The result is deterministic for examples, options and seed.
func fitted(examples []example, o training) []byte {
	w := make([]param, 1<<o.Bits)
	var bias, biasG float64
	shift := 32 - o.Bits
	keep := common(examples, o.Groups)
	rng := rand.New(rand.NewPCG(o.Seed, o.Seed))
	order := make([]int, len(examples))
	for i := range order {
		order[i] = i
	}
	sums, biasSum := make([]float32, len(w)), 0.0
	due := make([]int, len(examples)) // the epoch in which an example is read again
	for epoch := range o.Epochs {
		rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		for _, ei := range order {
			if epoch < due[ei] {
				continue
			}
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
			if math.Abs(p-y) < settled {
				due[ei] = epoch + rest
				continue
			}
			grad := (p - y) * e.Weight
			step := grad / classify.Norm(n)
			for _, f := range e.Features[from:to] {
				if f.Hash == 0 || !keep.has(f.Hash) {
					continue
				}
				p := &w[f.Hash>>shift]
				d := step + o.L2*float64(p.weight)
				p.squares += float32(d * d)
				p.weight -= float32(o.Rate * d / (math.Sqrt(float64(p.squares)) + 1e-3))
			}
			biasG += grad * grad
			bias -= o.Rate * grad / (math.Sqrt(biasG) + 1e-3)
		}
		if epoch >= o.Epochs-o.Averaged {
			for i := range w {
				sums[i] += w[i].weight
			}
			biasSum += bias
		}
	}
	for i := range sums {
		sums[i] /= float32(o.Averaged)
	}
	return quantise(sums, biasSum/float64(o.Averaged), o.Bits)
}

// groupBits is the binary logarithm of the size of the table in common.
const groupBits = 22

// featureSet is a set of features by hash prefix.
type featureSet [1 << (groupBits - 6)]uint64

func (s *featureSet) has(h uint32) bool { return s[h>>(32-groupBits+6)]>>(h>>(32-groupBits)&63)&1 != 0 }

// common returns the features that occur in at least n groups. Examples are processed
// group by group, so that each feature stores only the last group that had it.
func common(examples []example, n int) *featureSet {
	order := make([]int, len(examples))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(examples[a].Group, examples[b].Group) })
	type seen struct{ last, groups int32 }
	table := make([]seen, 1<<groupBits)
	number, group := int32(0), 0
	for _, i := range order {
		if e := &examples[i]; number == 0 || e.Group != group {
			number, group = number+1, e.Group
		}
		for _, f := range examples[i].Features {
			if c := &table[f.Hash>>(32-groupBits)]; c.last != number {
				c.last = number
				c.groups++
			}
		}
	}
	s := new(featureSet)
	for i := range table {
		if int(table[i].groups) >= n {
			s[i>>6] |= 1 << (i & 63)
		}
	}
	return s
}

// bestWindow returns the features of the window, or part, with the highest margin.
func bestWindow(w []param, bias float64, shift uint8, e *example) (from, to int, margin float64) {
	margin = math.Inf(-1)
	start := 0
	for _, end := range e.Parts {
		sum := 0.0
		for _, f := range e.Features[start:end] {
			sum += float64(w[f.Hash>>shift].weight)
		}
		if m := sum/classify.Norm(int(end)-start) + bias; m > margin && int(end) > start {
			from, to, margin = start, int(end), m
		}
		start = int(end)
	}
	if e.Parts != nil {
		return from, to, margin
	}
	for s := 0; s == 0 || s+classify.Window-classify.Stride < e.Words; s += classify.Stride {
		for start < len(e.Features) && int(e.Features[start].At) < s {
			start++
		}
		sum, end := 0.0, start
		for end < len(e.Features) && int(e.Features[end].At) < s+classify.Window {
			sum += float64(w[e.Features[end].Hash>>shift].weight)
			end++
		}
		if m := sum/classify.Norm(end-start) + bias; m > margin {
			from, to, margin = start, end, m
		}
	}
	return from, to, margin
}

// quantise rounds the weights to whole numbers and encodes the model. The largest half
// per mille are clipped, so that outliers do not coarsen the scale.
func quantise(weights []float32, bias float64, bits uint8) []byte {
	abs := make([]float64, 0, len(weights))
	for _, w := range weights {
		if w != 0 {
			abs = append(abs, math.Abs(float64(w)))
		}
	}
	scale := float32(1)
	if len(abs) > 0 {
		slices.Sort(abs)
		scale = float32(abs[len(abs)-1-len(abs)/2000] / 127)
	}
	b := append([]byte(classify.Magic), bits)
	b = binary.LittleEndian.AppendUint32(b, math.Float32bits(scale))
	b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(bias)))
	for _, w := range weights {
		b = append(b, byte(int8(max(-127, min(127, math.Round(float64(w)/float64(scale)))))))
	}
	return binary.LittleEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
}
