// Package classify is a logistic regression over hashed features (feature hashing),
// applied to a sliding window so that a payload buried in a long text scores as high as
// one that stands alone.
//
// Invariants: the result depends on the features only, the work is linear in their
// number, and the bytes of a model define it: training is reproducible and weights are
// whole numbers.
package classify

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"slices"
	"strings"
)

// Feature is one property of a text: a hash, and the index of its word. Hash 0 is the
// neutral feature; it counts as a feature and is never learned.
type Feature struct {
	Hash uint32
	At   int32
}

// Window is the number of words of a window, and Stride the distance between the starts
// of two windows.
const (
	Window = 32
	Stride = 16
)

// Model is a trained model. It is immutable.
type Model struct {
	bits    uint8
	weights string  // of one byte each, with its sign
	scale   float32 // value of one unit of a weight
	bias    float32
}

// Span is a window, in words, and its margin (log-odds): positive means poison.
type Span struct {
	Start, End int
	Margin     float32
}

// A Total is the sum of the weights of some features and their number. Totals of several
// lists add up.
type Total struct{ Sum, N int32 }

// Minus returns t without a total that is part of it.
func (t Total) Minus(o Total) Total { return Total{t.Sum - o.Sum, t.N - o.N} }

// Plus returns the sum of two totals.
func (t Total) Plus(o Total) Total { return Total{t.Sum + o.Sum, t.N + o.N} }

// SumWeights returns the total of features, given by their hashes.
func (m *Model) SumWeights(features []uint32) Total {
	t := Total{N: int32(len(features))}
	if len(m.weights) > 0 {
		shift := 32 - m.bits
		for _, h := range features {
			t.Sum += int32(int8(m.weights[h>>shift]))
		}
	}
	return t
}

// Margin returns the margin of features by their total. It is -Inf for a model without
// weights.
func (m *Model) Margin(t Total) float32 {
	if len(m.weights) == 0 {
		return float32(math.Inf(-1))
	}
	return float32(t.Sum)*m.scale/float32(Norm(int(t.N))) + m.bias
}

// BestWindow returns the window with the highest margin. words is the number of words of
// the text. before has prefix sums: the total of all features before every Stride words,
// and last that of the whole text. lift is added to the margins: one number per Stride
// words, or nil.
func (m *Model) BestWindow(before []Total, words int, lift []float32) Span {
	best := Span{Margin: float32(math.Inf(-1))}
	m.windows(before, words, lift, func(s Span) {
		if s.Margin > best.Margin {
			best = s
		}
	})
	return best
}

// WindowsAbove returns the windows whose margin is at least least, highest first. Of
// overlapping windows only the highest is returned.
func (m *Model) WindowsAbove(before []Total, words int, lift []float32, least float32) []Span {
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
		margin := m.Margin(before[last].Minus(before[first]))
		if lift != nil {
			margin += max(lift[first], lift[max(last-1, 0)])
		}
		f(Span{Start: first * Stride, End: min(last*Stride, words), Margin: margin})
	}
}

const thin = 16 // smoothing of the number of features: a few words are less certain than many

// Norm is the divisor of the sum of a window's weights, in training too.
func Norm(features int) float64 { return math.Sqrt(float64(features + thin)) }

// Magic begins an encoded model. The binary logarithm of its size, the value of one unit
// of a weight, the bias, the weights and a CRC-32 follow.
const Magic = "mpclass1"

var errModel = errors.New("classify: invalid model file")

// Decode parses a model, which shares the memory of b. It returns an error for other
// data, and for a model that was corrupted.
func Decode(b string) (*Model, error) {
	const head = len(Magic) + 9
	if len(b) < head+4 || b[:len(Magic)] != Magic {
		return nil, errModel
	}
	data, sum, checksum := b[:len(b)-4], []byte(b[len(b)-4:]), crc32.NewIEEE()
	_, _ = io.Copy(checksum, struct{ io.Reader }{strings.NewReader(data)}) // in small pieces, which WriteTo does not
	if checksum.Sum32() != binary.LittleEndian.Uint32(sum) {
		return nil, fmt.Errorf("%w: wrong checksum", errModel)
	}
	m, numbers := &Model{bits: b[len(Magic)], weights: data[head:]}, []byte(b[len(Magic)+1:head])
	m.scale = math.Float32frombits(binary.LittleEndian.Uint32(numbers))
	m.bias = math.Float32frombits(binary.LittleEndian.Uint32(numbers[4:]))
	if m.bits < 8 || m.bits > 21 || len(m.weights) != 1<<m.bits || m.scale != m.scale || m.bias != m.bias {
		return nil, fmt.Errorf("%w: inconsistent sizes", errModel)
	}
	return m, nil
}
