package remote

import (
	"sync"
	"time"
)

// breaker counts failures in a row. After limit of them nothing is let through
// for the cooldown, then one call, which decides how it goes on.
type breaker struct {
	limit    int
	cooldown time.Duration

	mu       sync.Mutex
	failures int
	until    time.Time
	probing  bool
}

func (b *breaker) allow(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failures < b.limit {
		return true
	}
	if now.Before(b.until) || b.probing {
		return false
	}
	b.probing = true
	return true
}

// note records how a call ended.
func (b *breaker) note(ok bool, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.probing = false
	if ok {
		b.failures = 0
		return
	}
	if b.failures++; b.failures >= b.limit {
		b.until = now.Add(b.cooldown)
	}
}

// forget records that a call ended without saying anything of the endpoint.
func (b *breaker) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.probing = false
}
