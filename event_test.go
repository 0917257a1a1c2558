package memproxy_test

import (
	"fmt"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
)

// The facts of a write to too many fields are given up at their bound, and not after each
// field was compared with all others.
func TestFactsOfManyFieldsAreGivenUp(t *testing.T) {
	allocations := func(fields int) float64 {
		op := &memproxy.Operation{Kind: memproxy.Learn}
		for i := range fields {
			op.Items = append(op.Items, memproxy.Item{Kind: memproxy.ItemContent, Field: fmt.Sprint("field", i), Text: "x"})
		}
		return testing.AllocsPerRun(10, func() {
			if memproxy.FactsOf(&memproxy.Question{Operation: op}) != nil {
				t.Error("there are facts")
			}
		})
	}
	expect.Equal(t, allocations(2000), allocations(100), "allocations")
}
