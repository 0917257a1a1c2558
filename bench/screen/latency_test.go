package main

import (
	"errors"
	"io"
	"testing"
	"time"

	"github.com/memproxy/memproxy/internal/ring"
)

// The bounds can fail, each of them, and a generous one holds.
//
// Proves SYN-4
func TestLatencyIsGated(t *testing.T) {
	ring.Slow(t, "measures time")
	if err := latency(io.Discard, time.Minute, time.Minute); err != nil {
		t.Error(err)
	}
	if err := latency(io.Discard, time.Nanosecond, time.Minute); !errors.Is(err, errSlow) {
		t.Errorf("validation has no bound: %v", err)
	}
	if err := latency(io.Discard, time.Minute, time.Nanosecond); !errors.Is(err, errSlow) {
		t.Errorf("the record has no bound: %v", err)
	}
}
