package ledger

import (
	"context"
	"fmt"

	"github.com/memproxy/memproxy"
)

const refMemory = "memory/"

// Promote adds a reviewer's yes to a memory that waits for review, or is
// untrusted, flagged or quarantined. It is validated and attested by humans once Need
// distinct reviewers, its author not among them, said it. ErrState for a
// memory in another state, ErrOwnReview for the author.
func (l *Ledger) Promote(ctx context.Context, k memproxy.MemoryKey, r memproxy.Review) (memproxy.Tallied, error) {
	if err := validKey(k); err != nil {
		return memproxy.Tallied{}, err
	}
	if err := checkReview(r); err != nil {
		return memproxy.Tallied{}, err
	}
	return changed(ctx, l, func(t *transaction) (tally memproxy.Tallied, err error) {
		st, _, err := t.status(k)
		if err != nil {
			return tally, err
		}
		switch st.State {
		case memproxy.StatePending, memproxy.StateUntrusted, memproxy.StateFlagged, memproxy.StateQuarantined:
		default:
			return tally, fmt.Errorf("%w: the memory is %s", ErrState, st.State)
		}
		var author string
		_, err = t.one(`SELECT actor FROM ownership WHERE backend = ? AND kind = ? AND id = ?`, []any{k.Backend, string(k.Kind), k.ID}, &author)
		if err != nil {
			return tally, err
		}
		subject := ref(refMemory, k.Backend, string(k.Kind), k.ID)
		if tally, err = t.vote(subject, author, r); err != nil || !tally.Settled {
			return tally, err
		}
		if _, err := t.run(`DELETE FROM vote WHERE subject = ?`, subject); err != nil {
			return tally, err
		}
		_, err = t.setState(&memproxy.StateChange{
			MemoryKey: k, State: memproxy.StateValidated, Reason: "promoted by " + clean(r.Reviewer), Decision: st.Decision,
			Rules: st.Rules, Attestation: memproxy.HumanConfirmed, Person: true,
		})
		return tally, err
	})
}
