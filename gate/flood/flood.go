// Package flood limits the rate at which the rejections of an address are recorded.
package flood

import (
	"slices"
	"sync"
	"time"
)

const (
	// allRejections times the limit is the limit for all addresses together.
	allRejections   = 10
	rejectionWindow = time.Minute
	// maxPeers bounds the addresses that are counted separately.
	maxPeers = 1024
	// Others counts further addresses, and OtherCallers further addresses of
	// identified callers, which unidentified clients at many addresses must not
	// displace.
	Others       = "other addresses"
	OtherCallers = "other addresses of known callers"
)

// Counter counts the rejections of each address in windows of a minute, so that a flood
// of them costs a bounded number of records and log lines. Rejections beyond the limit
// are only counted, and the count is recorded. A Counter is safe for concurrent use.
type Counter struct {
	Limit int // per address and window; negative: no limit

	mu    sync.Mutex
	peers map[string]*flood
	// all counts all addresses together: of unidentified clients, and of identified
	// callers, so that the former do not use up the records of the latter.
	all [2]flood
}

// flood is the count of one address.
type flood struct {
	since   time.Time // when the window began
	n       int
	omitted int
	first   time.Time // when the first one was omitted
}

// Summary is the number of rejections of an address that were only counted.
type Summary struct {
	Peer  string
	N     int
	Since time.Time
}

func (f *flood) roll(now time.Time) {
	if now.Sub(f.since) >= rejectionWindow || now.Before(f.since) {
		f.since, f.n = now, 0
	}
}

// Note counts one rejection of an address, or, if known, of an identified caller at it.
// over reports that the rejection must not be recorded by itself, until the time until.
func (c *Counter) Note(peer string, known bool, now time.Time) (over bool, until time.Time) {
	if c.Limit < 0 {
		return false, now
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	all, rest := &c.all[0], Others
	if known {
		all, rest = &c.all[1], OtherCallers
	}
	if c.peers == nil {
		c.peers = map[string]*flood{}
	}
	if c.peers[peer] == nil && len(c.peers) >= maxPeers {
		peer = rest
	}
	f := c.peers[peer]
	if f == nil {
		f = &flood{since: now}
		c.peers[peer] = f
	}
	f.roll(now)
	all.roll(now)
	f.n++
	if f.n <= c.Limit {
		all.n++
		if all.n <= c.Limit*allRejections {
			return false, now
		}
	}
	if f.omitted == 0 {
		f.first = now
	}
	f.omitted++
	return true, f.since.Add(rejectionWindow)
}

// Take returns and resets the numbers of rejections that were only counted, the largest
// first, and removes addresses without recent rejections.
func (c *Counter) Take(now time.Time) []Summary {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []Summary
	for peer, f := range c.peers {
		if f.omitted > 0 {
			out = append(out, Summary{peer, f.omitted, f.first})
			f.omitted = 0
		}
		if now.Sub(f.since) >= rejectionWindow {
			delete(c.peers, peer)
		}
	}
	slices.SortFunc(out, func(a, b Summary) int { return b.N - a.N })
	return out
}
