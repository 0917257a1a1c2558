package gate

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate/content"
	"github.com/memproxy/memproxy/gate/tamper"
)

// version returns a version of an object that this operation makes.
func (ret *effects) version(kind memproxy.TargetKind, id string, op memproxy.VersionOp) memproxy.Version {
	return memproxy.Version{
		MemoryKey: memproxy.MemoryKey{Backend: ret.op.Backend, Kind: kind, ID: id}, Tenant: ret.Principal.Tenant,
		Op: op, Time: ret.begun, Actor: ret.Principal.ID, Trust: ret.Principal.Trust, Confidence: max(0, ret.event.Confidence),
		Attestation: ret.attestationOf(ret.marksOf(id)), Decision: ret.Decision.ID, Score: memproxy.Risk(foundAtArrival(ret.Admission)),
	}
}

// addVersion adds a version, and the one before it if its text is known.
func (ret *effects) addVersion(
	e *memproxy.Entry, kind memproxy.TargetKind, id string, op memproxy.VersionOp, before, after memproxy.Memory,
) {
	v := ret.version(kind, id, op)
	v.Text, v.Field, v.Metadata, v.Before = after.Text, after.Field, after.Metadata, memproxy.Hash(before.Text)
	e.Versions = append(e.Versions, v)
	if before.Text != "" {
		was := ret.version(kind, id, memproxy.OpSeal)
		was.Attestation = ret.attestationOf(nil) // only the new text is marked
		was.Score, was.Text, was.Metadata, was.Field = 0, before.Text, before.Metadata, before.Field
		e.Found = append(e.Found, was)
	}
}

// commitEffects records the effects of a write, change or deletion: versions with the text
// before them, states, owners and new expiry times. They are history, not permission:
// if they cannot be stored the write still succeeds, and the log and the outcome report it.
// If the versions cannot be stored, states and owners are stored without them.
func (ret *effects) commitEffects(ctx context.Context, states []memproxy.StateChange) {
	ret.rows = sortOwners(ret.rows)
	e := memproxy.Entry{Queued: true, States: states, Owners: ret.rows}
	if ret.enforced() {
		ret.addVersions(&e)
		ret.addObjectVersions(&e)
		e.Renewed = ret.renewals()
	}
	e.ExpectedOwners = expectedOwners(ret)
	err := commit(ctx, ret.g, &ret.Decision, e, "versions not kept")
	for try := 0; errors.Is(err, memproxy.ErrStale) && try < maxStale; try++ {
		e = reconcile(ctx, ret, e)
		err = commit(ctx, ret.g, &ret.Decision, e, "versions not kept")
	}
	if err != nil && !errors.Is(err, memproxy.ErrKept) && len(e.Found)+len(e.Versions) > 0 {
		e.Found, e.Versions = nil, nil
		err = commit(ctx, ret.g, &ret.Decision, e, "ledger not updated")
	}
	if err != nil { // the next process asks the backend, as it does without an outcome
		why := memproxy.Reason{Code: memproxy.LedgerUnavailable, Detail: "not recorded in the ledger"}
		if errors.Is(err, memproxy.ErrKept) {
			why.Detail = memproxy.ErrKept.Error()
		}
		ret.reasons = append(ret.reasons, why)
		if !errors.Is(err, memproxy.ErrKept) {
			return
		}
	}
	ret.g.accounts.creditAuthors(ctx, ret.Admission, ret.gone)
}

// commit commits an entry, even if the caller has disconnected. It logs an error, with
// lost as the message, except ErrStale and ErrKept.
func commit(ctx context.Context, g *Gate, d *memproxy.Decision, e memproxy.Entry, lost string) error {
	if e.Empty() {
		return nil
	}
	err := g.opt.Ledger.Commit(context.WithoutCancel(ctx), e)
	if err != nil && !errors.Is(err, memproxy.ErrStale) && !errors.Is(err, memproxy.ErrKept) {
		g.opt.Log.ErrorContext(ctx, lost, "decision", d.ID, "error", err)
	}
	return err
}

