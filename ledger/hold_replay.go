package ledger

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/memproxy/memproxy"
)

// ClaimHold gives one caller an approved hold to send upstream. Exactly one
// caller gets it. From now on the write may have been sent: whatever becomes
// of the caller, the hold is never given out again by itself. It ends with
// FinishHold, FailHold, or ReleaseHold where it is certain that nothing left;
// a claim whose lease is over without any of them is Stranded, and ResolveHold
// ends it once somebody asked the backend. ErrState when the hold is not
// approved.
func (l *Ledger) ClaimHold(ctx context.Context, id string, lease time.Duration) (memproxy.Replay, error) {
	if lease <= 0 {
		return memproxy.Replay{}, refused("a claim needs a lease")
	}
	h, c, err := l.HoldContent(ctx, id) // before the claim: a content that does not open strands nothing
	if err != nil {
		return memproxy.Replay{}, err
	}
	random, err := l.opt.Vault.bytes(16)
	if err != nil {
		return memproxy.Replay{}, err
	}
	token := hex.EncodeToString(random)
	h.Lease = moment(micros(l.opt.Clock().Add(lease)))
	err = l.change(ctx, func(t *transaction) error {
		n, err := t.run(`UPDATE hold SET state = 'replaying', token = ?, lease = ? WHERE id = ? AND state = 'approved'`,
			token, micros(h.Lease), id)
		if err == nil && n == 0 {
			err = t.notIn(id, memproxy.HoldApproved)
		}
		return err
	})
	if err != nil {
		return memproxy.Replay{}, err
	}
	h.State = memproxy.HoldReplaying
	return memproxy.Replay{Hold: h, Content: c, Token: token}, nil
}

// notIn says why a hold could not be moved on from a state.
func (t *transaction) notIn(id string, want memproxy.HoldState) error {
	h, err := t.getHold(id)
	if err != nil {
		return err
	}
	return fmt.Errorf("%w: hold %s is %s, or %s to somebody else", ErrState, id, h.State, want)
}

// FinishHold records that the backend took the write. It is accepted once, of
// who holds the claim; once more with the same token is no error.
func (l *Ledger) FinishHold(ctx context.Context, id, token string, r memproxy.HoldResult) error {
	return l.endClaim(ctx, id, token, memproxy.HoldDone, r)
}

// FailHold records that the backend refused the write for good.
func (l *Ledger) FailHold(ctx context.Context, id, token string, r memproxy.HoldResult) error {
	return l.endClaim(ctx, id, token, memproxy.HoldFailed, r)
}

// ReleaseHold gives a claim back. Only where it is certain that nothing was
// sent: the hold may be claimed again.
func (l *Ledger) ReleaseHold(ctx context.Context, id, token string) error {
	return l.endClaim(ctx, id, token, memproxy.HoldApproved, memproxy.HoldResult{})
}

func (l *Ledger) endClaim(ctx context.Context, id, token string, to memproxy.HoldState, r memproxy.HoldResult) error {
	if token == "" {
		return refused("a claim has a token")
	}
	return l.change(ctx, func(t *transaction) error {
		n, err := t.run(`UPDATE hold SET state = ?, lease = 0, result = ? WHERE id = ? AND state = 'replaying' AND token = ?`,
			string(to), asJSON(trimmed(r)), id, token)
		if err != nil {
			return err
		}
		if n == 1 {
			return t.written(id, to)
		}
		again, err := t.one(`SELECT 1 FROM hold WHERE id = ? AND state = ? AND token = ?`, []any{id, string(to), token}, new(int))
		if err != nil || again {
			return err
		}
		return t.notIn(id, memproxy.HoldReplaying)
	})
}

// written closes what a hold contested, once it has become what it wanted.
func (t *transaction) written(id string, to memproxy.HoldState) error {
	if to != memproxy.HoldDone {
		return nil
	}
	return t.settleDissents(id)
}

// trimmed bounds a result; a backend names what it likes.
func trimmed(r memproxy.HoldResult) memproxy.HoldResult {
	if len(r.Memories) > 1000 {
		r.Memories = r.Memories[:1000]
	}
	if len(r.Detail) > maxNote {
		r.Detail = r.Detail[:maxNote]
	}
	return r
}

// Stranded returns claims whose lease is over: the process that had them is
// gone, and nobody knows whether the write was sent.
func (l *Ledger) Stranded(ctx context.Context) ([]memproxy.HeldWrite, error) {
	return glance(ctx, l, "list stranded holds", scanHold, `SELECT `+holdColumns+` FROM hold
		WHERE state = 'replaying' AND lease < ? ORDER BY created, id LIMIT ?`, micros(l.opt.Clock()), maxBatch)
}

// ResolveHold ends a stranded claim, once somebody asked the backend: done
// when it has the write, approved when it certainly has not, failed when it is
// to be given up.
func (l *Ledger) ResolveHold(ctx context.Context, id string, to memproxy.HoldState, r memproxy.HoldResult) error {
	if to != memproxy.HoldDone && to != memproxy.HoldApproved && to != memproxy.HoldFailed {
		return refused("a stranded hold does not become %q", to)
	}
	return l.change(ctx, func(t *transaction) error {
		n, err := t.run(`UPDATE hold SET state = ?, lease = 0, token = '', result = ? WHERE id = ? AND state = 'replaying' AND lease < ?`,
			string(to), asJSON(trimmed(r)), id, micros(l.opt.Clock()))
		if err == nil && n == 0 {
			err = t.notIn(id, memproxy.HoldReplaying)
		}
		if err != nil {
			return err
		}
		return t.written(id, to)
	})
}

// ShredHold destroys the content of a hold, for good. One that waits or is
// approved becomes rejected; one that is being sent is ErrState.
func (l *Ledger) ShredHold(ctx context.Context, id string, r memproxy.Review) error {
	if err := checkReview(r); err != nil {
		return err
	}
	return l.do(ctx, &job{durable: true, erase: true, also: func(t *transaction) error {
		h, err := t.lockHold(id)
		if err != nil {
			return err
		}
		switch h.State {
		case memproxy.HoldReplaying:
			return fmt.Errorf("%w: hold %s is %s", ErrState, id, h.State)
		case memproxy.HoldPending, memproxy.HoldApproved:
			if err := t.settleHold(id, memproxy.HoldRejected, r); err != nil {
				return err
			}
		}
		_, err = t.shred(ref(refHold, id))
		return err
	}})
}

// PruneHolds removes the holds that were settled before a time, with their
// contents, and returns how many, also along with an error.
func (l *Ledger) PruneHolds(ctx context.Context, before time.Time) (int, error) {
	if before.IsZero() {
		return 0, refused("prune holds: no time given")
	}
	return inSteps(ctx, l, job{erase: true, durable: true}, pruneStep, func(t *transaction) (int, error) {
		ids, err := rows(t, scanText, `DELETE FROM hold WHERE id IN
			(SELECT id FROM hold WHERE state IN ('rejected', 'done', 'failed', 'rewritten') AND created < ?1 AND reviewed < ?1 LIMIT ?2)
			RETURNING id`, micros(before), pruneStep)
		for _, id := range ids {
			_, body := t.run(`DELETE FROM content WHERE ref = ?`, ref(refHold, id))
			_, votes := t.run(`DELETE FROM vote WHERE subject = ?`, ref(refHold, id))
			err = errors.Join(err, body, votes)
		}
		return len(ids), err
	})
}
