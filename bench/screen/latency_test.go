package main

import (
	"io"
	"testing"
	"time"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/ring"
)

// The bounds can fail, each of them, and a generous one holds.
//
// Proves SYN-4
func TestLatencyIsGated(t *testing.T) {
	ring.Slow(t, "measures time")
	expect.OK(t, latency(io.Discard, time.Minute, time.Minute))
	expect.Is(t, latency(io.Discard, time.Nanosecond, time.Minute), errSlow, "validation has no bound")
	expect.Is(t, latency(io.Discard, time.Minute, time.Nanosecond), errSlow, "the record has no bound")
}
