package ledger

import (
	"context"

	"github.com/memproxy/memproxy"
)

func lookedUp[V any](ctx context.Context, l *Ledger, backend string, kind memproxy.TargetKind, ids []string, part func(*memproxy.Record) (V, bool)) (map[string]V, error) {
	keys := make([]memproxy.MemoryKey, len(ids))
	for i, id := range ids {
		keys[i] = memproxy.MemoryKey{Backend: backend, Kind: kind, ID: id}
	}
	all, err := l.Lookup(ctx, keys...)
	if err != nil {
		return nil, err
	}
	out := make(map[string]V, len(all))
	for k, rec := range all {
		if v, ok := part(&rec); ok {
			out[k.ID] = v
		}
	}
	return out, nil
}

// Owners goes with its callers.
func (l *Ledger) Owners(ctx context.Context, backend string, kind memproxy.TargetKind, ids []string) (map[string]memproxy.Ownership, error) {
	return lookedUp(ctx, l, backend, kind, ids, func(r *memproxy.Record) (memproxy.Ownership, bool) { return r.Owner, r.Owned() })
}

// Standings goes with its callers.
func (l *Ledger) Standings(ctx context.Context, backend string, kind memproxy.TargetKind, ids []string) (map[string]memproxy.Status, error) {
	return lookedUp(ctx, l, backend, kind, ids, func(r *memproxy.Record) (memproxy.Status, bool) { return r.Status, r.Rated() })
}

// Found goes with its callers.
func (l *Ledger) Found(ctx context.Context, backend string, kind memproxy.TargetKind, ids []string) (map[string]string, error) {
	return lookedUp(ctx, l, backend, kind, ids, func(r *memproxy.Record) (string, bool) { return r.FirstSeen, r.Listing == memproxy.Listed })
}
