package judge

import (
	"sync"
	"time"
)

// purse holds the budget: calls of one minute of the clock, and calls at once.
type purse struct {
	perMinute, inFlight int

	mu     sync.Mutex
	minute int64
	spent  int
	out    int
}

// take pays for a call. Nobody waits: a request that is held up for the
// judge's sake is worse than one without its opinion.
func (p *purse) take(now time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m := now.Unix() / 60; m != p.minute {
		p.minute, p.spent = m, 0
	}
	if p.out >= p.inFlight {
		return ErrBusy
	}
	if p.spent >= p.perMinute {
		return ErrBudget
	}
	p.spent++
	p.out++
	return nil
}

// giveBack ends a call; what it cost is spent.
func (p *purse) giveBack() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.out--
}
