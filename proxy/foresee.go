package proxy

import (
	"context"

	"github.com/memproxy/memproxy/gate"
)

// foresee lets the gate rule in advance on the calls of a pause that a person is about
// to approve, so that nobody is asked to approve a call that would be refused. The rest
// of the pause is then passed on to the caller. It reports whether memproxy has no more
// calls to answer, which ends a turn that has begun.
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

// end sends the rest of the answer when no further request follows.
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
