package frontend

import "context"

// The limits of concurrent requests to one backend. Requests of unidentified callers are
// counted separately, by address, so that they take nothing from identified callers. Side
// requests for a caller are counted separately from that caller's own.
const (
	MaxRequests     = 1024
	maxUnidentified = 256
	maxSides        = 256
	// minTenant is the guaranteed minimum of each tenant.
	minTenant = 4
)

// party is a caller in a group: its tenant, or a client's address. An unidentified caller
// has an empty name.
type party struct{ group, name string }

// counts are counters: for everything, for each group, and for each named caller.
type counts struct {
	all     int64
	groups  map[string]int64
	callers map[party]int64
}

func newCounts() counts { return counts{groups: map[string]int64{}, callers: map[party]int64{}} }

func (c *counts) add(who party, n int64) {
	c.all += n
	add(c.groups, who.group, n)
	if who.name != "" {
		add(c.callers, who, n)
	}
}

func add[K comparable](m map[K]int64, k K, n int64) {
	if m[k] += n; m[k] == 0 {
		delete(m, k)
	}
}

// requests counts concurrent requests. A tenant gets at most half of what the other
// tenants leave, and a caller half of what the other callers of its tenant leave of that.
// So there is always room for another one: two tenants cannot use everything, and it
// takes ten to use all but the guaranteed minimum of each tenant.
type requests struct {
	most, least int64
	counts
}

func (q *requests) enter(who party) bool {
	tenant, caller := q.groups[who.group], q.callers[who]
	share := max((q.most-(q.all-tenant))/2, q.least)
	if tenant >= share || who.name != "" && caller >= max((share-(tenant-caller))/2, min(q.least, 1)) {
		return false
	}
	q.add(who, 1)
	return true
}

// Enter counts the request as concurrent until Release, for the caller or, if that is "",
// for the address. It waits a short time for a free slot. The error is ErrBusy if there
// is none in the share of the caller, of its tenant, or in total.
func (l *Lease) Enter(ctx context.Context, caller, tenant string) error {
	if l == nil || l.in != nil {
		return nil
	}
	l.SetCaller(caller)
	in, who := l.all.known, party{tenant, caller}
	if caller == "" {
		in, who = l.all.unidentified, party{group: l.who.group}
	}
	return l.all.wait(ctx, l.all.Wait, func() bool {
		if !in.enter(who) {
			return false
		}
		l.in, l.party = in, who
		return true
	})
}
