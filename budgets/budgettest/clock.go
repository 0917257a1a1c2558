package budgettest

import (
	"sync"
	"time"
)

// Clock is a test clock that moves only when Advance is called.
type Clock struct {
	mu    sync.Mutex
	now   time.Time
	moved []func(time.Duration)
}

// noon is when a Clock starts: half past an hour, so that a few minutes forth or back
// stay in the same clock hour.
var noon = time.Date(2031, 3, 14, 12, 30, 20, 0, time.UTC)

// NewClock returns a stopped clock.
func NewClock() *Clock { return &Clock{now: noon} }

// Now is the current time of the clock.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance moves the clock and calls the functions registered with OnAdvance.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	c.now = c.now.Add(d)
	moved := c.moved
	c.mu.Unlock()
	for _, f := range moved {
		f(d)
	}
}

// OnAdvance calls f on every move, for stores whose server has its own clock.
func (c *Clock) OnAdvance(f func(time.Duration)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.moved = append(c.moved, f)
}
