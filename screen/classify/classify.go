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
}

// A Total is what some features weigh together, wherever they stand, and how many there
// are. Totals of several lists add up.
type Total struct{ Sum, N int32 }

// Less is a total without another that is part of it.
func (t Total) Less(o Total) Total { return Total{t.Sum - o.Sum, t.N - o.N} }

// Plus is two totals together.
func (t Total) Plus(o Total) Total { return Total{t.Sum + o.Sum, t.N + o.N} }

// Weigh returns the total of features by their hashes.
func (m *Model) Weigh(features []uint32) Total {
	t := Total{N: int32(len(features))}
	if len(m.weights) > 0 {
		shift := 32 - m.bits
		for _, h := range features {
			t.Sum += int32(m.weights[h>>shift])
		}
	}
	return t
}

// Margin returns the margin of features by their total.
func (m *Model) Margin(t Total) float32 {
	if len(m.weights) == 0 {
		return float32(math.Inf(-1))
	}
	return float32(t.Sum)*m.scale/float32(Norm(int(t.N))) + m.bias
}

// Score returns the window with the highest margin. words is how many the text has, and
// before has the total of all features before every Stride of them, and of the whole
// text. lift is what else is known of the words, added to the margin: one number for
// every Stride of them, or nil.
func (m *Model) Score(before []Total, words int, lift []float32) Span {
	best := Span{Margin: float32(math.Inf(-1))}
	m.windows(before, words, lift, func(s Span) {
		if s.Margin > best.Margin {
			best = s
		}
	})
	return best
}

// Over returns the windows whose margin is at least least, the highest first;
// of those that overlap, the highest alone.
func (m *Model) Over(before []Total, words int, lift []float32, least float32) []Span {
	var all, out []Span
	m.windows(before, words, lift, func(s Span) {
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

// windows calls f with each window.
func (m *Model) windows(before []Total, words int, lift []float32, f func(Span)) {
	if len(m.weights) == 0 {
		return
	}
	for last := min(Window/Stride, len(before)-1); last < len(before); last++ {
		first := max(0, last-Window/Stride)
		margin := m.Margin(before[last].Less(before[first]))
		if lift != nil {
			margin += max(lift[first], lift[max(last-1, 0)])
		}
		f(Span{Start: first * Stride, End: min(last*Stride, words), Margin: margin})
	}
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
