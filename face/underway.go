package face

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

// party is a caller of a tenant, or an address in place of a tenant.
type party struct{ tenant, name string }

// requests counts concurrent requests: in total, of each tenant and of each caller. A
// tenant has at most half of what the others leave, and a caller half of what the
// others of its tenant leave of that. So there is always room for another: two
// tenants cannot use all of it, and it takes ten to use all but the guaranteed
// minimum of each tenant.
type requests struct {
	most, least int64

	n       int64
	tenants map[string]int64
	callers map[party]int64
}

func newRequests(most, least int64) *requests {
	return &requests{most: most, least: least, tenants: map[string]int64{}, callers: map[party]int64{}}
}

// enter counts one more, if that is within all bounds.
func (q *requests) enter(who party) bool {
	tenant, caller := q.tenants[who.tenant], q.callers[who]
	share := max((q.most-(q.n-tenant))/2, q.least)
	if tenant >= share || who.name != "" && caller >= max((share-(tenant-caller))/2, min(q.least, 1)) {
		return false
	}
	q.count(who, 1)
	return true
}

func (q *requests) count(who party, n int64) {
	q.n += n
	add(q.tenants, who.tenant, n)
	add(q.callers, who, n)
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
		in, who = l.all.strangers, party{tenant: l.who.peer}
	}
	return l.all.wait(ctx, l.all.Wait, func() bool {
		if !in.enter(who) {
			return false
		}
		l.in, l.party = in, who
		return true
	})
}

// leave reverses Enter.
func (l *Lease) leave() {
	if l == nil || l.in == nil {
		return
	}
	l.all.mu.Lock()
	defer l.all.mu.Unlock()
	l.in.count(l.party, -1)
	l.in = nil
	l.all.wake()
}
