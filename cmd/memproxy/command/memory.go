package command

import "runtime/debug"

const (
	// gcPercent lets garbage grow to four times what is in use before it is
	// collected. The sidecar keeps little and allocates much, so the default
	// of 100 would collect every few milliseconds under load.
	gcPercent = 400
	// memoryLimit is where collecting becomes eager all the same. What the
	// process has resident is more than that by its program, by what the embedded
	// database keeps outside of the heap, and by what comes during a collection:
	// together they stay within 256 MiB.
	memoryLimit = 168 << 20
)

// tuneMemory sets the collector up for a small heap, unless GOGC and
// GOMEMLIMIT say otherwise.
func (in *Invocation) tuneMemory() {
	if in.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if in.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit)
	}
}
