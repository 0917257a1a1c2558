package audit

import (
	"slices"

	"github.com/memproxy/memproxy"
)

// maxBody is the longest body of a record: entries have a 16-bit length.
const maxBody = 1<<16 - 1 - maxWriterMembers - len(`,"part":{"n":9007199254740991,"of":9007199254740991}`)

// encodeAll encodes an event into as few records as possible. That is nearly always
// one; an answer with thousands of memories needs several, which repeat the short
// members and divide the long ones. Nothing is omitted. It reuses the memory of bodies.
func encodeAll(bodies []body, ev *memproxy.Event, at place) []body {
	own := inert(*ev)
	bodies = slices.Grow(bodies[:0], 1)[:1]
	bodies[0] = encode(bodies[0].buf, &own, at)
	if len(bodies[0].buf) <= maxBody {
		return bodies
	}
	bodies = bodies[:0]
	evs := halve(nil, own)
	for i := range evs {
		bodies = append(bodies, encode(nil, &evs[i], place{part: i + 1, parts: len(evs), keptFrom: -1}))
	}
	return bodies
}

// halve splits an event until every part fits. Each half has its share of every list, in
// order; strings are bounded, so this terminates.
func halve(out []memproxy.Event, ev memproxy.Event) []memproxy.Event {
	if d := encode(nil, &ev, whole); len(d.buf) <= maxBody {
		return append(out, ev)
	}
	a, b := ev, ev
	a.Reasons, b.Reasons = halves(ev.Reasons)
	a.Targets, b.Targets = halves(ev.Targets)
	a.Fields, b.Fields = halves(ev.Fields)
	a.Memories, b.Memories = halves(ev.Memories)
	a.Budget, b.Budget = halves(ev.Budget)
	a.Findings, b.Findings = halves(ev.Findings)
	a.Versions, b.Versions = halves(ev.Versions)
	b.Facts, b.Filtered = nil, 0
	return halve(halve(out, a), b)
}

func halves[T any](list []T) (first, rest []T) {
	n := (len(list) + 1) / 2
	return list[:n], list[n:]
}
