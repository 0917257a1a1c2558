package classify

import (
	"bytes"
	"math"
	"testing"
)

// text makes features of numbered words, one each.
func text(words ...uint32) ([]Feature, int) {
	var f []Feature
	for i, w := range words {
		f = append(f, Feature{Hash: w * 0x9e3779b1, At: int32(i)})
	}
	return f, len(words)
}

func examples() []Example {
	var out []Example
	for i := range uint32(200) {
		f, n := text(1, 2, 3+i%7, 20+i%11)
		out = append(out, Example{Features: f, Words: n, Poison: true, Weight: 1, Group: int(i % 3)})
		f, n = text(50, 51+i%5, 3+i%7, 70+i%9)
		out = append(out, Example{Features: f, Words: n, Weight: 1, Group: int(i % 3)})
	}
	return out
}

// A payload in the middle of a long harmless text counts as much as alone.
//
// Proves MFW-3
func TestBuriedPayloadsCount(t *testing.T) {
	m := Train(examples(), DefaultTraining())
	long := make([]uint32, 400)
	for i := range long {
		long[i] = 50
	}
	f, n := text(long...)
	clean := m.Score(f, n, nil)
	copy(long[200:], []uint32{1, 2, 1, 2, 1, 2})
	f, n = text(long...)
	hit := m.Score(f, n, nil)
	if hit.Margin <= clean.Margin+0.5 || hit.Start > 200 || hit.End < 206 || hit.End-hit.Start > Window {
		t.Errorf("clean %+v, buried %+v", clean, hit)
	}
}

// The same examples give the same bytes, and bytes give the same model.
func TestTrainingIsReproducible(t *testing.T) {
	a, b := Train(examples(), DefaultTraining()).Encode(), Train(examples(), DefaultTraining()).Encode()
	if !bytes.Equal(a, b) {
		t.Error("two trainings differ")
	}
	m, err := Decode(a)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(m.Encode(), a) {
		t.Error("decoding changes the model")
	}
	if len(a) > 1<<20 {
		t.Errorf("the model has %d bytes", len(a))
	}
}

// A feature that only one source has is not learned.
func TestPeculiarFeaturesAreNotLearned(t *testing.T) {
	var list []Example
	for i := range 60 {
		f, n := text(9, 7)
		list = append(list, Example{Features: f, Words: n, Poison: true, Weight: 1, Group: i % 5})
		f, n = text(8, 6)
		list = append(list, Example{Features: f, Words: n, Weight: 1, Group: i % 5})
		f, n = text(5, 4) // one source's own
		list = append(list, Example{Features: f, Words: n, Poison: true, Weight: 1, Group: 6})
	}
	m := Train(list, DefaultTraining())
	f, n := text(5, 4)
	none, _ := text(1000, 2000)
	if a, b := m.Score(f, n, nil).Margin, m.Score(none, 2, nil).Margin; a != b {
		t.Errorf("margin %v of a peculiar text, %v of an unknown one", a, b)
	}
	if f, n := text(9, 7); m.Score(f, n, nil).Margin <= 0 {
		t.Error("what is common to sources is not learned")
	}
}

// What only sources beyond the sixty-fourth share is learned like anything
// else.
//
// Proves SYN-2
func TestAnyNumberOfSourcesIsLearned(t *testing.T) {
	var list []Example
	for i := range 68 {
		for range 5 {
			f, n := text(8, 6)
			list = append(list, Example{Features: f, Words: n, Weight: 1, Group: i})
			if i >= 64 {
				f, n := text(5, 4)
				list = append(list, Example{Features: f, Words: n, Poison: true, Weight: 1, Group: i})
			}
		}
	}
	m := Train(list, DefaultTraining())
	f, n := text(5, 4)
	none, _ := text(1000, 2000)
	if a, b := m.Score(f, n, nil).Margin, m.Score(none, 2, nil).Margin; a <= b+0.5 {
		t.Errorf("margin %v of what sources 64 to 67 share, %v of an unknown text", a, b)
	}
}

// A text that is judged whole is judged by all that stands in a part of it.
func TestWholePartsAreLearned(t *testing.T) {
	var list []Example
	part := func(w ...uint32) []Feature { f, _ := text(w...); return f }
	for i := range 90 {
		harmless := part(50, 51, 52)
		list = append(list,
			Example{Features: append(part(50, 51, 53), part(1, 2, 3)...), Parts: []int32{3, 6}, Poison: true, Weight: 1, Group: i % 3},
			Example{Features: append(harmless, part(50, 53, 54)...), Parts: []int32{3, 6}, Weight: 1, Group: i % 3})
	}
	m := Train(list, WholeTraining())
	if bad, fine := m.Whole(part(1, 2, 3)), m.Whole(part(50, 51, 53)); bad <= 0 || fine >= 0 {
		t.Errorf("margin %v of the poisoned part, %v of the harmless one", bad, fine)
	}
}

func TestEmptyTexts(t *testing.T) {
	m := Train(nil, DefaultTraining())
	if s := m.Score(nil, 0, nil); math.IsNaN(float64(s.Margin)) || s.Start != 0 || s.End != 0 {
		t.Errorf("%+v", s)
	}
	if s := (&Model{}).Score(nil, 0, nil); !math.IsInf(float64(s.Margin), -1) {
		t.Errorf("a model without weights says %+v", s)
	}
}

func FuzzDecode(f *testing.F) {
	o := DefaultTraining()
	o.Bits = 8
	whole := Train(examples(), o).Encode()
	f.Add(whole)
	f.Add(whole[:20])
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := Decode(b)
		if err != nil {
			return
		}
		if !bytes.Equal(m.Encode(), b) {
			t.Fatal("decoding and encoding change the bytes")
		}
		fs, n := text(1, 2, 3)
		m.Score(fs, n, nil)
	})
}
