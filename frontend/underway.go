package frontend

import "context"

// The bounds of concurrent requests of one backend. Requests of unidentified
// callers are counted separately, by address, so that they take nothing from
// identified callers; side requests for a caller are counted separately from that
// caller's own.
const (
	MaxRequests  = 1024
	maxStrangers = 256
	maxSides     = 256
	// minTenant is the guaranteed minimum of a tenant.
	minTenant = 4
)

// party is a caller in a group: its tenant, or the address of a client. An unidentified
// one has no name.
type party struct{ group, name string }

// counts are sums: of everything, of each group, and of each caller with a name.
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

// requests counts concurrent requests. A tenant has at most half of what the others
// leave, and a caller half of what the others of its tenant leave of that. So there is
// always room for another: two tenants cannot use all of it, and it takes ten to use all
// but the guaranteed minimum of each tenant.
type requests struct {
	most, least int64
	counts
}

// enter counts one more, if that is within all bounds.
func (q *requests) enter(who party) bool {
	tenant, caller := q.groups[who.group], q.callers[who]
	share := max((q.most-(q.all-tenant))/2, q.least)
	if tenant >= share || who.name != "" && caller >= max((share-(tenant-caller))/2, min(q.least, 1)) {
		return false
	}
	q.add(who, 1)
	return true
}

// Enter counts the request as concurrent until Release, for the caller or, if that is
// "", for the address. It waits for a place for a short time. ErrBusy: there is none in
// the caller's share, its tenant's or in total.
func (l *Lease) Enter(ctx context.Context, caller, tenant string) error {
	if l == nil || l.in != nil {
		return nil
	}
	l.By(caller)
	in, who := l.all.known, party{tenant, caller}
	if caller == "" {
		in, who = l.all.strangers, party{group: l.who.group}
	}
	return l.all.wait(ctx, l.all.Wait, func() bool {
		if !in.enter(who) {
			return false
		}
		l.in, l.party = in, who
		return true
	})
}
