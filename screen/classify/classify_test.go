package classify

import (
	"encoding/binary"
	"hash/crc32"
	"math"
	"testing"

	"github.com/memproxy/memproxy/internal/must"
)

// feature is that of a numbered word.
func feature(word uint32) uint32 { return word * 0x9e3779b1 }

// text is what a model knows of numbered words, of one feature each.
func text(m *Model, words ...uint32) (before []Total, n int) {
	var all Total
	for i, w := range words {
		if i%Stride == 0 {
			before = append(before, all)
		}
		all = all.Plus(m.SumWeights([]uint32{feature(w)}))
	}
	return append(before, all), len(words)
}

// payload is a model that takes the words 1 and 2 for poison.
func payload(bits uint8) *Model {
	m := &Model{bits: bits, weights: make([]int8, 1<<bits), scale: 0.1, bias: -1}
	for word := range uint32(2) {
		m.weights[feature(word+1)>>(32-bits)] = 100
	}
	return m
}

// encode writes a model as Decode reads it.
func encode(m *Model) []byte {
	b := append([]byte(Magic), m.bits)
	b = binary.LittleEndian.AppendUint32(b, math.Float32bits(m.scale))
	b = binary.LittleEndian.AppendUint32(b, math.Float32bits(m.bias))
	for _, w := range m.weights {
		b = append(b, byte(w))
	}
	return binary.LittleEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
}

// A payload in the middle of a long harmless text counts as much as alone.
//
// Proves MFW-3
func TestBuriedPayloadsCount(t *testing.T) {
	m := payload(8)
	long := make([]uint32, 400)
	for i := range long {
		long[i] = 50
	}
	f, n := text(m, long...)
	clean := m.BestWindow(f, n, nil)
	copy(long[200:], []uint32{1, 2, 1, 2, 1, 2})
	f, n = text(m, long...)
	hit := m.BestWindow(f, n, nil)
	if hit.Margin <= clean.Margin+0.5 || hit.Start > 200 || hit.End < 206 || hit.End-hit.Start > Window {
		t.Errorf("clean %+v, buried %+v", clean, hit)
	}
}

func TestEmptyTexts(t *testing.T) {
	m := &Model{bits: 8, weights: make([]int8, 1<<8), scale: 1}
	before, n := text(m)
	if s := m.BestWindow(before, n, nil); math.IsNaN(float64(s.Margin)) || s.Start != 0 || s.End != 0 {
		t.Errorf("%+v", s)
	}
	if s := (&Model{}).BestWindow(before, n, nil); !math.IsInf(float64(s.Margin), -1) {
		t.Errorf("a model without weights says %+v", s)
	}
}

func FuzzDecode(f *testing.F) {
	whole := encode(payload(8))
	f.Add(whole)
	f.Add(whole[:20])
	f.Add([]byte(Magic))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := Decode(b)
		if err != nil {
			return
		}
		must.Equal(t, string(encode(m)), string(b), "decoding and encoding change the bytes")
		fs, n := text(m, 1, 2, 3)
		m.BestWindow(fs, n, nil)
	})
}
