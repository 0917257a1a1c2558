package ledger

import (
	"context"
	"fmt"

	"github.com/memproxy/memproxy"
)

// Sweep leaves tombstones for the memories of a backend within a scope, of
// whatever tenant, and returns whose they were, by author. An empty field of
// the scope matches everything; a scope without any owner is refused with
// ErrRow, because it would match every memory there is.
func (l *Ledger) Sweep(ctx context.Context, backend string, scope memproxy.Scope) ([]memproxy.Tally, error) {
	args := []any{max(1, micros(l.opt.Clock())), backend, scope.User, scope.Agent, scope.App, scope.Run}
	for _, arg := range args[1:] {
		if err := storable(arg.(string)); err != nil {
			return nil, fmt.Errorf("%w: a part of the scope %v", ErrRow, err)
		}
	}
	if backend == "" || !scope.Owned() {
		return nil, fmt.Errorf("%w: a backend and an owner are required", ErrRow)
	}
	var tallies []memproxy.Tally
	err := l.do(ctx, &job{also: func(t *transaction) error {
		gone, by, err := t.sweep(args)
		t.changes.reread(gone...)
		tallies = by
		return err
	}})
	if err != nil {
		return nil, err
	}
	return tallies, nil
}

func (t *transaction) sweep(args []any) (gone []key, by []memproxy.Tally, err error) {
	rows, err := t.tx.StmtContext(t.ctx, t.l.sweepRows).QueryContext(t.ctx, args...)
	if err != nil {
		return nil, nil, err
	}
	defer rows.Close()
	at := map[memproxy.Tally]int{}
	for rows.Next() {
		k := key{Kind: memproxy.TargetMemory}
		var who memproxy.Tally
		if err := rows.Scan(&k.Backend, &k.ID, &who.Tenant, &who.Actor, &who.Trust, &who.User); err != nil {
			return nil, nil, err
		}
		gone = append(gone, k)
		if who.Actor == "" {
			continue
		}
		i, seen := at[who]
		if !seen {
			i = len(by)
			at[who] = i
			by = append(by, who)
		}
		by[i].Memories++
	}
	return gone, by, rows.Err()
}

// Inventory returns a page of the memories, or whatever of a kind, that a
// backend should have, in the order of their ids: those after one id, at most
// limit, without tombstones. What the backend lacks of them was deleted behind
// the proxy.
func (l *Ledger) Inventory(ctx context.Context, backend string, kind memproxy.TargetKind, after string, limit int) ([]memproxy.Ownership, error) {
	if storable(backend) != nil || storable(string(kind)) != nil || storable(after) != nil {
		return nil, ctx.Err()
	}
	if limit <= 0 || limit > chunk {
		limit = chunk
	}
	return look(ctx, l, "list memories", scan, `SELECT `+columns+` FROM ownership
		WHERE backend = ? AND kind = ? AND id > ? AND deleted = 0 ORDER BY id LIMIT ?`, backend, string(kind), after, limit)
}
