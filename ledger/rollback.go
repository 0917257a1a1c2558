package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/memproxy/memproxy"
)

const rollbackColumns = `decision, backend, kind, id, tenant, number, reviewer, reason, preimage, begun`

func scanRollback(s scanner) (memproxy.Rollback, error) {
	var r memproxy.Rollback
	var begun int64
	err := s.Scan(&r.Decision, &r.Backend, &r.Kind, &r.ID, &r.Tenant, &r.Number, &r.Reviewer, &r.Reason, &r.Before, &begun)
	r.Begun = moment(begun)
	return r, err
}

// BeginRollback notes that a memory is about to be made what it was. It is
// durable on return: whatever ends this process, UnfinishedRollbacks tells of
// it. ErrState while another rollback of the memory is not over.
func (l *Ledger) BeginRollback(ctx context.Context, r memproxy.Rollback, lease time.Duration) error {
	if err := validKey(r.MemoryKey); err != nil {
		return err
	}
	for _, s := range [...]string{r.Tenant, r.Decision, r.Reviewer, r.Reason, r.Before} {
		if err := storable(s); err != nil {
			return refused("a part of the rollback %v", err)
		}
	}
	if r.Decision == "" || r.Number < 1 {
		return refused("a rollback has a decision and a version")
	}
	return l.change(ctx, func(t *transaction) error {
		now := t.l.opt.Clock()
		n, err := t.run(`INSERT INTO rollback (`+rollbackColumns+`, lease) VALUES (?,?,?,?,?,?,?,?,?,?,?) ON CONFLICT DO NOTHING`,
			r.Decision, r.Backend, string(r.Kind), r.ID, r.Tenant, r.Number, r.Reviewer, r.Reason, r.Before, micros(now), micros(now.Add(lease)))
		if err == nil && n == 0 {
			err = fmt.Errorf("%w: another rollback of the memory is not over", ErrState)
		}
		return err
	})
}

// UnfinishedRollbacks claims the rollbacks whose lease is over, for another
// lease, and returns them, the oldest first.
func (l *Ledger) UnfinishedRollbacks(ctx context.Context, lease time.Duration) ([]memproxy.Rollback, error) {
	now := l.opt.Clock()
	waiting, err := glance(ctx, l, "list rollbacks", scanText, `SELECT decision FROM rollback WHERE lease <= ? ORDER BY begun LIMIT 100`, micros(now))
	if err != nil || len(waiting) == 0 {
		return nil, err
	}
	return changed(ctx, l, func(t *transaction) (out []memproxy.Rollback, err error) {
		for _, decision := range waiting {
			mine, err := rows(t, scanRollback, `UPDATE rollback SET lease = ? WHERE decision = ? AND lease <= ? RETURNING `+rollbackColumns,
				micros(now.Add(lease)), decision, micros(now))
			if err != nil {
				return nil, err
			}
			out = append(out, mine...)
		}
		return out, nil
	})
}

// EndRollback keeps the version that a rollback made, if it made one, and
// forgets the rollback, both or neither. What was ended before stays as it is:
// then the version that is there comes back.
func (l *Ledger) EndRollback(ctx context.Context, decision string, made *memproxy.Version) (memproxy.Version, error) {
	if l.opt.Vault == nil {
		return memproxy.Version{}, ErrNoVault
	}
	if made != nil {
		if err := validVersion(made); err != nil {
			return memproxy.Version{}, err
		}
	}
	return changed(ctx, l, func(t *transaction) (memproxy.Version, error) {
		if _, err := t.run(`DELETE FROM rollback WHERE decision = ?`, decision); err != nil || made == nil {
			return memproxy.Version{}, err
		}
		return t.append(*made)
	})
}
