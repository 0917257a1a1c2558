package gate

import (
	"context"
	"time"

	"github.com/memproxy/memproxy"
)

// standings say how new memories stand, and until when they are kept. A write of
// one that was there confirms it.
func (ret *returning) standings() []memproxy.StateChange {
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
		c := memproxy.StateChange{
			MemoryKey: memproxy.MemoryKey{Backend: ret.op.Backend, Kind: kindOf(m), ID: m.ID}, Tenant: ret.Principal.Tenant,
			State: memproxy.StateUntrusted, Decision: ret.Decision.ID, Attestation: ret.attested(ret.marksOf(m.ID)), Reason: markOf(ret.marksOf(m.ID)),
			// What was validated or quarantined before stays so until it is
			// looked at again.
			From: []memproxy.MemoryState{memproxy.StateUntrusted, memproxy.StateExpired},
			Text: textHash(m.Text),
		}
		switch {
		case ret.confirmed:
			c.State, c.Reason, c.Person = memproxy.StateValidated, "approved by a reviewer", true
		case ret.aside != "":
			c = ret.asideOf(c.MemoryKey)
			c.Findings, c.Text = ret.spansIn(m), memproxy.TextSHA256(m.Text)
		case ret.rules.Pending != nil && ret.rules.Pending(ret.Principal):
			c.State, c.Reason = memproxy.StatePending, "its author is not trusted enough to be read without a review"
		}
		if ttl := ret.lifetime(m); ttl > 0 {
			c.Expires = ret.begun.Add(ttl)
		}
		changes = append(changes, c)
	}
	return changes
}

// mark notes how memories stand.
func (ret *returning) mark(ctx context.Context, changes []memproxy.StateChange) {
	registrar, ok := ret.g.opt.Ledger.(Registrar)
	if !ok || len(changes) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ret.g.opt.RecordTimeout)
	defer cancel()
	if _, err := registrar.SetState(ctx, changes...); err != nil {
		ret.g.opt.Meter.LedgerFailed(ctx)
		ret.g.opt.Log.ErrorContext(ctx, "the state of new memories is not kept", "decision", ret.Decision.ID, "error", err)
	}
}

// field is the governed field of a new memory: as the answer has it, else as
// the write named it.
func (ret *returning) field(m *memproxy.Memory) string {
	if named := fields(ret.op); m.Field == "" && len(named) == 1 {
		return named[0]
	}
	return m.Field
}

// Lifetime says how long a memory is kept: by its field, layer and claimed
// source; zero is for ever.
type Lifetime func(field string, layer memproxy.Layer, source memproxy.Source) time.Duration

// lifetime is how long a new memory is kept. A claim of another layer can
// shorten it only.
func (ret *returning) lifetime(m *memproxy.Memory) time.Duration {
	if ret.rules.TTL == nil {
		return 0
	}
	field := ret.field(m)
	ttl := ret.rules.TTL(field, ret.layerOf(field), ret.op.SourceClaim)
	for _, claimed := range ret.op.LayerClaims {
		if d := ret.rules.TTL(field, claimed, ret.op.SourceClaim); d > 0 && (ttl == 0 || d < ttl) {
			ttl = d
		}
	}
	return ttl
}
