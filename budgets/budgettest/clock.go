package budgettest

import (
	"sync"
	"time"
)

// Clock is the time of a test. It moves only when Advance is called.
type Clock struct {
	mu    sync.Mutex
	now   time.Time
	moved []func(time.Duration)
}

// Noon is when a Clock starts: half past an hour, so that a test can go back
// and forth a few minutes without leaving it.
var noon = time.Date(2031, 3, 14, 12, 30, 20, 0, time.UTC)

// NewClock returns a clock that stands.
func NewClock() *Clock { return &Clock{now: noon} }

// Now is the time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance moves the time and tells whoever asked with OnAdvance.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	c.now = c.now.Add(d)
	moved := c.moved
	c.mu.Unlock()
	for _, f := range moved {
		f(d)
	}
}

// OnAdvance has f called on every move, for stores whose server keeps a time
// of its own.
func (c *Clock) OnAdvance(f func(time.Duration)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.moved = append(c.moved, f)
}
