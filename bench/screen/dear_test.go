package main

import (
	"runtime"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/screen/normal"
)

// The readings of every form that may be expensive are bounded by its length, and so is the
// memory they are made in. A text of which more could be read says so.
//
// Proves SYN-4
func TestEveryFormIsBounded(t *testing.T) {
	ring.Slow(t, "reads hundreds of texts, and counts the allocations of one after another")
	texts := dearTexts()
	const (
		most   = 6 * dearBytes // of readings
		memory = 120 * most
		step   = 16 // a sample
	)
	var before, after runtime.MemStats
	for i := 0; i < len(texts); i += step {
		text := texts[i].text()
		sum := 0
		for _, v := range normal.Read(text).Views[1:] {
			sum += len(v.Text)
		}
		runtime.ReadMemStats(&before)
		normal.Read(text)
		runtime.ReadMemStats(&after)
		made := after.TotalAlloc - before.TotalAlloc
		if sum > most || made > memory {
			t.Errorf("%s: readings of %d bytes, %d allowed; made in %d, %d allowed", strings.ToValidUTF8(texts[i].name, ""), sum, most, made, memory)
		}
	}
}

// Each run measures the same texts in the same order.
func TestExpensiveTextsAreTheSame(t *testing.T) {
	first, second := dearTexts(), dearTexts()
	must.Len(t, second, len(first))
	for i := range first {
		must.Equal(t, second[i].name, first[i].name)
		if i%16 == 0 || strings.HasPrefix(first[i].name, "poison in") {
			must.Equal(t, second[i].text() == first[i].text(), true, first[i].name)
		}
	}
}