// renewals returns new expiry times for existing memories that were written again,
// including those whose text the backend reports as unchanged and those that were moved
// to other fields. A change without a stated source does not make a memory live longer
// than its first source allows.
func (ret *effects) renewals() (all []memproxy.Renewal) {
	if ret.rules.TTL == nil {
		return nil
	}
	note := func(kind memproxy.TargetKind, id string, fields []string, moved, enters bool) {
		ttl := lifetime(ret.Admission, fields, ret.op.SourceClaim)
		if ret.op.SourceClaim == "" {
			if i, found := slices.BinarySearchFunc(ret.rows, memproxy.Ownership{Kind: kind, ID: id}, byObject); found {
				ttl = memproxy.Shorter(ttl, lifetime(ret.Admission, fields, ret.rows[i].Source))
			}
		}
		next := memproxy.Renewal{MemoryKey: memproxy.MemoryKey{Backend: ret.op.Backend, Kind: kind, ID: id}, Sooner: moved}
		if ttl > 0 {
			next.Expires = ret.begun.Add(ttl)
		}
		if id != "" && (ttl > 0 || enters && !moved) { // for ever, only in a field that the text was not in
			all = append(all, next)
		}
	}
	switch {
	case ret.op.Kind == memproxy.Recall:
		return ret.lateEntry.Renewed
	case ret.op.Kind == memproxy.Learn && ret.reading != nil:
		for i := range ret.reading.Memories {
			if m := &ret.reading.Memories[i]; !m.Drop && m.Event != "" && m.Event != memproxy.MemoryAdded && m.Event != memproxy.MemoryDeleted && m.Layer != memproxy.Episodic {
				note(m.TargetKind(), m.ID, fieldsOf(ret.op, m), false, false)
			}
		}
	case ret.op.Kind == memproxy.Correct:
		rewritten := map[string]bool{} // the field that such a text leaves does not count
		for i := range ret.op.Items {
			if it := &ret.op.Items[i]; it.Kind == memproxy.ItemContent && it.Text != "" {
				rewritten[it.Target] = true
			}
		}
		for i := range ret.op.Items {
			if it := &ret.op.Items[i]; it.Kind == memproxy.ItemContent && it.Target != "" && (it.Text != "" || it.Moved && !rewritten[it.Target]) {
				id, before := ret.stateBefore(it.Target)
				was, fields := (&memproxy.Item{Field: before.Field, OtherFields: before.OtherFields}).Written(), it.Written()
				if fields[0] == "" {
					fields = was
				}
				note(ret.op.TargetKind, id, fields, it.Text == "", slices.ContainsFunc(fields, func(f string) bool { return !containsField(was, f) }))
			}
		}
	}
	return all
}

func (ret *effects) addVersions(e *memproxy.Entry) {
	switch ret.op.Kind {
	case memproxy.Learn:
		for i := 0; ret.reading != nil && i < len(ret.reading.Memories); i++ {
			ret.addReported(e, &ret.reading.Memories[i])
		}
	case memproxy.Recall:
		e.Versions = ret.lateEntry.Versions
	case memproxy.Correct:
		ret.addChanges(e)
	case memproxy.Forget:
		for _, target := range ret.op.Targets {
			if id, before := ret.stateBefore(target); before.Text != "" && !slices.Contains(ret.op.Kept, target) {
				ret.addVersion(e, ret.op.TargetKind, id, memproxy.OpDelete, before, memproxy.Memory{Field: before.Field})
			}
		}
	}
}

// addChanges adds a version for each memory whose text, metadata or field changes.
func (ret *effects) addChanges(e *memproxy.Entry) {
	targets := ret.op.Targets
	if len(targets) == 0 {
		targets = content.Replaced(ret.op)
	}
	for _, target := range targets {
		id, before := ret.stateBefore(target)
		it, moved := content.TargetItems(ret.op, target)
		if it == nil || it.Text == "" {
			it = moved // the first item names the new field
		}
		if it == nil {
			continue
		}
		if text := cmp.Or(it.Text, before.Text); text != "" && (text != before.Text || moved != nil) {
			after := memproxy.Memory{Text: text, Field: it.Field}
			ret.addVersion(e, ret.op.TargetKind, id, memproxy.OpUpdate, before, after)
		}
	}
}

// addReported adds the version that a memory in an answer reports, if it reports one.
func (ret *effects) addReported(e *memproxy.Entry, m *memproxy.Memory) {
	gone := m.Event == memproxy.MemoryDeleted
	if m.Uncounted && m.Members != nil {
		return // objects records it, because the texts are among its members
	}
	if m.ID == "" || m.Drop || m.Text == "" && !gone || m.Event == memproxy.MemoryUnchanged || m.Layer == memproxy.Episodic {
		return
	}
	op, field := memproxy.OpWrite, fieldsOf(ret.op, m)[0]
	before, after := memproxy.Memory{Text: m.Before, Field: field}, memproxy.Memory{Text: m.Text, Field: field, Metadata: m.Metadata}
	switch {
	case gone:
		op, before.Text = memproxy.OpDelete, cmp.Or(m.Before, m.Text)
		after.Text, after.Metadata = "", nil
	case ret.byAgent:
		op = memproxy.OpSelfEdit
	case m.Event != "" && m.Event != memproxy.MemoryAdded:
		op = memproxy.OpUpdate
	}
	ret.addVersion(e, m.TargetKind(), m.ID, op, before, after)
}

