package integrity

import (
	"context"
	"errors"
	"hash/maphash"
	"maps"
	"slices"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/gate/backend"
	"github.com/memproxy/memproxy/internal/wait"
	"github.com/memproxy/memproxy/ledger"
	"github.com/memproxy/memproxy/review"
	"github.com/memproxy/memproxy/screen/hunt"
	"github.com/memproxy/memproxy/upkeep"
)

// maxListed limits the findings of one backend that a report lists.
const maxListed = 1000

// storeSweep is one comparison of a whole backend with the ledger.
type storeSweep struct {
	c       *Checker
	backend config.Backend
	adapter backend.Locator
	scopes  []memproxy.Scope
	tenants []string
	sealed  bool
	begun   time.Time
	report  review.BackendSweep

	// seenIDs has the ids that the backend returned, hashed: some MB for a million memories.
	seed    maphash.Seed
	seenIDs map[uint64]struct{}
	found   []*finding // reported at the end
	// lost returns the deletions without an answer, which it looks for once.
	lost func() ([]memproxy.Event, error)
}

// run compares all that a backend holds with the ledger, and reports and flags
// differences.
func (w *storeSweep) run(ctx context.Context, rate float64, count func(int)) (err error) {
	if w.tenants, err = w.c.tenants(ctx); err != nil {
		return err
	}
	if w.sealed, err = w.c.Ledger.Backends.Sealed(ctx, w.backend.Name); err != nil {
		return err
	}
	err = w.c.walk(ctx, w.backend, walk{scopes: w.scopes, rate: rate}, func(p page) error {
		w.adapter = p.adapter
		before := w.report.Items
		defer func() { count(w.report.Items - before) }()
		return w.page(ctx, p)
	})
	if err == nil {
		err = w.missing(ctx)
	}
	if err == nil {
		err = w.finish(ctx)
	}
	return err
}

// walk selects the part of a backend to read, and the rate.
type walk struct {
	scopes []memproxy.Scope
	from   string  // the cursor of the first page
	rate   float64 // maximum of pages per second
}

// page is one page of a walk.
type page struct {
	adapter backend.Locator
	items   []hunt.Item
	again   func() ([]hunt.Item, error) // reads the page anew
	next    string                      // cursor of the next one, "" at the end
}

// walk calls f with each page of a backend. Between the pages it checks memories that
// reads found suspicious, because reading a large backend takes hours.
func (c *Checker) walk(ctx context.Context, b config.Backend, w walk, f func(page) error) error {
	adapter, pager, err := c.Open(ctx, b, w.scopes)
	if err != nil {
		return &review.UnreadableError{Backend: b.Name, Err: err}
	}
	fetch := func(cursor string) ([]hunt.Item, string, error) {
		items, next, err := pager.Page(ctx, cursor)
		if err != nil {
			err = &review.UnreadableError{Backend: b.Name, Err: err}
		}
		return items, next, err
	}
	for cursor := w.from; ; {
		items, next, err := fetch(cursor)
		if err != nil {
			return err
		}
		if err := c.checks.runDue(ctx, c.Clock()); err != nil && !errors.As(err, new(upkeep.Due)) {
			c.Log.Error("suspicious memories that reads found were not reported", "error", err)
		}
		at := cursor
		again := func() ([]hunt.Item, error) {
			items, _, err := fetch(at)
			return items, err
		}
		if err := f(page{adapter, items, again, next}); err != nil {
			return err
		}
		if next == "" {
			return nil
		}
		if next == cursor {
			return hunt.ErrCursorLoop
		}
		cursor = next
		if err := wait.Sleep(ctx, time.Duration(float64(time.Second)/w.rate)); err != nil {
			return err
		}
	}
}

// Settle waits until writes that reached the backend have reached the ledger.
func (c *Checker) Settle(ctx context.Context) error { return wait.Sleep(ctx, c.Pace.Settle) }

// entry is a memory of a page, with the ledger's record of it.
type entry struct {
	hunt.Item
	record  memproxy.Record
	memory  memproxy.Memory
	invalid bool // the memory could not be parsed
}

// entriesOf returns the memories of a page, parsed with the adapter that the gate uses. An item
// without JSON of its own is a part of the preceding one.
func entriesOf(ctx context.Context, c *Checker, backend string, adapter backend.Locator, items []hunt.Item) (out []entry, err error) {
	ids := make([]string, len(items))
	for i := range items {
		ids[i] = items[i].ID
	}
	records, err := ledger.ByID(ctx, c.Ledger, backend, memproxy.TargetMemory, ids...)
	if err != nil {
		return nil, err
	}
	for _, item := range items {
		if item.Raw == "" && !item.Incomplete {
			continue
		}
		route, body := memproxy.Route{}, item.Raw
		if item.Kind == "passage" { // returned in lists only
			route.Params, body = map[string]string{"agent_id": item.Owner.Agent}, "["+item.Raw+"]"
		}
		m, err := adapter.ReadLocated(route, item.ID, memproxy.Reply{Status: 200, Body: []byte(body)})
		m.ID = item.ID
		if m.Kind == "" {
			m.Kind = memproxy.TargetMemory
		}
		if !m.Scope.HasOwner() {
			m.Scope = item.Owner
		}
		out = append(out, entry{item, records[item.ID], m, err != nil})
	}
	return out, nil
}

