package gate

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate/limits"
)

// Bounds of rejections: of requests that are refused because nobody stands
// behind them, because they cannot be read, or because there are too many.
const (
	// DefaultRejections is how many rejections a minute of one address are
	// answered and recorded one by one.
	DefaultRejections = 300
	// allRejections is how many times as many it may be of all addresses.
	allRejections   = 10
	rejectionWindow = time.Minute
	// maxPeers bounds the addresses that are counted by themselves.
	maxPeers = 1024
	others   = "other addresses"
)

// rejections counts the rejections of each address, so that a flood of them
// costs a bounded number of records and log lines: beyond the limit they are
// counted, and the count is recorded.
type rejections struct {
	limit int // per address and window; negative: none

	mu    sync.Mutex
	peers map[string]*flood
	// all is what all addresses have together: strangers, and callers that were
	// identified, so that the first do not use up what is recorded of the others.
	all [2]flood
}

// flood is what is known of one address.
type flood struct {
	since   time.Time // when the window began
	n       int
	omitted int
	first   time.Time // when the first one was omitted
}

// summary says how many rejections of an address were not recorded one by one.
type summary struct {
	peer  string
	n     int
	since time.Time
}

func (f *flood) roll(now time.Time) {
	if now.Sub(f.since) >= rejectionWindow || now.Before(f.since) {
		f.since, f.n = now, 0
	}
}

// note counts one rejection of an address, or of a caller at it. Over says that it is not to be recorded by itself,
// and until is when that ends.
func (rs *rejections) note(peer string, known bool, now time.Time) (over bool, until time.Time) {
	if rs.limit < 0 {
		return false, now
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	f := rs.peers[peer]
	if f == nil {
		if len(rs.peers) >= maxPeers {
			peer = others
			f = rs.peers[peer]
		}
		if f == nil {
			f = &flood{since: now}
			if rs.peers == nil {
				rs.peers = map[string]*flood{}
			}
			rs.peers[peer] = f
		}
	}
	all := &rs.all[0]
	if known {
		all = &rs.all[1]
	}
	f.roll(now)
	all.roll(now)
	f.n++
	if f.n <= rs.limit {
		all.n++
		if all.n <= rs.limit*allRejections {
			return false, now
		}
	}
	if f.omitted == 0 {
		f.first = now
	}
	f.omitted++
	return true, f.since.Add(rejectionWindow)
}

// take returns what was omitted since it was called last, and forgets addresses
// that have been quiet.
func (rs *rejections) take(now time.Time) []summary {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	var out []summary
	for peer, f := range rs.peers {
		if f.omitted > 0 {
			out = append(out, summary{peer, f.omitted, f.first})
			f.omitted = 0
		}
		if now.Sub(f.since) >= rejectionWindow {
			delete(rs.peers, peer)
		}
	}
	slices.SortFunc(out, func(a, b summary) int { return b.n - a.n })
	return out
}

// maxSummaries bounds the records that one summary makes.
const maxSummaries = 32

// SummariseRejections records how many rejections were not recorded one by one
// since it was called last: one record for each address, and one for all that
// are left beyond a few. To be called every now and then, and at the end.
func (g *Gate) SummariseRejections(ctx context.Context) {
	sums := g.rejected.take(g.opt.Clock())
	if len(sums) > maxSummaries {
		rest := summary{peer: others, since: sums[maxSummaries-1].since}
		for _, s := range sums[maxSummaries-1:] {
			rest.n += s.n
			if s.since.Before(rest.since) {
				rest.since = s.since
			}
		}
		sums = append(sums[:maxSummaries-1], rest)
	}
	for _, s := range sums {
		detail := fmt.Sprintf("%d more rejections of %s since %s", s.n, s.peer, s.since.UTC().Format(time.RFC3339))
		g.notes.add(ctx, memproxy.Event{
			Type: memproxy.EventRejections, Time: g.opt.Clock(), Policy: g.rules.Load().Version,
			Verdict: memproxy.Deny, Would: memproxy.Deny, Items: s.n, Claimed: -1, Confidence: -1, Detail: detail,
			Reasons: []memproxy.Reason{{Code: memproxy.LimitRejections, Detail: detail}},
		})
		g.opt.Log.WarnContext(ctx, "rejections were not recorded one by one", "address", s.peer, "count", s.n, "since", s.since)
	}
}

// rejectedStatus are the statuses of requests that nobody stands behind, that
// cannot be read, or of which there are too many.
var rejectedStatus = [...]int{400, 401, 408, 411, 413, 415, 422, 429}

// floods reports whether a refusal is a rejection of an address that had too
// many of them. The answer is then a short one, and it is only counted.
func floods(r *run) bool {
	d := &r.Decision
	if d.Verdict != memproxy.Deny || r.dry() || !slices.Contains(rejectedStatus[:], d.Status) && !has(d.Reasons, memproxy.RouteUnknown) && !has(d.Reasons, memproxy.LimitInFlight) {
		return false
	}
	known := d.Status != StatusUnauthorized
	peer := peerOf(r.call)
	if known {
		peer = limits.Clip(r.Principal.Account(), limits.MaxShownName) + " at " + peer
	}
	over, until := r.g.rejected.note(peer, known, r.begun)
	if !over {
		return false
	}
	limit := int64(r.g.rejected.limit)
	d.Status = StatusTooMany
	d.Reasons = []memproxy.Reason{{Code: memproxy.LimitRejections, Detail: fmt.Sprintf(
		"more than %d rejected requests from this caller or address within a minute; until %s more are counted and not recorded one by one; limits.rejections sets the number",
		limit, until.UTC().Format(time.RFC3339))}}
	d.Allowance = &memproxy.Allowance{Lines: []memproxy.LineState{{
		Line: memproxy.Line{Key: "rejections", Limit: limit, Reason: memproxy.LimitRejections}, Used: limit, Reset: until,
	}}}
	r.Flooded = true
	return true
}

// peerOf is the address that a call is counted under.
func peerOf(c *Call) string {
	if c.Peer == "" {
		return "unknown address"
	}
	return strings.ToValidUTF8(limits.Clip(c.Peer, 64), "")
}
