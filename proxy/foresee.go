package proxy

import (
	"context"

	"github.com/memproxy/memproxy/gate"
)

// foresee has the calls of a pause ruled on that a person is about to be asked
// about: nobody is asked for what would be refused. What of the pause is the
// caller's is then passed on. It reports whether nothing is left that memproxy
// could answer, so that the turn is over unless it has not begun.
func (t *turning) foresee(ctx context.Context) (over bool, err error) {
	calls := t.turn.Asked()
	if len(calls) == 0 {
		return false, nil
	}
	var refused []*gate.Foreseen
	for _, call := range calls {
		if f := t.p.opt.Gate.Agents().Foresee(ctx, t.a, call); f != nil {
			t.turn.Rule(call.ID, f.Decision)
			refused = append(refused, f)
		}
	}
	for more := true; more; {
		var events [][]byte
		if events, more, err = t.turn.Handed(); err != nil {
			return false, err
		}
		t.pass(ctx, events)
	}
	if !t.turn.Paused() {
		if t.status != 0 {
			err = t.end(ctx)
		}
		return true, err // a refused call comes back with the caller's answer to the others
	}
	for _, f := range refused {
		t.p.opt.Gate.Agents().Refused(ctx, f)
	}
	return false, nil
}

// end gives the caller what is left to say once no request is to follow.
func (t *turning) end(ctx context.Context) error {
	if t.streams {
		t.ending = true
		t.pass(ctx, t.turn.Tail())
		return nil
	}
	answer, err := t.turn.Answer()
	if err != nil {
		return err
	}
	t.begun = true
	t.piece(ctx, answer, t.body)
	return nil
}
