package ring

import (
	"testing"
	"time"
)

// Linear fails if work on eight times as much as few takes over 30 times as long.
// Quadratic work takes 64 times as long. The quickest of up to 50 runs counts,
// because the machine has other things to do. work returns how long it took.
func Linear(t testing.TB, name string, few int, work func(n int) time.Duration) {
	t.Helper()
	a, b := time.Hour, time.Hour
	for n := 0; n < 50 && (n < 3 || b > 30*a); n++ {
		a, b = min(a, work(few)), min(b, work(8*few))
	}
	if b > 30*a {
		t.Errorf("%s: %v for %d, %v for %d", name, a, few, b, 8*few)
	}
}
