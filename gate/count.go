package gate

import (
	"context"

	"github.com/memproxy/memproxy"
)

// A Counter is a Reader whose backend tells after some writes how many memories
// they came to, if it is asked: a document that it takes apart, an agent that is
// made of a file.
type Counter interface {
	Reader
	// Counts returns the requests that ask what came of a write, by the ids that
	// its answer names; none where the answer says it, or nothing would.
	Counts(route memproxy.Route, req memproxy.Request, op *memproxy.Operation, ids []string) []memproxy.Request

	// Counted reads the answer to one of them: the memories that have ids, how
	// many there are besides, and whether there will be no more.
	Counted(memproxy.Reply) (ids []string, more int64, over bool, err error)
}

// countsLater reports whether the bill waits until the backend was asked what
// it made of the write. The face asks, as for what a model makes of one.
func (ret *effects) countsLater(b *bill) bool {
	counter, ok := ret.call.Backend.Adapter.(Counter)
	if !ok || ret.reading.Settles || !ret.enforced() {
		return false
	}
	var ids []string
	for i := range ret.reading.Memories {
		if id := ret.reading.Memories[i].ID; id != "" {
			ids = append(ids, id)
		}
	}
	ret.counting = counter.Counts(ret.call.Route, ret.call.Request, ret.op, ids)
	b.mu.Lock()
	b.pending += len(ret.counting)
	b.mu.Unlock()
	return len(ret.counting) > 0
}

// counted takes the answer to a request of Counts, and settles with the last.
func (g *Gate) counted(ctx context.Context, a *Admission, counter Counter, reply memproxy.Reply) (over bool) {
	if reply.Status == StatusNotFound {
		reply = memproxy.Reply{Status: reply.Status} // it is gone already: nothing is left of it
	} else if !ok2xx(reply.Status) {
		return false
	}
	ids, more, over, err := counter.Counted(reply)
	if err != nil {
		g.opt.Log.WarnContext(ctx, "what a write came to cannot be read; it stays charged as estimated", "decision", a.Decision.ID, "error", err)
		return true
	}
	if !over {
		return false
	}
	b := a.bill
	b.mu.Lock()
	for _, id := range ids {
		if b.counted == nil {
			b.counted = map[string]bool{}
		}
		if !b.counted[id] {
			b.counted[id] = true
			b.made.added++
		}
	}
	b.made.added += more
	b.pending--
	last, n := b.pending == 0, b.made.added
	b.mu.Unlock()
	if last {
		g.settleTo(ctx, a, n, n)
	}
	return true
}
