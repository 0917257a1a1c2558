//go:build slow

package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/internal/expect"
)

// A ratio below its floor fails, one at it holds, and what was not measured
// is said.
func TestRatiosHaveFloors(t *testing.T) {
	floors := []floor{{"memproxy", 0.2}, {"memproxy + Redis", 0.1}}
	for name, c := range map[string]struct {
		rates map[string][]float64
		slow  string
		says  string
	}{
		"at the floor":        {map[string][]float64{bareName: {1000}, "memproxy": {200}, "memproxy + Redis": {100}}, "", "0.20 of the bare proxy"},
		"below it":            {map[string][]float64{bareName: {1000}, "memproxy": {199}, "memproxy + Redis": {100}}, "memproxy 0.20 < 0.20", ""},
		"the other is below":  {map[string][]float64{bareName: {1000}, "memproxy": {200}, "memproxy + Redis": {80}}, "memproxy + Redis 0.08 < 0.10", ""},
		"median, not best":    {map[string][]float64{bareName: {1000, 1000, 1000}, "memproxy": {900, 100, 100}}, "memproxy 0.10", ""},
		"no Redis to measure": {map[string][]float64{bareName: {1000}, "memproxy": {200}}, "", "memproxy + Redis was not measured"},
		"nothing measured":    {map[string][]float64{bareName: {1000}}, "memproxy was not measured", ""},
	} {
		var out strings.Builder
		err := (&results{rate: c.rates}).hold(&out, floors)
		if c.slow == "" && err != nil || c.slow != "" && (!errors.Is(err, errSlow) || !strings.Contains(err.Error(), c.slow)) {
			t.Errorf("%s: %v", name, err)
		}
		expect.Text(t, out.String(), name, &out).Has(c.says)
	}
}
