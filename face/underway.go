package face

import "context"

// The bounds of requests that are under way at once, of one backend. Those of
// callers that are not identified are counted apart, by address, so that they
// take nothing from identified callers; those that memproxy makes for a caller
// are counted apart from that caller's own.
const (
	MaxRequests  = 1024
	maxStrangers = 256
	maxSides     = 256
	// minTenant is what a tenant has in any case.
	minTenant = 4
)

// party is a caller of a tenant, or an address in a tenant's place.
type party struct{ tenant, name string }

// requests counts those under way: in all, of each tenant and of each caller. A
// tenant has at most half of what the others leave, and a caller half of what
// the others of its tenant leave of that. So some are always left for whoever
// comes next: two cannot have all of them, and it takes ten tenants to have all
// but the few that each tenant has in any case.
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

// Enter counts the request among those under way until Release, as one of the
// caller or, where that is "", of the address. It waits a little for a place.
// ErrBusy: there is none in the caller's share, its tenant's or in all.
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

// leave ends what Enter began.
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
