package gate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"unicode/utf8"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate/access"
	"github.com/memproxy/memproxy/gate/backend"
	"github.com/memproxy/memproxy/gate/limits"
	"github.com/memproxy/memproxy/gate/tamper"
)

// checkTargets runs loadTargets. If this found the end user, as the owner of a target, it
// checks the locks of rejected callers again. An approved write is not checked.
func checkTargets(ctx context.Context, r *evaluation) error {
	named := !writes(r) || r.op.Scope.User != ""
	if err := loadTargets(ctx, r); err != nil || r.verdict.Worst.Stops() {
		return err
	}
	if named || r.endUser() == "" || has(r.verdict.Notes, memproxy.ReviewApproved) {
		return nil
	}
	if err := checkSessionLock(ctx, r); err != nil {
		r.g.opt.Log.ErrorContext(ctx, "locks could not be looked up", "decision", r.Decision.ID, "error", err)
		r.verdict.Refuse(memproxy.StatusUnavailable, memproxy.Reason{Code: memproxy.LedgerUnavailable, Detail: notCompleted})
	}
	return nil
}

// loadTargets loads the owners of the targets and refuses targets that the principal may
// not see, with the same 404 as for a missing one. The ledger is asked first, then
// the backend.
func loadTargets(ctx context.Context, r *evaluation) error {
	op := r.op
	r.changedMemories = nil
	if needsLocks(r) { // what was looked up before its turn may have changed
		r.known = newLookups(r.g, r.Admission)
	}
	since := currentEpoch(r.g)
	if len(op.Targets) == 0 {
		if loadReplaced(ctx, r); lockResolved(ctx, r, since) {
			return loadTargets(ctx, r)
		}
		return nil
	}
	if err := loadOwners(ctx, r, op.Targets); err != nil && op.Kind != memproxy.Recall {
		ledgerFailed(ctx, r, err, "the owner of the memory cannot be looked up")
		return nil
	}
	if err := locate(ctx, r); err != nil || r.verdict.Worst.Stops() && r.enforced() {
		return err
	}
	if lockResolved(ctx, r, since) {
		return loadTargets(ctx, r)
	}
	resolveTargets(ctx, r)
	if err := cmp.Or(recallStates(ctx, r), r.known.err); err != nil && op.Kind != memproxy.Recall { // a read is judged by its answer
		ledgerFailed(ctx, r, err, "the status of the memory is unknown or cannot be recorded")
		return nil
	}
	nameFields(r)
	judgeTargets(ctx, r)
	loadAuthors(ctx, r, op.Targets)
	refuseUnseen(r)
	return nil
}

// resolveTargets looks up the owners of targets that the request names differently from
// the ledger: a block by its label. An approved write changes only what the name
// stood for when it was held.
func resolveTargets(ctx context.Context, r *evaluation) {
	for name, id := range r.heldContent.Objects {
		if m, asked := r.op.Current[name]; asked && !m.Missing && m.ID != id {
			r.verdict.Refuse(memproxy.StatusNotFound, memproxy.Reason{Code: memproxy.OwnerUnknown, Detail: "the name now refers to a different object than the one for which the write was approved"})
			return
		}
	}
	ids := map[string]string{} // the target's name by its id
	for name, m := range r.op.Current {
		if _, known := r.owners[name]; !known && m.ID != "" && m.ID != name {
			ids[m.ID] = name
		}
	}
	if r.known.need(ctx, r.known.keys(r.op.TargetKind, slices.Collect(maps.Keys(ids))...)...) != nil {
		return // r.known.err has the error
	}
	for id, name := range ids {
		if row := r.known.owner(r.op.TargetKind, id); row != nil {
			r.owners[name] = *row
		}
	}
}

func loadOwners(ctx context.Context, r *evaluation, targets []string) error {
	known := r.known
	err := known.need(ctx, known.keys(r.op.TargetKind, targets...)...)
	r.owners = make(map[string]memproxy.Ownership, len(targets))
	for _, id := range targets {
		if row := known.owner(r.op.TargetKind, id); row != nil && err == nil {
			r.owners[id] = *row
		}
	}
	return err
}

// loadRemoved adds the authors of what the lists of another's object lose, such as an
// agent's blocks: it is taken away from there, as by a request that names it.
func loadRemoved(ctx context.Context, r *evaluation) error {
	var lost []string
	for i := range r.op.Changes {
		if c := &r.op.Changes[i]; !changedMemoryOf(r, c.Object).Own {
			lost = append(lost, c.RemovedTexts(r.op.Current[c.Object].Members)...)
		}
	}
	if err := r.known.need(ctx, r.known.keys(r.op.TargetKind, lost...)...); err != nil {
		return err
	}
	for _, id := range lost {
		if row := r.known.owner(r.op.TargetKind, id); row != nil && !row.Deleted {
			r.owners[id] = *row
			r.changedMemories = append(r.changedMemories, changedMemoryOf(r, id))
		}
	}
	return nil
}

