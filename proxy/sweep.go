package proxy

import (
	"context"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate"
)

// Bounds of what sweeps ask for.
const (
	// maxSweep bounds the pages of a list in one sweep.
	maxSweep = 200
	// looksAtOnce and looksPerSecond bound the side requests for pauses, beside
	// the first page of each list: what is old is looked at in time.
	looksAtOnce    = 256
	looksPerSecond = 0.75
	// eager is in how many sweeps after the start every run is looked at whose
	// end nobody tells.
	eager = 4
)

// reconciliation is what is remembered from sweep to sweep. It belongs to the
// goroutine that sweeps.
type reconciliation struct {
	sweeps int
	// tokens are the side requests that may be made, as of when.
	tokens float64
	when   time.Time
	// deep are the lists that were not read to their end yet; open are the
	// runs of a list that are to be looked at again, and when.
	deep map[int]bool
	open map[int]map[string]time.Time
}

// afford reports whether a side request may be made now.
func (r *reconciliation) afford(now time.Time) bool {
	r.tokens = min(looksAtOnce, r.tokens+looksPerSecond*max(0, now.Sub(r.when).Seconds()))
	r.when = now
	return r.tokens >= 1
}

// sweeping is one sweep on its way through a list of runs.
type sweeping struct {
	p         *Proxy
	recoverer gate.Recoverer
	list      int
	runs      map[string]bool           // that this sweep has come by
	seen      map[string]time.Time      // places, and since when; only the newest pause of one may wait still
	asked     map[string]memproxy.Reply // for the places of an agent's pauses
	open      map[string]time.Time
	short     bool // something was left for want of requests
}

func (p *Proxy) sweepPages(ctx context.Context, recoverer gate.Recoverer) error {
	r := &p.swept
	if r.sweeps++; r.sweeps == 1 {
		r.tokens, r.when = looksAtOnce, p.opt.Clock()
		r.deep, r.open = map[int]bool{}, map[int]map[string]time.Time{}
	}
	seen, asked := map[string]time.Time{}, map[string]memproxy.Reply{}
	for list := 0; ; list++ {
		if _, more := recoverer.Paused(list, ""); !more {
			return nil
		}
		first := r.open[list] == nil
		w := &sweeping{p: p, recoverer: recoverer, list: list, runs: map[string]bool{}, seen: seen, asked: asked, open: map[string]time.Time{}}
		whole, err := w.pages(ctx, first || r.deep[list])
		if err != nil {
			return err
		}
		r.deep[list] = w.short || !whole && (first || r.deep[list])
		r.open[list] = w.open
	}
}

// pages reads a list: to its end if deep, else until everything is known and
// all that is open was found. Whole reports whether the end was reached.
func (w *sweeping) pages(ctx context.Context, deep bool) (whole bool, err error) {
	after, before := "", w.p.swept.open[w.list]
	for page := range maxSweep {
		if page > 0 && !w.affords() {
			return false, nil
		}
		q, _ := w.recoverer.Paused(w.list, after)
		reply, err := w.p.pay(ctx, q)
		if err != nil {
			return false, err
		}
		pauses, err := w.recoverer.Pauses(w.list, reply)
		if err != nil {
			return false, err
		}
		unknown, unseen := false, false
		for _, found := range pauses {
			if w.runs[found.Run] {
				continue // the page before, or a server that pages in another way
			}
			w.runs[found.Run], unseen = true, true
			unknown = w.visit(ctx, found) || unknown
		}
		if !unseen {
			return true, nil
		}
		missing := false
		for run := range before {
			missing = missing || !w.runs[run]
		}
		if !deep && !unknown && !missing {
			return false, nil
		}
		after = pauses[len(pauses)-1].Run
	}
	return false, nil
}

// affords reports whether a side request can be made now.
func (w *sweeping) affords() bool {
	if !w.p.swept.afford(w.p.opt.Clock()) {
		w.short = true
	}
	return !w.short
}

