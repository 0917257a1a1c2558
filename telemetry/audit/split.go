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
func encodeAll(bodies []body, ev *memproxy.Event) []body {
	bodies = slices.Grow(bodies[:0], 1)[:1]
	bodies[0] = encode(bodies[0].buf, ev, whole)
	if len(bodies[0].buf) <= maxBody {
		return bodies
	}
	bodies = bodies[:0]
	evs := halve(nil, *ev)
	for i := range evs {
		bodies = append(bodies, encode(nil, &evs[i], place{part: i + 1, parts: len(evs)}))
	}
	return bodies
}

// halve splits an event until every part fits. The second half contains only the rest
// of the longest list; strings are bounded, so this terminates.
func halve(out []memproxy.Event, ev memproxy.Event) []memproxy.Event {
	if d := encode(nil, &ev, whole); len(d.buf) <= maxBody {
		return append(out, ev)
	}
	a, b := ev, ev
	b.Reasons, b.Targets, b.Fields, b.Memories, b.Budget, b.Findings, b.Facts, b.Versions = nil, nil, nil, nil, nil, nil, nil, nil
	b.Filtered = 0
	n := max(len(ev.Reasons), len(ev.Targets), len(ev.Fields), len(ev.Memories), len(ev.Budget), len(ev.Findings), len(ev.Versions))
	switch n {
	case len(ev.Reasons):
		a.Reasons, b.Reasons = ev.Reasons[:n/2], ev.Reasons[n/2:]
	case len(ev.Targets):
		a.Targets, b.Targets = ev.Targets[:n/2], ev.Targets[n/2:]
	case len(ev.Fields):
		a.Fields, b.Fields = ev.Fields[:n/2], ev.Fields[n/2:]
	case len(ev.Memories):
		a.Memories, b.Memories = ev.Memories[:n/2], ev.Memories[n/2:]
	case len(ev.Versions):
		a.Versions, b.Versions = ev.Versions[:n/2], ev.Versions[n/2:]
	case len(ev.Findings):
		a.Findings, b.Findings = ev.Findings[:n/2], ev.Findings[n/2:]
	default:
		a.Budget, b.Budget = ev.Budget[:n/2], ev.Budget[n/2:]
	}
	return halve(halve(out, a), b)
}
