// Package ring says which tests run where. A plain "go test ./..." is the core:
// quick, deterministic, the same on every day and machine. "-tags slow" adds
// what kills processes, waits for real clocks, opens many sockets or plays
// everything there is. "-short", under the race detector, leaves out what finds
// no race that the rest does not. CONTRIBUTING.md has the table.
package ring

import "testing"

// Slow marks a test of the slow ring and says why it is there. The core skips
// it.
func Slow(t testing.TB, why string) {
	t.Helper()
	if !IsSlow {
		t.Skip("slow: " + why)
	}
}

// Long marks a test that runs one thing after another, so that the race
// detector, which makes it many times as slow, finds nothing in it.
func Long(t testing.TB, why string) {
	t.Helper()
	if testing.Short() {
		t.Skip("short: " + why)
	}
}

// Share returns how many cases to play one of: all in the slow ring, a fixed
// sample of one in core otherwise, and of one in short with -short.
func Share(core, short int) int {
	switch {
	case IsSlow:
		return 1
	case testing.Short():
		return short
	}
	return core
}