// stateBefore returns the id and the state of a target before the operation.
func (ret *effects) stateBefore(target string) (id string, m memproxy.Memory) {
	m = ret.op.Current[target]
	return cmp.Or(m.ID, target), m
}

func mayCallTool(r *evaluation) bool {
	_, ok := r.call.Backend.Adapter.(AgentRunner)
	return ok && r.call.Backend.Fetch != nil && writes(r)
}

// prepareToolCall handles a request that calls an agent's tool directly: it adds the call's
// changes of the agent's memory to the operation, and prepares their recording. Blocks to which
// the call only adds are locked here; those that it replaces are (loadTargets).
func prepareToolCall(ctx context.Context, r *evaluation) error {
	for again := true; again; {
		call := r.call.Backend.Adapter.(AgentRunner).ToolRun(r.call.Route, r.call.Request, r.Body)
		if call == nil {
			return nil
		}
		since := currentEpoch(r.g)
		r.edits = call
		if err := fetchEdits(ctx, r.Admission); err != nil {
			r.edits = nil
			return err
		}
		if again = false; !content.Replaces(r.op) {
			r.op.Current = call.Current()
			again = lockResolved(ctx, r, since)
		}
		if !again {
			call.AddContent(r.op)
		}
	}
	return nil
}

// refetchAdded fetches the blocks to which a call adds and that were changed after its turn had
// read them, before they were locked: their record is of another text.
func refetchAdded(ctx context.Context, r *evaluation) {
	if r.op.Kind != memproxy.Learn {
		return
	}
	_ = r.known.memories(ctx, slices.Collect(maps.Values(r.op.Current))) // after an error, the text is as the turn read it
	var stale []string
	for name, m := range r.op.Current {
		if row := r.known.owner(m.TargetKind(), m.ID); row != nil && row.SHA256 != memproxy.Hash(m.Text) {
			stale = append(stale, name)
		}
	}
	now, _ := fetch(ctx, r.call, stale)
	maps.Copy(r.op.Current, now)
}

// fetchEdits makes the side requests that are needed to follow a tool call.
func fetchEdits(ctx context.Context, a *Admission) error {
	ctx, cancel := a.call.Backend.Within(context.WithoutCancel(ctx))
	defer cancel()
	return Prepare(a.edits, MaxPrepare, func(q memproxy.Request) (memproxy.Reply, error) {
		q.Header = a.call.Request.Header
		return a.call.Backend.Fetch.Fetch(ctx, q)
	})
}

// recordEdits records what the call changed, also if its answer is lost. It runs before the
// answer and before the locks are released, because the next change of the same memory must not
// be read as this call's. A call that failed and changed nothing is not charged.
func recordEdits(ctx context.Context, ret *answer) {
	g, a, body, lost := ret.g, ret.Admission, ret.raw.Body, !memproxy.IsSuccess(ret.status)
	if lost {
		body = nil
	}
	_ = a.edits.ReadAnswer(body) // after an error the changes are read back
	err := fetchEdits(ctx, a)
	if err != nil { // edits that need no request are recorded all the same
		g.opt.Log.ErrorContext(ctx, "an agent's write is not recorded as a version: the backend could not be queried", "decision", a.Decision.ID, "error", err)
	}
	edits := a.edits.TakeEdits()
	switch changed := slices.ContainsFunc(edits, func(e memproxy.Edit) bool { return len(e.Memories) > 0 }); {
	case changed && (a.Failed || lost):
		settleChange(ctx, g, a)
	case a.Failed && !changed && err == nil:
		g.accounts.release(ctx, a)
	}
	for _, e := range edits {
		recordChanges(ctx, g, a, e.Memories)
	}
}

// RecordChanges records the memories that a tool call of a run changed: versions, owners, states.
// Others may change them too while the run goes on, also under an older decision: approved writes.
// What they made or replaced is left out: its version has the text before it, which is nobody's.
func (g Agents) RecordChanges(ctx context.Context, ruled *Admission, memories []memproxy.Memory) {
	known := newLookups(g.Gate, ruled)
	_ = known.memories(ctx, memories) // after an error only its stamp tells
	recordChanges(ctx, g.Gate, ruled, slices.DeleteFunc(slices.Clone(memories), func(m memproxy.Memory) bool {
		row, is := known.owner(m.TargetKind(), m.ID), memproxy.Hash(m.Text)
		switch {
		case m.Event == memproxy.MemoryUnchanged:
			return false
		case m.Stamp != nil && m.Stamp.ID > ruled.Decision.ID && m.Stamp.SHA256 == is && tamper.SignedFor(g.opt.Signer, ruled.Principal.Tenant, *m.Stamp):
			return true
		case row == nil || row.Decision <= ruled.Decision.ID && row.SHA256 == memproxy.Hash(m.Before):
			return false
		}
		now, _ := fetch(context.WithoutCancel(ctx), ruled.call, []string{m.ID})
		return row.SHA256 == is || now[m.ID].Text != m.Text
	}))
}

