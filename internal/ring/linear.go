package ring

import (
	"runtime"
	"testing"
	"time"
)

// Linear fails if work on eight times as much as few takes over 30 times as much
// processor time. Quadratic work takes 64 times as much. The least of up to 50 runs
// counts: of a machine with other work, each run has another share of the caches.
// prepare returns the work, which runs in the caller's goroutine alone.
func Linear(t testing.TB, name string, few int, prepare func(n int) (work func())) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	a, b := growth(few, func(n int) time.Duration {
		work := prepare(n)
		begin := threadTime()
		work()
		return threadTime() - begin
	})
	if b > tooMuch*a {
		t.Errorf("%s: %v for %d, %v for %d", name, a, few, b, 8*few)
	}
}

const tooMuch = 30

// growth returns the least times that few and eight times as much took.
func growth(few int, took func(n int) time.Duration) (a, b time.Duration) {
	a, b = time.Hour, time.Hour
	for n := 0; n < 50 && (n < 3 || b > tooMuch*a); n++ {
		a, b = min(a, took(few)), min(b, took(8*few))
	}
	return a, b
}
