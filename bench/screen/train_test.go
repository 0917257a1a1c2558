package main

import (
	"testing"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/screen/classify"
)

// numbered makes features of numbered words, one each.
func numbered(words ...uint32) ([]classify.Feature, int) {
	var f []classify.Feature
	for i, w := range words {
		f = append(f, classify.Feature{Hash: w * 0x9e3779b1, At: int32(i)})
	}
	return f, len(words)
}

// margin is what a model says of the numbered words of a short text.
func margin(m *classify.Model, words ...uint32) float32 {
	var hashes []uint32
	features, _ := numbered(words...)
	for _, f := range features {
		hashes = append(hashes, f.Hash)
	}
	return m.Margin(m.SumWeights(hashes))
}

// model is what is fitted to examples.
func model(t *testing.T, examples []example, o training) *classify.Model {
	t.Helper()
	return must.Get(classify.Decode(string(fitted(examples, o))))(t)
}

func examples() []example {
	var out []example
	for i := range uint32(200) {
		f, n := numbered(1, 2, 3+i%7, 20+i%11)
		out = append(out, example{Features: f, Words: n, Poison: true, Weight: 1, Group: int(i % 3)})
		f, n = numbered(50, 51+i%5, 3+i%7, 70+i%9)
		out = append(out, example{Features: f, Words: n, Weight: 1, Group: int(i % 3)})
	}
	return out
}

// The same examples give the same bytes.
func TestTrainingIsReproducible(t *testing.T) {
	a, b := fitted(examples(), windowTraining()), fitted(examples(), windowTraining())
	expect.Equal(t, string(a), string(b), "two trainings differ")
	if len(a) > 1<<20+1<<10 {
		t.Errorf("the model has %d bytes", len(a))
	}
}

// A feature that only one source has is not learned.
func TestPeculiarFeaturesAreNotLearned(t *testing.T) {
	var list []example
	for i := range 60 {
		f, n := numbered(9, 7)
		list = append(list, example{Features: f, Words: n, Poison: true, Weight: 1, Group: i % 5})
		f, n = numbered(8, 6)
		list = append(list, example{Features: f, Words: n, Weight: 1, Group: i % 5})
		f, n = numbered(5, 4) // one source's own
		list = append(list, example{Features: f, Words: n, Poison: true, Weight: 1, Group: 6})
	}
	m := model(t, list, windowTraining())
	if a, b := margin(m, 5, 4), margin(m, 1000, 2000); a != b {
		t.Errorf("margin %v of a peculiar text, %v of an unknown one", a, b)
	}
	if margin(m, 9, 7) <= 0 {
		t.Error("what is common to sources is not learned")
	}
}

// What only sources beyond the sixty-fourth share is learned like anything
// else.
//
// Proves SYN-2
func TestAnyNumberOfSourcesIsLearned(t *testing.T) {
	var list []example
	for i := range 68 {
		for range 5 {
			f, n := numbered(8, 6)
			list = append(list, example{Features: f, Words: n, Weight: 1, Group: i})
			if i >= 64 {
				f, n := numbered(5, 4)
				list = append(list, example{Features: f, Words: n, Poison: true, Weight: 1, Group: i})
			}
		}
	}
	m := model(t, list, windowTraining())
	if a, b := margin(m, 5, 4), margin(m, 1000, 2000); a <= b+0.5 {
		t.Errorf("margin %v of what sources 64 to 67 share, %v of an unknown text", a, b)
	}
}

// A text that is judged whole is judged by all that stands in a part of it.
func TestWholePartsAreLearned(t *testing.T) {
	var list []example
	part := func(w ...uint32) []classify.Feature { f, _ := numbered(w...); return f }
	for i := range 90 {
		harmless := part(50, 51, 52)
		list = append(list,
			example{Features: append(part(50, 51, 53), part(1, 2, 3)...), Parts: []int32{3, 6}, Poison: true, Weight: 1, Group: i % 3},
			example{Features: append(harmless, part(50, 53, 54)...), Parts: []int32{3, 6}, Weight: 1, Group: i % 3})
	}
	m := model(t, list, wholeTraining())
	if bad, fine := margin(m, 1, 2, 3), margin(m, 50, 51, 53); bad <= 0 || fine >= 0 {
		t.Errorf("margin %v of the poisoned part, %v of the harmless one", bad, fine)
	}
}
