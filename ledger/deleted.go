package ledger

import (
	"context"

	"github.com/memproxy/memproxy"
)

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