func recordChanges(ctx context.Context, g *Gate, ruled *Admission, memories []memproxy.Memory) {
	if len(memories) == 0 || ruled.op == nil || !ruled.enforced() {
		return
	}
	a := *ruled
	a.op = new(*ruled.op)
	a.op.Kind = memproxy.Learn // every tool call's changes are reported as for an addition
	ret := &answer{Admission: &a, g: g, status: 200, reading: &memproxy.Reading{Memories: memories}, byAgent: true}
	(&effects{answer: ret}).recordEffects(ctx)
	g.outcome(ctx, ret)
}

// maxStale is how often an entry is reconciled with concurrent changes of other
// processes.
const maxStale = 3

func expectedOwners(ret *effects) (all []memproxy.Ownership) {
	if ret.op.Kind != memproxy.Correct && ret.op.Kind != memproxy.Forget {
		return nil
	}
	for _, target := range ret.op.Targets {
		if row, known := ret.owners[target]; known {
			all = append(all, row)
		}
	}
	return all
}

// reconcile resolves a race with other processes: it reduces the entry to the targets
// that are in the backend as this change left them. For the others the ledger has newer
// rows, or will have them. What the backend cannot be asked about is recorded later
// (Options.Unconfirmed, or the next process). The rows are looked up before the backend is
// asked, so that the entry is stale again if a row is replaced in between.
func reconcile(ctx context.Context, ret *effects, e memproxy.Entry) memproxy.Entry {
	targets := map[memproxy.MemoryKey]string{}
	var keys []memproxy.MemoryKey
	for _, target := range ret.op.Targets {
		if row, known := ret.owners[target]; known {
			k := row.Key()
			targets[k], keys = target, append(keys, k)
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ret.g.opt.RecordTimeout)
	defer cancel()
	records, err := ret.g.opt.Ledger.Lookup(ctx, keys...)
	var there map[string]memproxy.Memory
	if err == nil {
		there, err = fetch(ctx, ret.call, ret.op.Targets)
	}
	if err != nil {
		ret.g.opt.Log.ErrorContext(ctx, "which change was the last cannot be looked up", "decision", ret.Decision.ID, "error", err)
		ret.g.opt.Unconfirmed(ret.event)
		ret.reasons = append(ret.reasons, memproxy.Reason{Code: memproxy.LedgerUnavailable, Detail: "not recorded in the ledger"})
	}
	left := map[memproxy.MemoryKey]string{} // hashes of the texts after this change, also of those that it does not touch
	for _, row := range ret.rows {
		left[row.Key()] = row.SHA256
	}
	e.ExpectedOwners = nil
	foreign := map[memproxy.MemoryKey]bool{}
	for k, target := range targets {
		m, asked := there[target]
		gone, now := ret.op.Kind == memproxy.Forget, records.Of(k)
		if foreign[k] = !asked || m.Missing != gone || !gone && left[k] != "" && memproxy.Hash(m.Text) != left[k]; !foreign[k] && now.HasOwner() {
			e.ExpectedOwners = append(e.ExpectedOwners, now.Owner)
		}
	}
	version := func(v memproxy.Version) bool { return foreign[v.MemoryKey] }
	e.Found, e.Versions = slices.DeleteFunc(e.Found, version), slices.DeleteFunc(e.Versions, version)
	e.States = slices.DeleteFunc(e.States, func(c memproxy.StateChange) bool { return foreign[c.MemoryKey] })
	e.Renewed = slices.DeleteFunc(e.Renewed, func(c memproxy.Renewal) bool { return foreign[c.MemoryKey] })
	e.Owners = slices.DeleteFunc(e.Owners, func(o memproxy.Ownership) bool {
		return foreign[o.Key()]
	})
	ret.gone = slices.DeleteFunc(ret.gone, func(o memproxy.Ownership) bool { // who deleted it first has credited the author
		return foreign[o.Key()] || records.Of(o.Key()).Owner.Deleted
	})
	return e
}

// DeletesOwner reports whether the operation deletes everything of an owner, or an owner
// itself. The end of the answer must then wait until the deletion is recorded.
func (a *Admission) DeletesOwner() bool {
	return a.op != nil && a.op.Kind == memproxy.Forget && (a.op.DeletesScope || a.op.SingleOwner)
}
