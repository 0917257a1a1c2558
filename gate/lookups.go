package gate

import (
	"context"
	"maps"

	"github.com/memproxy/memproxy"
)

// lookups are what the ledger said in one phase of a request: its admission, or
// its answer. Every object is asked about once, so that all steps of a phase
// judge the same. After an error the ledger is not asked again: each question
// could take as long as the one that failed.
type lookups struct {
	ledger  Ledger
	backend string
	records map[memproxy.MemoryKey]memproxy.Record
	asked   map[memproxy.MemoryKey]struct{}
	err     error
}

func newLookups(g *Gate, a *Admission) *lookups {
	return &lookups{ledger: g.opt.Ledger, backend: a.call.Backend.Name, asked: map[memproxy.MemoryKey]struct{}{}}
}

func (r *run) lookups() *lookups {
	if r.looked == nil {
		r.looked = newLookups(r.g, r.Admission)
	}
	return r.looked
}

func (ret *answer) lookups() *lookups {
	if ret.looked == nil {
		ret.looked = newLookups(ret.g, ret.Admission)
	}
	return ret.looked
}

func (l *lookups) key(kind memproxy.TargetKind, id string) memproxy.MemoryKey {
	return memproxy.MemoryKey{Backend: l.backend, Kind: kind, ID: id}
}

func (l *lookups) keys(kind memproxy.TargetKind, ids ...string) []memproxy.MemoryKey {
	keys := make([]memproxy.MemoryKey, len(ids))
	for i, id := range ids {
		keys[i] = l.key(kind, id)
	}
	return keys
}

// need asks about the objects that were not asked about. An error means that
// nothing is known of them.
func (l *lookups) need(ctx context.Context, keys ...memproxy.MemoryKey) error {
	if l.err != nil {
		return l.err
	}
	ask := make([]memproxy.MemoryKey, 0, len(keys))
	for _, k := range keys {
		if _, asked := l.asked[k]; !asked && k.ID != "" {
			l.asked[k] = struct{}{}
			ask = append(ask, k)
		}
	}
	if len(ask) == 0 {
		return nil
	}
	found, err := l.ledger.Lookup(ctx, ask...)
	if err != nil {
		l.err = err
		return err
	}
	if l.records == nil {
		l.records = found
		return nil
	}
	maps.Copy(l.records, found)
	return nil
}

// memories asks about memories as an answer shows them.
func (l *lookups) memories(ctx context.Context, memories []memproxy.Memory) error {
	keys := make([]memproxy.MemoryKey, len(memories))
	for i := range memories {
		keys[i] = l.key(kindOf(&memories[i]), memories[i].ID)
	}
	return l.need(ctx, keys...)
}

// of is the record of an object: empty where nothing is recorded, or it was not
// asked about.
func (l *lookups) of(kind memproxy.TargetKind, id string) memproxy.Record {
	if l == nil {
		return memproxy.Record{}
	}
	return l.records[l.key(kind, id)]
}

// owner is who owns an object, or nil.
func (l *lookups) owner(kind memproxy.TargetKind, id string) *memproxy.Ownership {
	if rec := l.of(kind, id); rec.Owned() {
		owner := rec.Owner // not the whole record, which would go to the heap
		return &owner
	}
	return nil
}

// rate notes a status that a step found out.
func (l *lookups) rate(st memproxy.Status) {
	rec := l.records[st.MemoryKey]
	rec.Status = st
	if l.records == nil {
		l.records = map[memproxy.MemoryKey]memproxy.Record{}
	}
	l.records[st.MemoryKey] = rec
}
