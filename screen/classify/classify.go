// Package classify is a linear model over hashed features, looked at through
// windows so that a payload buried in a long text counts as much as one that
// stands alone.
//
// It promises that its answer depends on the features only, that its work is
// linear in them, and that a model is what its bytes say: training is
// reproducible and weights are whole numbers.
package classify

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
)

// Feature is one property of a text: a hash, and the index of the word at
// which it stands. The hash 0 means nothing in particular; it counts as a
// feature and is never learned.
type Feature struct {
	Hash uint32
	At   int32
}

// Window and Stride are the words that are judged together, and how far the
// next window begins.
const (
	Window = 32
	Stride = 16
)

// Model is a trained model. It is immutable.
type Model struct {
	bits    uint8
	weights []int8
	scale   float32 // what one step of a weight is worth
	bias    float32
}

// Span is the window that decided, in words, and its margin: positive is
// poison.
type Span struct {
	Start, End int
	Margin     float32
	Sum        int32 // what all features weigh, of the window with the highest margin
}

// Weigh returns what features weigh together, by their hashes, wherever they stand: sums
// of several lists add up.
func (m *Model) Weigh(features []uint32) (sum int32) {
	if len(m.weights) == 0 {
		return 0
	}
	shift := 32 - m.bits
	for _, h := range features {
		sum += int32(m.weights[h>>shift])
	}
	return sum
}

// Margin returns the margin of so many features by their sum.
func (m *Model) Margin(sum int32, features int) float32 {
	if len(m.weights) == 0 {
		return float32(math.Inf(-1))
	}
	return float32(sum)*m.scale/float32(Norm(features)) + m.bias
}

// Score returns the window with the highest margin. Features must be in order
// of their words; words is how many the text has. lift is what else is known of
// the words, added to the margin: one number for every Stride of them, or nil.
func (m *Model) Score(features []Feature, words int, lift []float32) Span {
	best := Span{Margin: float32(math.Inf(-1))}
	sum := m.windows(features, words, lift, func(s Span) {
		if s.Margin > best.Margin {
			best = s
		}
	})
	best.Sum = sum
	return best
}

// Over returns the windows whose margin is at least least, the highest first;
// of those that overlap, the highest alone.
func (m *Model) Over(features []Feature, words int, lift []float32, least float32) []Span {
	var all, out []Span
	m.windows(features, words, lift, func(s Span) {
		if s.Margin >= least {
			all = append(all, s)
		}
	})
	slices.SortStableFunc(all, func(a, b Span) int { return cmp.Compare(b.Margin, a.Margin) })
	taken := make([]bool, words/Stride+1)
	for _, s := range all {
		if strides := taken[s.Start/Stride : (s.End-1)/Stride+1]; !slices.Contains(strides, true) {
			for i := range strides {
				strides[i] = true
			}
			out = append(out, s)
		}
	}
	return out
}

// windows calls f with each window, and returns what all features weigh: sums of several
// lists add up.
func (m *Model) windows(features []Feature, words int, lift []float32, f func(Span)) (all int32) {
	if len(m.weights) == 0 {
		return 0
	}
	const slots = Window / Stride
	// A ring of sums by stride: a window is the sum of its strides.
	var sum [slots]int32
	var count [slots]int32
	shift := 32 - m.bits
	next := 0
	for s := 0; s*Stride < words || s == 0; s++ {
		end := int32((s + 1) * Stride)
		var a, n int32
		for next < len(features) && features[next].At < end {
			a += int32(m.weights[features[next].Hash>>shift])
			n++
			next++
		}
		all += a
		sum[s%slots], count[s%slots] = a, n
		var total, number int32
		for i := range slots {
			total += sum[i]
			number += count[i]
		}
		if s+1 < slots && (s+1)*Stride < words {
			continue
		}
		margin := m.Margin(total, int(number))
		start := max(0, s+1-slots)
		if lift != nil {
			margin += max(lift[start], lift[s])
		}
		f(Span{Start: start * Stride, End: min(words, (s+1)*Stride), Margin: margin})
	}
	return all
}

const thin = 16 // added to the number of a window's features: a few words are less certain than many

// Norm is what the sum of a window's weights is divided by, in training too.
func Norm(features int) float64 { return math.Sqrt(float64(features + thin)) }

// Magic begins an encoded model: behind it stand the binary logarithm of its size,
// what one step of a weight is worth, the bias, the weights and a checksum.
const Magic = "mpclass1"

var errModel = errors.New("classify: not a model")

// Decode reads a model. What is not one, or was changed, is an error.
func Decode(b []byte) (*Model, error) {
	const head = len(Magic) + 9
	if len(b) < head+4 || string(b[:len(Magic)]) != Magic {
		return nil, errModel
	}
	if crc32.ChecksumIEEE(b[:len(b)-4]) != binary.LittleEndian.Uint32(b[len(b)-4:]) {
		return nil, fmt.Errorf("%w: the checksum does not fit", errModel)
	}
	m := &Model{bits: b[len(Magic)]}
	m.scale = math.Float32frombits(binary.LittleEndian.Uint32(b[len(Magic)+1:]))
	m.bias = math.Float32frombits(binary.LittleEndian.Uint32(b[len(Magic)+5:]))
	if m.bits < 8 || m.bits > 20 || len(b) != head+4+1<<m.bits || m.scale != m.scale || m.bias != m.bias {
		return nil, fmt.Errorf("%w: sizes do not fit", errModel)
	}
	m.weights = make([]int8, 1<<m.bits)
	for i := range m.weights {
		m.weights[i] = int8(b[head+i])
	}
	return m, nil
}
