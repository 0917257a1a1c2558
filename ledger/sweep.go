package ledger

import (
	"context"

	"github.com/memproxy/memproxy"
)

// DeleteScope leaves tombstones for the memories of a backend within a scope, of
// whatever tenant, and returns whose they were, by author, also along with an
// error. An empty field of the scope matches everything; a scope without any owner
// is refused with ErrRow, because it would match every memory there is.
//
// Histories that are in the scope and do not end yet get a version like v, which
// says who deleted them and by which decision; none where it has no operation.
func (l *Ledger) DeleteScope(ctx context.Context, backend string, scope memproxy.Scope, v memproxy.Version) ([]memproxy.Tally, error) {
	args := []any{max(1, micros(l.opt.Clock())), backend, scope.User, scope.Agent, scope.App, scope.Run}
	for _, arg := range args[1:] {
		if err := storable(arg.(string)); err != nil {
			return nil, refused("a part of the scope %v", err)
		}
	}
	if backend == "" || !scope.Owned() {
		return nil, refused("a backend and an owner are required")
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
	if v.Op == "" {
		return tallies, nil
	}
	return tallies, endHistories(ctx, l, backend, scope, v)
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

// endHistories appends a version like v to each memory within a scope that is
// deleted and whose history does not end yet.
func endHistories(ctx context.Context, l *Ledger, backend string, scope memproxy.Scope, v memproxy.Version) error {
	if l.opt.Vault == nil {
		return ErrNoVault
	}
	after := ""
	for {
		ids, err := look(ctx, l, "list swept memories", scanText, `SELECT o.id FROM ownership o
			WHERE o.backend = ?1 AND o.kind = 'memory' AND o.deleted > 0 AND o.id > ?2
				AND (?3 = '' OR o."user" = ?3) AND (?4 = '' OR o.agent = ?4) AND (?5 = '' OR o.app = ?5) AND (?6 = '' OR o.run = ?6)
				AND EXISTS (SELECT 1 FROM version v WHERE v.backend = o.backend AND v.kind = o.kind AND v.id = o.id)
			ORDER BY o.id LIMIT ?7`, backend, after, scope.User, scope.Agent, scope.App, scope.Run, expireStep)
		if err != nil || len(ids) == 0 {
			return err
		}
		after = ids[len(ids)-1]
		err = l.do(ctx, &job{also: func(t *transaction) error {
			for _, id := range ids {
				k := memproxy.MemoryKey{Backend: backend, Kind: memproxy.TargetMemory, ID: id}
				last, known, err := t.lastVersion(k)
				if err != nil {
					return err
				}
				if !known || last.Op == memproxy.OpDelete || last.Op == memproxy.OpPurge {
					continue
				}
				gone := v
				gone.MemoryKey, gone.Tenant, gone.Field, gone.Op = k, last.Tenant, last.Field, memproxy.OpDelete
				gone.Before, gone.SHA256, gone.Text, gone.Metadata = last.SHA256, "", "", nil
				if _, err := t.append(gone); err != nil {
					return err
				}
			}
			return nil
		}})
		if err != nil {
			return err
		}
	}
}

// deletedSince reports whether somebody deleted a memory through the proxy after
// a version of it: its text is nobody's to read from then on, and is shredded
// later. That a memory is gone from the backend without anybody's doing is no
// deletion.
func (l *Ledger) deletedSince(ctx context.Context, k memproxy.MemoryKey, number int64) (bool, error) {
	key := []any{k.Backend, string(k.Kind), k.ID}
	found, err := look(ctx, l, "look up a deletion", func(s scanner) (n int, err error) { return n, s.Scan(&n) },
		`SELECT 1 FROM version WHERE backend = ?1 AND kind = ?2 AND id = ?3 AND number > ?4 AND op IN ('delete', 'purge') AND actor <> ''
		UNION ALL SELECT 1 FROM ownership WHERE backend = ?1 AND kind = CASE ?2 WHEN 'object' THEN 'memory' ELSE ?2 END AND id = ?3 AND deleted > 0 LIMIT 1`, append(key, number)...)
	return len(found) > 0, err
}
