package app

import (
	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/ledger"
)

// chronicled records the changes of memories' histories: every version, with its
// predecessor, and every text that was dropped or destroyed. The changes of one
// decision are one event.
func (s *state) chronicled(steps []ledger.Step) {
	for len(steps) > 0 {
		n := 1
		for n < len(steps) && together(&steps[0], &steps[n]) {
			n++
		}
		ev := stepEvent(steps[:n])
		ev.Time = s.clock()
		if err := s.audit.Note(ev); err != nil {
			s.log.Error("audit note lost", "type", string(ev.Type), "decision", ev.Decision, "error", err)
		}
		steps = steps[n:]
	}
}

func together(a, b *ledger.Step) bool {
	return stepType(a.Op) == stepType(b.Op) && a.Decision == b.Decision && a.Actor == b.Actor && a.Tenant == b.Tenant && a.Backend == b.Backend
}

func stepType(op memproxy.VersionOp) memproxy.EventType {
	switch op {
	case memproxy.OpCompact:
		return memproxy.EventCompaction
	case memproxy.OpPurge:
		return memproxy.EventPurge
	}
	return memproxy.EventVersion
}

func stepEvent(steps []ledger.Step) memproxy.Event {
	first := &steps[0]
	ev := memproxy.Event{
		Type: stepType(first.Op), Decision: first.Decision, Backend: first.Backend, Claimed: -1, Confidence: -1,
		Principal: memproxy.Principal{ID: first.Actor, Tenant: first.Tenant, Trust: first.Trust},
	}
	if first.Actor == memproxy.SystemActor {
		ev.Principal.Kind, ev.Principal.Trust = memproxy.KindService, memproxy.TrustSystem
	}
	for i := range steps {
		ev.Versions = append(ev.Versions, steps[i].VersionChange)
	}
	return ev
}
