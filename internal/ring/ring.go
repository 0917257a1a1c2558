// Package ring says which tests run where. A plain "go test ./..." is the core:
// quick, deterministic, the same on every day and machine. "-tags slow" adds
// what kills processes, waits for real clocks, opens many sockets or plays
// everything there is. "-short", under the race detector, leaves out what finds
// no race that the rest does not. CONTRIBUTING.md has the table.
package ring

import (
	"testing"
	"time"
)

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

// Sample is the cases of a list that are played, the first among them; see Share.
func Sample[T any](all []T, core, short int) []T {
	var out []T
	for i := 0; i < len(all); i += Share(core, short) {
		out = append(out, all[i])
	}
	return out
}

// Limit ends what hangs. What a test waits for is certain to come, on any machine.
const Limit = time.Minute

// Until waits until ok is true. It is only for tests that cross a process, a
// socket or a goroutine that they cannot join; all others use testing/synctest
// or a channel. What is waited for is certain to come, so that the limit of a
// minute fails nothing but what is stuck.
func Until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	UntilIn(t, Limit, what, ok)
}

// UntilIn is Until with another limit, for servers that are slow to start.
func UntilIn(t testing.TB, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %v", what, limit)
		}
	}
}
