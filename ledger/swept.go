package ledger

import (
	"context"

	"github.com/memproxy/memproxy"
)

// DeleteSwept appends a version like v to each memory within a scope that was
// swept and whose history does not end yet, and returns to how many. V says who
// deleted them and by which decision.
func (l *Ledger) DeleteSwept(ctx context.Context, backend string, scope memproxy.Scope, v memproxy.Version) (int, error) {
	if l.opt.Vault == nil {
		return 0, ErrNoVault
	}
	for _, s := range [...]string{backend, scope.User, scope.Agent, scope.App, scope.Run} {
		if err := storable(s); err != nil {
			return 0, refused("a part of the scope %v", err)
		}
	}
	if backend == "" || !scope.Owned() {
		return 0, refused("a backend and an owner are required")
	}
	n, after := 0, ""
	for {
		ids, err := look(ctx, l, "list swept memories", scanText, `SELECT o.id FROM ownership o
			WHERE o.backend = ?1 AND o.kind = 'memory' AND o.deleted > 0 AND o.id > ?2
				AND (?3 = '' OR o."user" = ?3) AND (?4 = '' OR o.agent = ?4) AND (?5 = '' OR o.app = ?5) AND (?6 = '' OR o.run = ?6)
				AND EXISTS (SELECT 1 FROM version v WHERE v.backend = o.backend AND v.kind = o.kind AND v.id = o.id)
			ORDER BY o.id LIMIT ?7`, backend, after, scope.User, scope.Agent, scope.App, scope.Run, expireStep)
		if err != nil || len(ids) == 0 {
			return n, err
		}
		after = ids[len(ids)-1]
		done := 0
		err = l.do(ctx, &job{also: func(t *transaction) error {
			done = 0
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
				done++
			}
			return nil
		}})
		if err != nil {
			return n, err
		}
		n += done
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
