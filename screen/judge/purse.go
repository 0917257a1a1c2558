package judge

import (
	"sync"
	"time"
)

// purse holds the budget: calls of one minute of the clock, and calls at once.
// No asker has more than half of either, so that the others' texts are asked
// about while one writes all that it can.
type purse struct {
	perMinute int

	mu         sync.Mutex
	minute     int64
	spent, out int
	of         map[string]*share // by asker; of this minute, or under way
}

// share is what one asker spent this minute, and has under way.
type share struct{ spent, out int }

// take pays for a call. Nobody waits: a request that is held up for the
// judge's sake is worse than one without its opinion.
func (p *purse) take(asker string, now time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m := now.Unix() / 60; m != p.minute || p.of == nil {
		kept := map[string]*share{}
		for who, s := range p.of {
			if s.spent = 0; s.out > 0 {
				kept[who] = s
			}
		}
		p.minute, p.spent, p.of = m, 0, kept
	}
	own := p.of[asker]
	if own == nil {
		own = &share{}
	}
	if p.out >= inFlight || own.out >= half(inFlight) {
		return ErrBusy
	}
	if p.spent >= p.perMinute || own.spent >= half(p.perMinute) {
		return ErrBudget
	}
	p.of[asker] = own
	p.spent++
	p.out++
	own.spent++
	own.out++
	return nil
}

// giveBack ends a call; what it cost is spent.
func (p *purse) giveBack(asker string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.out--
	p.of[asker].out--
}

// half is one asker's share; one call is never too much.
func half(n int) int { return max(1, n/2) }
