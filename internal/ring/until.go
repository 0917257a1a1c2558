package ring

import (
	"testing"
	"time"
)

// Until waits until ok is true. It is only for tests that cross a process, a
// socket or a goroutine that they cannot join; all others use testing/synctest
// or a channel. What is waited for is certain to come, so that the limit of a
// minute fails nothing but what is stuck.
func Until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	UntilIn(t, time.Minute, what, ok)
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
