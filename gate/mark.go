package gate

import (
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate/content"
)

// newStates are the states that a write's memories get, and until when they are
// kept. A write of one that was there confirms it.
func (ret *effects) newStates() []memproxy.StateChange {
	if ret.enforced() && ret.op.Kind == memproxy.Correct {
		return ret.restated()
	}
	if !ret.enforced() || ret.reading == nil || ret.op.Kind != memproxy.Learn {
		return nil
	}
	var changes []memproxy.StateChange
	for i := range ret.reading.Memories {
		m := &ret.reading.Memories[i]
		if m.ID == "" || m.Drop || m.Event == eventNone || m.Event == eventDelete || m.Layer == memproxy.Episodic {
			continue
		}
		c, ordinary := foreseen(ret.Admission, memproxy.MemoryKey{Backend: ret.op.Backend, Kind: kindOf(m), ID: m.ID})
		if ordinary {
			c.State, c.Reason = memproxy.StateUntrusted, markOf(ret.marksOf(m.ID))
		}
		if ret.aside != "" && !ret.confirmed {
			c.Findings, c.Text = spansIn(ret.Admission, m), memproxy.TextSHA256(m.Text)
		} else {
			c.Attestation, c.Text = ret.attested(ret.marksOf(m.ID)), textHash(m.Text)
		}
		if ttl := lifetime(ret.Admission, m); ttl > 0 {
			c.Expires = ret.begun.Add(ttl)
		}
		changes = append(changes, c)
	}
	return append(changes, ret.overtaken(len(changes))...)
}

// overtaken ends what was foreseen of a write's memories: how they stand is noted.
// It is kept while the backend may make more of them.
func (ret *effects) overtaken(memories int) []memproxy.StateChange {
	if memories == 0 || len(ret.reading.Events) > 0 || len(ret.receipts) > 1 || ret.aside != "" || !ret.traceable() {
		return nil
	}
	c, ordinary := foreseen(ret.Admission, memproxy.MemoryKey{Backend: ret.op.Backend, Kind: memproxy.TargetDecision, ID: ret.Decision.ID})
	if ordinary {
		return nil
	}
	c.State, c.Reason, c.From, c.Attestation = memproxy.StateUntrusted, "its memories are known", nil, ""
	c.Text = memproxy.AnyText
	return []memproxy.StateChange{c}
}

// Waits says whether what a principal writes waits for review: by its tier and
// record, and by the claimed source of the content.
type Waits func(memproxy.Principal, memproxy.Source, memproxy.Track, time.Time) bool

// waits reports whether what the caller writes waits for review.
func (a *Admission) waits() bool {
	return a.rules.Pending != nil && a.rules.Pending(a.Principal, a.op.SourceClaim, a.track, a.begun)
}

// fieldOf is the governed field of a new memory: as the answer has it, else as
// the write named it.
func fieldOf(op *memproxy.Operation, m *memproxy.Memory) string {
	if named := content.Fields(op); m.Field == "" && len(named) == 1 {
		return named[0]
	}
	return m.Field
}

// Lifetime says how long a memory is kept: by its field, layer and claimed
// source; zero is for ever.
type Lifetime func(field string, layer memproxy.Layer, source memproxy.Source) time.Duration

// lifetime is how long a new memory is kept. A claim of another layer can
// shorten it only.
func lifetime(a *Admission, m *memproxy.Memory) time.Duration {
	if a.rules.TTL == nil {
		return 0
	}
	field := fieldOf(a.op, m)
	ttl := a.rules.TTL(field, layerOf(a, field), a.op.SourceClaim)
	for _, claimed := range a.op.LayerClaims {
		if d := a.rules.TTL(field, claimed, a.op.SourceClaim); d > 0 && (ttl == 0 || d < ttl) {
			ttl = d
		}
	}
	return ttl
}

// ending is until when a memory is kept that came to be after its write was
// answered, as far as nobody noted that: by what its stamp says.
func ending(ret *answer, m *memproxy.Memory, s *memproxy.Stamp) []memproxy.StateChange {
	if ret.rules.TTL == nil {
		return nil
	}
	ttl := ret.rules.TTL(m.Field, ret.rules.Governance.LayerOf(&memproxy.Item{Kind: memproxy.ItemContent, Field: m.Field}), s.Source)
	if ttl <= 0 {
		return nil
	}
	return []memproxy.StateChange{{
		MemoryKey: memproxy.MemoryKey{Backend: ret.op.Backend, Kind: memproxy.TargetMemory, ID: m.ID}, Tenant: s.Tenant,
		State: memproxy.StateUntrusted, From: []memproxy.MemoryState{memproxy.StateUntrusted}, Decision: s.ID, Attestation: s.Attestation,
		Text: textHash(m.Text), Expires: s.Time.Add(ttl),
	}}
}
