package ledger

import (
	"context"
	"strings"

	"github.com/memproxy/memproxy"
)

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