func (w *storeSweep) hash(id string) uint64 { return maphash.String(w.seed, id) }

// page compares one page. If it finds differences, it compares again after pending
// writes had time to arrive.
func (w *storeSweep) page(ctx context.Context, p page) error {
	// underway reports whether any of the agents' turns that run now is still running.
	underway := func() bool { return false }
	if t := w.c.Turns(w.backend.Name); t != nil {
		underway = t.TurnsBegun()
	}
	items := p.items
	seen, err := w.comparePage(ctx, items)
	if err != nil {
		return err
	}
	w.report.Items += seen.items
	w.report.Known += seen.known
	w.report.Unknown += seen.unknown
	w.report.Skipped += seen.skipped
	if len(seen.found) > 0 {
		settled, err := w.settle(ctx, seen, underway)
		if err != nil {
			return err
		}
		if items, err = p.again(); err != nil {
			return err
		}
		still, err := w.comparePage(ctx, items)
		if err != nil {
			return err
		}
		for id, f := range seen.found {
			now, yes := still.found[id]
			if !yes || now.Code != f.Code {
				delete(seen.found, id)
				continue
			}
			recorded := memproxy.Ownership{Backend: now.Backend, Kind: now.Kind, ID: id, Scope: memproxy.Scope{Tenant: now.Tenant}, SHA256: now.wants}
			switch {
			case w.changing(f) && (!settled || now.has != f.has || shared(w.c.Config) && w.c.QueueCheck(recorded)):
				delete(seen.found, id)
				w.report.Unsettled++
			default:
				seen.found[id] = now
			}
		}
	}
	for _, item := range items { // in the order of the page
		if f, yes := seen.found[item.ID]; yes && item.Raw != "" {
			if err := w.addFinding(ctx, f); err != nil {
				return err
			}
		}
	}
	return w.clear(ctx, seen)
}

// changing reports whether a finding may be a recent write of an agent inside the
// backend: a block's text, or a new block or passage.
func (w *storeSweep) changing(f *finding) bool {
	t := w.c.Traits(w.backend, f.ID)
	return f.Code == memproxy.IntegrityUnknown && t.AgentsAdd || f.Code == memproxy.IntegrityMismatch && t.AgentsEdit
}

// settle waits for pending writes, and for writes of agents until the turns that were
// running have ended. It returns false if that takes longer than Pace.Patience.
func (w *storeSweep) settle(ctx context.Context, seen comparison, underway func() bool) (settled bool, err error) {
	waits := slices.ContainsFunc(slices.Collect(maps.Values(seen.found)), w.changing)
	for begun := w.c.Clock(); ; {
		busy := waits && underway()
		if busy && w.c.Clock().Sub(begun) >= w.c.Pace.Patience {
			return false, nil
		}
		if err := w.c.Settle(ctx); err != nil || !busy { // the last turn's writes need time as well
			return true, err
		}
	}
}

// addFinding lists a finding. Above maxListed, findings are reported and flagged at once.
func (w *storeSweep) addFinding(ctx context.Context, f *finding) error {
	if len(w.found) >= maxListed {
		w.report.More++
		return w.c.reportFinding(ctx, &f.Discrepancy)
	}
	w.found = append(w.found, f)
	return nil
}

// listsRow reports whether the walk reads objects like row: the ledger also has agents,
// messages and other objects that are not memories.
func (w *storeSweep) listsRow(row *memproxy.Ownership) bool {
	return w.c.Traits(w.backend, row.ID).Listed && (len(w.scopes) == 0 || slices.ContainsFunc(w.scopes, row.Scope.Within))
}

// missing finds recorded objects that the backend does not have.
func (w *storeSweep) missing(ctx context.Context) error {
	return w.c.Ledger.Backends.Inventory(ctx, w.backend.Name, func(rows []memproxy.Ownership) error {
		rows = slices.DeleteFunc(rows, func(row memproxy.Ownership) bool {
			_, there := w.seenIDs[w.hash(row.ID)]
			return there || !w.listsRow(&row) || !row.Written.Before(w.begun)
		})
		if len(rows) == 0 {
			return nil
		}
		if err := w.c.Settle(ctx); err != nil {
			return err
		}
		for i := range rows { // some may have been deleted through memproxy during the walk
			tenant, id := rows[i].Scope.Tenant, rows[i].ID
			code, detail, err := w.examiner(tenant).ExamineMissing(ctx, id)
			if err != nil {
				return err
			}
			if code == "" {
				continue
			}
			if gone, err := w.recordDeletion(ctx, &rows[i]); err != nil {
				return err
			} else if gone {
				continue
			}
			if err := w.addFinding(ctx, w.finding(tenant, id, memproxy.FaultDelete, code, detail)); err != nil {
				return err
			}
		}
		return nil
	})
}