// pay makes a side request of a sweep.
func (p *Proxy) pay(ctx context.Context, q memproxy.Request) (memproxy.Reply, error) {
	p.swept.tokens--
	return p.ask(ctx, q, nil)
}

// visit sees to a pause. Unknown says that it was not known to be over before.
func (w *sweeping) visit(ctx context.Context, found memproxy.Pause) (unknown bool) {
	if w.p.over.Contains(found.Run) {
		if !found.Lost {
			w.newest(found)
		}
		return false
	}
	if !found.Open {
		return false // not yet, or never; it may come again
	}
	if w.p.chains.ended(found.Run) { // a turn of this process, which answered all its pauses
		w.p.over.Add(found.Run, struct{}{})
		return true
	}
	now := w.p.opt.Clock()
	due := w.p.swept.open[w.list][found.Run]
	if now.Before(due) {
		w.open[found.Run] = due
		return true
	}
	over, err := w.look(ctx, found)
	switch {
	case err != nil:
		w.p.opt.Log.WarnContext(ctx, "a pause could not be answered", "backend", w.p.opt.Name, "run", found.Run, "error", err)
		w.open[found.Run] = w.again(found, now)
	case over:
		w.p.over.Add(found.Run, struct{}{})
	case found.Lost:
		w.open[found.Run] = w.again(found, now)
	default:
		w.open[found.Run] = time.Time{}
	}
	return true
}

// again is when a run is looked at again whose end nobody tells, or that cannot
// be answered: the older it is, the less often.
func (w *sweeping) again(found memproxy.Pause, now time.Time) time.Time {
	if w.p.swept.sweeps <= eager {
		return time.Time{}
	}
	return now.Add(min(now.Sub(found.Since)/8, time.Hour))
}

// placeOf is where a pause is: an agent's own conversation, or another.
func placeOf(found memproxy.Pause) string { return found.Agent + " " + found.Conversation }

// look answers a pause wherever it may be. Over says that it need not be looked
// at again.
func (w *sweeping) look(ctx context.Context, found memproxy.Pause) (over bool, err error) {
	now := w.p.opt.Clock()
	if now.Sub(found.Since) < graces*w.p.opt.Reconcile {
		if !found.Lost {
			w.newest(found)
		}
		return false, nil
	}
	places := []memproxy.Pause{found}
	// Nobody says when a lost run is over; it is by then.
	over = !found.Lost || now.Sub(found.Since) > w.p.opt.RunTimeout
	if found.Lost {
		if places, err = w.places(ctx, found); err != nil || w.short {
			return false, err
		}
	}
	for _, at := range places {
		done, err := w.settle(ctx, at)
		if err != nil {
			return false, err
		}
		over = over && done
	}
	return over, nil
}

// places are where a lost pause may be.
func (w *sweeping) places(ctx context.Context, found memproxy.Pause) ([]memproxy.Pause, error) {
	reply, known := w.asked[found.Agent]
	if !known {
		if !w.affords() {
			return nil, nil
		}
		var err error
		if reply, err = w.p.pay(ctx, w.recoverer.Places(found)); err != nil {
			return nil, err
		}
		w.asked[found.Agent] = reply
	}
	return w.recoverer.Placed(found, reply)
}

// newest notes a pause of a place, and reports whether a newer one was noted.
func (w *sweeping) newest(found memproxy.Pause) (older bool) {
	place := placeOf(found)
	since, seen := w.seen[place]
	if seen && !found.Since.After(since) {
		return true
	}
	w.seen[place] = found.Since
	return false
}

// settle answers a pause that has waited for long enough. Of the pauses of a
// place only the newest may wait still.
func (w *sweeping) settle(ctx context.Context, found memproxy.Pause) (over bool, err error) {
	if w.newest(found) {
		return true, nil
	}
	if !w.affords() {
		delete(w.seen, placeOf(found))
		return false, nil
	}
	return w.p.recover(ctx, w.recoverer, found)
}
