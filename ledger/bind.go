package ledger

import (
	"context"

	"github.com/memproxy/memproxy"
)

// Bind inserts rows of which there is none by (Backend, Kind, ID), and returns
// for each the one that then stands, tombstones too. They are in the file when
// it returns. Of proxies and callers that bind one id at once, one is the first,
// and all are told the same.
func (l *Ledger) Bind(ctx context.Context, bound ...memproxy.Ownership) ([]memproxy.Ownership, error) {
	own, err := take(bound)
	if err != nil || len(own) == 0 {
		return nil, err
	}
	var standing []memproxy.Ownership
	err = l.change(ctx, func(t *transaction) error {
		standing = make([]memproxy.Ownership, 0, len(own)) // it may be run twice
		for i := range own {
			row := &own[i]
			n, err := t.exec(t.l.insert, arguments(row, t.l.opt.Clock())...)
			if err != nil {
				return err
			}
			if n > 0 {
				t.put = append(t.put, *row)
				standing = append(standing, *row)
				continue
			}
			there, err := rows(t, scan, `SELECT `+columns+` FROM ownership WHERE backend = ? AND kind = ? AND id = ?`, row.Backend, string(row.Kind), row.ID)
			if err != nil {
				return err
			}
			standing = append(standing, there...)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return standing, nil
}
