package classify_test

import (
	"encoding/binary"
	"hash/crc32"
	"math"
	"testing"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/screen/classify"
)

// feature is that of a numbered word.
func feature(word uint32) uint32 { return word * 0x9e3779b1 }

// text is what a model knows of numbered words, of one feature each.
func text(m *classify.Model, words ...uint32) (before []classify.Total, n int) {
	var all classify.Total
	for i, w := range words {
		if i%classify.Stride == 0 {
			before = append(before, all)
		}
		all = all.Plus(m.SumWeights([]uint32{feature(w)}))
	}
	return append(before, all), len(words)
}

// encode writes a model as Decode reads it.
func encode(bits uint8, scale, bias float32, weights []int8) []byte {
	b := append([]byte(classify.Magic), bits)
	b = binary.LittleEndian.AppendUint32(b, math.Float32bits(scale))
	b = binary.LittleEndian.AppendUint32(b, math.Float32bits(bias))
	for _, w := range weights {
		b = append(b, byte(w))
	}
	return binary.LittleEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
}

// payload is a model that takes the words 1 and 2 for poison.
func payload(bits uint8) []byte {
	weights := make([]int8, 1<<bits)
	for word := range uint32(2) {
		weights[feature(word+1)>>(32-bits)] = 100
	}
	return encode(bits, 0.1, -1, weights)
}

// A payload in the middle of a long harmless text counts as much as alone.
//
// Proves MFW-3
func TestBuriedPayloadsCount(t *testing.T) {
	m := must.Get(classify.Decode(string(payload(8))))(t)
	long := make([]uint32, 400)
	for i := range long {
		long[i] = 50
	}
	f, n := text(m, long...)
	clean := m.BestWindow(f, n, nil)
	copy(long[200:], []uint32{1, 2, 1, 2, 1, 2})
	f, n = text(m, long...)
	hit := m.BestWindow(f, n, nil)
	expect.That(t, hit.Margin > clean.Margin+0.5 && hit.Start <= 200 && hit.End >= 206 && hit.End-hit.Start <= classify.Window, "clean %+v, buried %+v", clean, hit)
}

func TestEmptyTexts(t *testing.T) {
	m := must.Get(classify.Decode(string(encode(8, 1, 0, make([]int8, 1<<8)))))(t)
	before, n := text(m)
	if s := m.BestWindow(before, n, nil); math.IsNaN(float64(s.Margin)) || s.Start != 0 || s.End != 0 {
		t.Errorf("%+v", s)
	}
	if s := (&classify.Model{}).BestWindow(before, n, nil); !math.IsInf(float64(s.Margin), -1) {
		t.Errorf("a model without weights says %+v", s)
	}
}

func FuzzDecode(f *testing.F) {
	whole := payload(8)
	f.Add(whole)
	f.Add(whole[:20])
	f.Add([]byte(classify.Magic))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := classify.Decode(string(b))
		if err != nil {
			return
		}
		bits, from := b[len(classify.Magic)], len(classify.Magic)+9
		weights := make([]int8, 1<<bits)
		for i := range weights {
			weights[i] = int8(m.SumWeights([]uint32{uint32(i) << (32 - bits)}).Sum)
			must.Equal(t, weights[i], int8(b[from+i]), "weight", i)
		}
		fs, n := text(m, 1, 2, 3)
		m.BestWindow(fs, n, nil)
	})
}