// nameFields fills in the field that a change is written to if the payload does not
// name it: a block that is changed by its id. A change that moves a memory to
// another field, or out of one, writes to both. A memory that is moved without a
// new text counts with its present text.
func nameFields(r *evaluation) {
	if r.op.Kind != memproxy.Correct {
		return
	}
	brings := attachedTargets(r.call, r.op) // their fields are not written
	for _, target := range r.op.Targets {
		m := r.op.Current[target]
		if slices.Contains(brings, target) {
			continue
		}
		was := (&memproxy.Item{Field: m.Field, OtherFields: m.OtherFields}).Written()
		left := map[string]bool{}
		for i := range r.op.Items {
			it := &r.op.Items[i]
			if it.Kind != memproxy.ItemContent || it.Target != "" && it.Target != target {
				continue
			}
			if it.Field == "" && len(it.OtherFields) == 0 {
				it.Field, it.OtherFields = was[0], was[1:]
			}
			now := it.Written()
			if it.Moved && slices.ContainsFunc(now, func(f string) bool { return !containsField(was, f) }) {
				it.Size = utf8.RuneCountInString(m.Text) // what stays in its field is not written there again
			}
			for _, f := range was {
				left[f] = left[f] || !containsField(now, f)
			}
		}
		for _, f := range was {
			if f != "" && left[f] {
				r.op.Items = append(r.op.Items, memproxy.Item{Kind: memproxy.ItemContent, Field: f, Target: target, Moved: true})
			}
		}
	}
}

// containsField reports whether fields contain a field, by canonical name.
func containsField(fields []string, field string) bool {
	return slices.ContainsFunc(fields, func(f string) bool { return memproxy.Key(f) == memproxy.Key(field) })
}

// locate fetches the targets whose owner the ledger does not know, those whose patch
// must be merged with the present state, and those whose text is put in front of an
// agent. Only those of which it has no record at all count as unknown.
func locate(ctx context.Context, r *evaluation) error {
	if r.call.Backend.Fetch == nil || r.op.TargetKind == memproxy.TargetExport {
		return nil
	}
	merge := r.call.Backend.Adapter.Merges(r.call.Route, r.op) || needsImage(r)
	brings := attachedTargets(r.call, r.op)
	var ask []string
	unknown := 0
	for _, id := range r.op.Targets {
		_, known := r.owners[id]
		if rec := r.known.of(r.op.TargetKind, id); !known && !rec.HasStatus() && rec.Presence != memproxy.PresentAtSeal {
			unknown++
		}
		if !known || merge || slices.Contains(brings, id) {
			ask = append(ask, id)
		}
	}
	if asksTooMuch(r, unknown, "names %d memories") || len(ask) == 0 || isLocateRequest(r.Admission, ask) {
		return nil
	}
	var err error
	r.op.Current, err = fetch(ctx, r.call, ask)
	return err
}

// asksTooMuch refuses a request for which the backend would be asked about too many
// objects that the ledger does not know.
func asksTooMuch(r *evaluation, n int, what string) bool {
	if n <= limits.MaxUnknown {
		return false
	}
	r.verdict.Refuse(memproxy.StatusUnprocessed, memproxy.Reason{Code: memproxy.LimitSideRequests, Detail: fmt.Sprintf(
		"the request "+what+" that memproxy would have to fetch from the backend; the limit is %d, so split the request", n, limits.MaxUnknown)})
	return true
}

// maxImages bounds the memories that are fetched for the history of a change.
const maxImages = 32

// needsImage reports whether the present state is needed, because the change will
// be a version together with what it replaced.
func needsImage(r *evaluation) bool {
	changes := r.op.Kind == memproxy.Correct || r.op.Kind == memproxy.Forget
	return changes && !r.dry() && len(r.op.Targets) <= maxImages
}

// isLocateRequest reports whether the call is itself the request that locates its
// target: its own answer is then judged in Return, instead of fetching twice.
func isLocateRequest(a *Admission, ask []string) bool {
	if len(ask) != 1 || a.op.Derived || !safe(a.call.Request.Method) {
		return false
	}
	q := a.call.Backend.Adapter.Locate(a.call.Route, a.call.Request, ask[0])
	return q.Method == a.call.Request.Method && q.EscapedPath == a.call.Request.EscapedPath
}

// fetchOne sends one side request, with a deadline of its own.
func (b *Backend) fetchOne(ctx context.Context, q memproxy.Request) (memproxy.Reply, error) {
	ctx, cancel := b.Within(ctx)
	defer cancel()
	return b.Fetch.Fetch(ctx, q)
}

