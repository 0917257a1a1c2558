package face

import (
	"context"

	"github.com/memproxy/memproxy/gate"
)

// The bounds of requests that are under way at once, of one backend. Those of
// callers that are not identified are counted apart, by address, so that they
// take nothing from identified callers.
const (
	MaxRequests         = 512
	maxRequestsTenant   = MaxRequests * 3 / 4
	maxRequestsCaller   = MaxRequests / 2
	maxStrangers        = 256
	maxStrangersAddress = maxStrangers / 2
)

// party is a caller of a tenant, or an address.
type party struct{ tenant, name string }

// requests counts those under way: in all, of each tenant and of each caller.
type requests struct {
	most, tenant, caller int64

	n       int64
	tenants map[string]int64
	callers map[party]int64
}

func newRequests(most, tenant, caller int64) *requests {
	return &requests{most: most, tenant: tenant, caller: caller, tenants: map[string]int64{}, callers: map[party]int64{}}
}

// enter counts one more, if that is within all three bounds.
func (q *requests) enter(who party) bool {
	if q.n >= q.most || q.tenants[who.tenant] >= q.tenant || q.callers[who] >= q.caller {
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
		in, who = l.all.strangers, party{name: l.who.peer}
	}
	return l.all.wait(ctx, busyWait, func() bool {
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

// Enter counts an identified call among the requests under way. Where its caller
// has too many, it is refused.
func (c *Course) Enter(ctx context.Context, l *Lease, call *gate.Call) (entered bool) {
	caller, tenant := call.Caller()
	if l.Enter(ctx, caller, tenant) != nil {
		c.Flaw = Busy()
		return false
	}
	return true
}
