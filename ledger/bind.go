package ledger

import (
	"context"
	"strings"

	"github.com/memproxy/memproxy"
)

// disputeTables gives names that rows carry to the tenant of the oldest, where
// they have no row. A name under which something is there that is another tenant's
// than the name is nobody's: what a backend makes of all that it holds under it
// would show the one what is the other's.
const disputeTables = `
CREATE TABLE carried (
	backend TEXT    NOT NULL,
	name    TEXT    NOT NULL,
	tenant  TEXT    NOT NULL,
	written INTEGER NOT NULL,
	gone    INTEGER NOT NULL, -- 0 where something is there
	PRIMARY KEY (backend, name, tenant)
) WITHOUT ROWID;
INSERT INTO carried SELECT backend, 'user:' || "user", tenant, min(written), min(deleted) FROM ownership WHERE "user" <> '' GROUP BY backend, "user", tenant;
INSERT INTO carried SELECT backend, 'agent:' || agent, tenant, min(written), min(deleted) FROM ownership WHERE agent <> '' GROUP BY backend, agent, tenant;
INSERT INTO carried SELECT backend, 'app:' || app, tenant, min(written), min(deleted) FROM ownership WHERE app <> '' GROUP BY backend, app, tenant;
INSERT INTO carried SELECT backend, 'run:' || run, tenant, min(written), min(deleted) FROM ownership WHERE run <> '' GROUP BY backend, run, tenant;
INSERT INTO ownership (backend, kind, id, tenant, "user", agent, app, run, actor, trust, confidence, source, decision, sha256, written, deleted)
SELECT backend, 'entity', name, tenant, '', '', '', '', '', '', 0, '', '', '', written, 0 FROM carried AS c
WHERE NOT EXISTS (SELECT 1 FROM carried AS o WHERE o.backend = c.backend AND o.name = c.name AND (o.written < c.written OR o.written = c.written AND o.tenant < c.tenant))
ON CONFLICT DO NOTHING;
UPDATE ownership SET tenant = '` + memproxy.TenantNobody + `', actor = '' WHERE kind = 'entity' AND EXISTS
	(SELECT 1 FROM carried AS c WHERE c.backend = ownership.backend AND c.name = ownership.id AND c.gone = 0 AND c.tenant <> ownership.tenant);
DROP TABLE carried;
`

// Bind inserts rows of which there is none by (Backend, Kind, ID), and returns
// for each the one that then stands, tombstones too. They are in the file when
// it returns. Of proxies and callers that bind one id at once, one is the first,
// and all are told the same.
func (l *Ledger) Bind(ctx context.Context, bound ...memproxy.Ownership) ([]memproxy.Ownership, error) {
	return bindRows(ctx, l, bound, func(*transaction, *memproxy.Ownership) (bool, error) { return false, nil })
}

// Assign is Bind for owners' names that an operator lists: a name that another
// tenant has, or nobody, comes to be the row's tenant's, unless there are memories
// under it that are another tenant's. What was deleted is not there.
func (l *Ledger) Assign(ctx context.Context, listed ...memproxy.Ownership) ([]memproxy.Ownership, error) {
	return bindRows(ctx, l, listed, func(t *transaction, row *memproxy.Ownership) (bool, error) {
		dim, name, _ := strings.Cut(row.ID, ":")
		var n int64
		carried, err := t.one(`SELECT 1 FROM ownership WHERE backend = ?1 AND kind = 'memory' AND deleted = 0 AND tenant <> ?2
			AND CASE ?3 WHEN 'user' THEN "user" WHEN 'agent' THEN agent WHEN 'app' THEN app WHEN 'run' THEN run ELSE ?4 END = ?4 LIMIT 1`,
			[]any{row.Backend, row.Scope.Tenant, dim, name}, &n)
		return err == nil && !carried, err
	})
}

// bindRows inserts rows. One of which there is another tenant's takes its place
// where free says so.
func bindRows(ctx context.Context, l *Ledger, bound []memproxy.Ownership, free func(*transaction, *memproxy.Ownership) (bool, error)) ([]memproxy.Ownership, error) {
	own, err := take(bound)
	if err != nil || len(own) == 0 {
		return nil, err
	}
	var standing []memproxy.Ownership
	err = l.change(ctx, func(t *transaction) error {
		standing = make([]memproxy.Ownership, 0, len(own)) // it may be run twice
		for i := range own {
			row := &own[i]
			args := arguments(row, t.l.opt.Clock())
			n, err := t.exec(t.l.insert, args...)
			if err != nil {
				return err
			}
			if n == 0 {
				there, err := rows(t, scan, `SELECT `+columns+` FROM ownership WHERE backend = ? AND kind = ? AND id = ?`, row.Backend, string(row.Kind), row.ID)
				if err != nil {
					return err
				}
				taken := false
				if len(there) == 1 && there[0].Scope.Tenant != row.Scope.Tenant {
					if taken, err = free(t, row); err != nil {
						return err
					}
				}
				if !taken {
					standing = append(standing, there...)
					continue
				}
				if _, err := t.exec(t.l.update, args...); err != nil {
					return err
				}
			}
			t.changes.own(*row)
			standing = append(standing, *row)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return standing, nil
}
