package remote

import (
	"sync"
	"time"
)

const (
	maxFailures = 5 // in a row, until the endpoint is left alone
	cooldown    = 30 * time.Second
)

// breaker counts failures in a row. After maxFailures no call is made for the
// cooldown, then one, which decides how it goes on.
type breaker struct {
	mu       sync.Mutex
	failures int
	until    time.Time
	probing  bool
}

func (b *breaker) allow(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failures < maxFailures {
		return true
	}
	if now.Before(b.until) || b.probing {
		return false
	}
	b.probing = true
	return true
}

func (b *breaker) note(ok bool, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.probing = false
	if ok {
		b.failures = 0
		return
	}
	if b.failures++; b.failures >= maxFailures {
		b.until = now.Add(cooldown)
	}
}

// forget records that a call ended without saying anything of the endpoint.
func (b *breaker) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.probing = false
}