// fetch asks the backend for objects by id, concurrently within the limit. The result
// has those that it answered for, and the error is the first of the others'. Nothing is
// found if no side requests can be sent.
func fetch(ctx context.Context, c *Call, ids []string) (map[string]memproxy.Memory, error) {
	if c.Backend.Fetch == nil || len(ids) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	all, errs := make([]memproxy.Memory, len(ids)), make([]error, len(ids))
	slots := make(chan struct{}, fetchParallel)
	var wg sync.WaitGroup
	for i, id := range ids {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			reply, err := c.Backend.fetchOne(ctx, c.Backend.Adapter.Locate(c.Route, c.Request, id))
			if err == nil {
				all[i], err = c.Backend.Adapter.ReadLocated(c.Route, id, reply)
			}
			errs[i] = backend.LookupFailure(reply, err)
			if errors.Is(err, context.DeadlineExceeded) {
				cancel(err) // a backend that hangs costs one deadline
			}
		})
	}
	wg.Wait()
	found := make(map[string]memproxy.Memory, len(ids))
	var first error
	for i, id := range ids {
		if errs[i] == nil {
			found[id] = all[i]
		} else if first == nil {
			first = fmt.Errorf("fetch a target from the backend: %w", cmp.Or(context.Cause(ctx), errs[i]))
		}
	}
	return found, first
}

// judgeTargets refuses targets that the principal may not see. A target that does
// not exist is left to the backend to report, unless its wording would reveal what
// another tenant has.
func judgeTargets(ctx context.Context, r *evaluation) {
	v := r.viewer(r.g.opt.Signer, r.known)
	v.Blind = r.known.err != nil
	var scopes []*memproxy.Scope
	var bare []memproxy.Memory
	for _, id := range r.op.Targets {
		m, asked := r.op.Current[id]
		if row, known := r.owners[id]; known {
			scopes = append(scopes, &row.Scope, &m.Scope)
		} else if asked {
			bare = append(bare, m)
		}
	}
	_ = v.lookUp(ctx, scopes, bare) // the view is then blind
	brings := attachedTargets(r.call, r.op)
	var attached *memproxy.Reason // why a target may not be attached to an agent
	for _, id := range r.op.Targets {
		row, known := r.owners[id]
		m, asked := r.op.Current[id]
		rec := r.known.of(r.op.TargetKind, cmp.Or(row.ID, m.ID, id))
		if hiddenByStatus(r, id, rec, slices.Contains(brings, id)) {
			r.verdict.Missing("")
			return
		}
		if attached == nil && slices.Contains(brings, id) && !absent(r, id) {
			attached = agentsMayNotRead(r, rec, &m)
		}
		switch {
		case known && v.Sees(&row, &m), !known && asked && !m.Missing && !m.Unproven && v.Sees(nil, &m):
		case known, asked && !m.Missing && !m.Unproven:
			r.verdict.Refuse(memproxy.StatusNotFound, memproxy.Reason{Code: foreignItem.code, Detail: foreignItem.detail})
			return
		case asked && (r.singleTenant() || m.Missing && id == r.op.Upserts):
		case asked:
			// A target of unproven existence is answered as missing, as another
			// tenant's is, so that the two cannot be told apart.
			r.verdict.Missing("")
			return
		case isLocateRequest(r.Admission, []string{id}): // its own answer is judged
		case r.op.TargetKind == memproxy.TargetExport && r.unlimited() && r.singleTenant():
		default:
			r.verdict.Refuse(memproxy.StatusNotFound, memproxy.Reason{Code: memproxy.OwnerUnknown, Detail: "its owner is unknown"})
			return
		}
	}
	if attached != nil {
		r.verdict.Forbid(attached.Code, attached.Pointer, attached.Detail)
	}
}

// inspectTarget records a failed integrity check of a target. The operation is about to
// replace or delete the evidence of the out-of-band change, so later reads cannot report
// it. It refuses nothing.
func inspectTarget(ctx context.Context, r *evaluation, target string) {
	m, row := r.op.Current[target], r.owners[target]
	if r.rules.Changed == ChangedIgnore || row.ID == "" || row.Deleted {
		return
	}
	e := examinerOf(r.g, r.Admission)
	code, detail := e.Examine(ctx, &row, &m)
	if m.Missing {
		code, detail, _ = e.ExamineMissing(ctx, row.ID) // after an error the code is empty
	}
	if code == "" || code == memproxy.IntegrityMismatch && m.Mutable {
		return
	}
	r.verdict.Note(memproxy.Reason{Code: code, Rule: row.ID, Detail: detail})
}

func examinerOf(g *Gate, a *Admission) *tamper.Examiner {
	return &tamper.Examiner{Ledger: g.opt.Ledger, Signer: g.opt.Signer, Backend: a.op.Backend, Tenant: a.Principal.Tenant}
}

// unlimited reports whether the principal may see everything there is.
func (a *Admission) unlimited() bool {
	return !access.Limited(&a.Principal) && a.rules.Unattributed == access.Visible
}
