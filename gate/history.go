package gate

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate/content"
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
		return // addObjectVersions records it, because the texts are among its members
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

func changesMembers(r *evaluation) bool {
	return r.enforced() && r.Reply == nil && admitted(r) && len(r.op.Changes) > 0
}

// images fetches the objects whose members the operation changes, unless they were
// fetched already. Their present state is recorded as the version before the change.
// This is history, not permission: an object that cannot be read is changed all the
// same, and then only its new state is recorded.
func images(ctx context.Context, r *evaluation) error {
	var ask []string
	for i := range r.op.Changes {
		id := r.op.Changes[i].Object
		if m, known := r.op.Current[id]; id != "" && !(known && (m.Missing || m.Members != nil)) && len(ask) < maxImages && !slices.Contains(ask, id) {
			ask = append(ask, id)
		}
	}
	if len(ask) == 0 {
		return nil
	}
	found, err := fetch(ctx, r.call, ask)
	if err != nil {
		r.g.opt.Log.WarnContext(ctx, "the object that a change replaces cannot be fetched", "decision", r.Decision.ID, "error", err)
	}
	if r.op.Current == nil {
		r.op.Current = make(map[string]memproxy.Memory, len(found))
	}
	for id, m := range found {
		if _, known := r.op.Current[id]; !known && m.Members != nil {
			r.op.Current[id] = m
		}
	}
	return nil
}

// addObjectVersions adds the versions of metadata and of objects other than memories that
// were made, changed or deleted.
func (ret *effects) addObjectVersions(e *memproxy.Entry) {
	if ret.call.restores {
		return // a rollback records the version itself, from the restored state
	}
	changed := func(id string, before, after []byte, op memproxy.VersionOp) {
		was, is := memproxy.Memory{Text: string(before)}, memproxy.Memory{Text: string(after)}
		ret.addVersion(e, memproxy.TargetObject, id, op, was, is)
	}
	for i := range ret.op.Changes {
		c := &ret.op.Changes[i]
		if c.Object == "" {
			if m, ok := answered(ret.answer); ok {
				changed(m.ID, nil, m.Members, memproxy.OpUpdate)
			}
			continue
		}
		id, before := ret.stateBefore(c.Object)
		after, err := c.Apply(before.Members)
		if err != nil || before.Members != nil && bytes.Equal(after, before.Members) {
			continue // it was decoded from a valid request; nothing changes
		}
		changed(id, before.Members, after, memproxy.OpUpdate)
	}
	if ret.op.Kind == memproxy.Learn && ret.reading != nil {
		for i := range ret.reading.Memories {
			switch m := &ret.reading.Memories[i]; {
			case m.ID == "" || m.Members == nil || m.Drop:
			case ret.byAgent && m.PreviousMembers != nil:
				changed(m.ID, m.PreviousMembers, m.Members, memproxy.OpSelfEdit)
			case m.Event == "" || m.Event == memproxy.MemoryAdded:
				changed(m.ID, nil, m.Members, memproxy.OpWrite)
			}
		}
	}
	if ret.op.Kind == memproxy.Forget {
		for _, target := range ret.op.Targets {
			if id, before := ret.stateBefore(target); before.Members != nil && !slices.Contains(ret.op.Kept, target) {
				changed(id, before.Members, nil, memproxy.OpDelete)
			}
		}
	}
}

// answered returns the changed object from the answer, for a request that does not name
// the object.
func answered(ret *answer) (memproxy.Memory, bool) {
	m, err := ret.call.Backend.Adapter.ReadLocated(ret.call.Route, "", ret.raw)
	return m, err == nil && m.ID != "" && m.Members != nil
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
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ret.g.opt.StoreTimeout)
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
