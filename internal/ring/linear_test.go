package ring

import (
	"math/bits"
	"testing"
	"time"

	"github.com/memproxy/memproxy/internal/expect"
)

// Linear tells quadratic work from linear work, also where runs take longer now and then,
// as on a busy machine.
func TestGrowth(t *testing.T) {
	for name, tc := range map[string]struct {
		work  func(n int) time.Duration
		grows bool
	}{
		"linear":    {func(n int) time.Duration { return time.Duration(n) }, false},
		"n log n":   {func(n int) time.Duration { return time.Duration(n * bits.Len(uint(n))) }, false},
		"quadratic": {func(n int) time.Duration { return time.Duration(n * n) }, true},
	} {
		runs := 0
		a, b := growth(1<<10, func(n int) time.Duration {
			runs++
			if runs%5 != 0 {
				return 100 * tc.work(n) // the caches were others'
			}
			return tc.work(n)
		})
		expect.Equal(t, b > tooMuch*a, tc.grows, name, a, b)
	}
}
