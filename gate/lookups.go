package gate

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate/access"
	"github.com/memproxy/memproxy/gate/tamper"
)

// lookups caches the ledger's records in one phase of a request: its admission, or its
// answer. Every object is looked up once, so that all steps of a phase use the same
// record (no TOCTOU between them). After an error the ledger is not asked again, because
// each lookup could take as long as the failed one.
type lookups struct {
	ledger  Ledger
	backend string
	records memproxy.Records // of what was asked about; nil: nothing is recorded
	err     error
}

func newLookups(g *Gate, a *Admission) *lookups {
	return &lookups{ledger: g.opt.Ledger, backend: a.call.Backend.Name}
}

func (ret *answer) lookups() *lookups {
	if ret.cached == nil {
		ret.cached = newLookups(ret.g, ret.Admission)
	}
	return ret.cached
}

func (l *lookups) key(kind memproxy.TargetKind, id string) memproxy.MemoryKey {
	return memproxy.MemoryKey{Backend: l.backend, Kind: kind, ID: id}
}

func (l *lookups) keys(kind memproxy.TargetKind, ids ...string) []memproxy.MemoryKey {
	keys := make([]memproxy.MemoryKey, len(ids))
	for i, id := range ids {
		keys[i] = l.key(kind, id)
	}
	return keys
}

// need looks up the objects that were not looked up before. After an error none of
// them is known.
func (l *lookups) need(ctx context.Context, keys ...memproxy.MemoryKey) error {
	switch {
	case len(keys) == 0:
		return nil // also after an error: nothing is needed
	case l.err != nil:
		return l.err
	}
	if l.records == nil {
		l.records = make(memproxy.Records, len(keys))
	}
	ask := make([]memproxy.MemoryKey, 0, len(keys))
	for _, k := range keys {
		if _, asked := l.records[k]; !asked && k.ID != "" {
			l.records[k] = nil
			ask = append(ask, k)
		}
	}
	if len(ask) == 0 {
		return nil
	}
	found, err := l.ledger.Lookup(ctx, ask...)
	if err != nil {
		l.err = err
		return err
	}
	maps.Copy(l.records, found)
	return nil
}

func (l *lookups) memories(ctx context.Context, memories []memproxy.Memory) error {
	keys := make([]memproxy.MemoryKey, len(memories))
	for i := range memories {
		keys[i] = l.key(memories[i].TargetKind(), memories[i].ID)
	}
	return l.need(ctx, keys...)
}

// nothing is the record of an object of which nothing is recorded.
var nothing = new(memproxy.Record)

// of returns the record of an object. It is empty if there is none, or if the object was
// not looked up.
func (l *lookups) of(kind memproxy.TargetKind, id string) *memproxy.Record {
	if l != nil {
		if rec := l.records[l.key(kind, id)]; rec != nil {
			return rec
		}
	}
	return nothing
}

// owner returns the ownership of an object, or nil.
func (l *lookups) owner(kind memproxy.TargetKind, id string) *memproxy.Ownership {
	if rec := l.of(kind, id); rec.HasOwner() {
		return new(rec.Owner) // the record is shared, and callers change the copy
	}
	return nil
}

func (l *lookups) setStatus(st memproxy.Status) {
	rec := l.records.Of(st.MemoryKey)
	rec.Status = st
	l.records[st.MemoryKey] = &rec
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

// viewer is an access.View that can load the records it needs.
type viewer struct {
	access.View
	known *lookups
	call  *Admission // the call being judged, for requests to its backend
}

func (a *Admission) viewer(signer Signer, known *lookups) viewer {
	t := a.call.Backend.Tenant
	return viewer{known: known, call: a, View: access.View{
		Principal: &a.Principal, Unattributed: a.rules.Unattributed, Rows: known.owner, Declared: t != "" && t == a.Principal.Tenant,
		Signed: func(s memproxy.Stamp) bool { return tamper.SignedFor(signer, a.Principal.Tenant, s) },
	}}
}

// lookUp loads the owners and objects that the scopes of records refer to, and those of
// the memories in bare, which have no record. The keys in also are looked up with them.
// After an error none of them is known, and the view is blind.
func (v *viewer) lookUp(ctx context.Context, scopes []*memproxy.Scope, bare []memproxy.Memory, also ...memproxy.MemoryKey) (err error) {
	defer func() { v.Blind = v.Blind || err != nil }()
	ask := func(kind memproxy.TargetKind, id string) { also = append(also, v.known.key(kind, id)) }
	named := func(s *memproxy.Scope, all bool) {
		for _, d := range memproxy.Dimensions {
			name := s.In(d)
			if name == "" || !all && v.Principal.LimitIn(d).Allows(name) {
				continue
			}
			ask(memproxy.TargetEntity, memproxy.OwnerID(d, name))
			ask(memproxy.TargetMemory, name)
		}
	}
	for i := range scopes {
		named(scopes[i], false)
	}
	for i := range bare {
		named(&bare[i].Scope, true)
		for _, ref := range bare[i].Parents {
			ask(ref.Kind, ref.ID)
		}
	}
	if err := v.known.need(ctx, also...); err != nil {
		return err
	}
	if err := v.loadParents(ctx, bare); err != nil || v.Principal.ActsAs.All {
		return err
	}
	also = also[:0]
	for i := range bare {
		for _, ref := range bare[i].Parents {
			named(&memproxy.Scope{Agent: v.Agent(ref)}, false)
		}
	}
	return v.known.need(ctx, also...)
}

// How track records are cached.
const (
	// maxTracks bounds the authors whose track records are cached, about 200 bytes
	// each.
	maxTracks = 8192
	// keepTrack is how long a cached track record is valid; a correction that this
	// process admits invalidates it at once.
	keepTrack = 10 * time.Second
	// keepGap is how long the ledger is not asked again after it failed.
	keepGap = time.Second
	// trackShare is the divisor of RecordTimeout that bounds one lookup.
	trackShare = 5
)

type author struct{ tenant, id string }

// track is an author's track record in the cache.
type track struct {
	memproxy.Track
	until time.Time
}

// loadTrack loads the caller's track record. If the ledger fails that is the cached record, if
// there is one.
func loadTrack(ctx context.Context, r *evaluation) {
	who, now := author{r.Principal.Tenant, r.Principal.Account()}, r.g.opt.Clock()
	last, there := r.g.tracks.Get(who)
	if !there || !now.Before(last.until) {
		asking, cancel := context.WithTimeout(ctx, r.g.opt.RecordTimeout/trackShare)
		defer cancel()
		found, err := r.g.opt.Ledger.Record(asking, who.tenant, who.id)
		if err == nil {
			last = track{found, now.Add(keepTrack)}
		} else {
			last.Unknown, last.until = last.Unknown || !there, now.Add(keepGap)
			r.g.opt.Log.WarnContext(ctx, "a track record cannot be looked up",
				"decision", r.Decision.ID, "principal", r.Principal.ID, "error", err)
		}
		r.g.tracks.Add(who, last)
	}
	r.track = last.Track
}

func mayBePromoted(r *evaluation) bool {
	return writes(r) && r.Principal.Trust == memproxy.TrustAuthenticated && r.rules.Promotion.Facts != 0
}

// promote raises an authenticated caller with a good track record to established. If
// the record cannot be loaded the tier is not raised.
func promote(ctx context.Context, r *evaluation) error {
	loadTrack(ctx, r)
	if r.rules.Promotion.Met(r.track, r.begun) {
		r.Principal.Trust = memproxy.TrustEstablished
	}
	return nil
}

// idsOf returns the ids of targets, by the objects that were fetched. A request may name
// a block by its label, which another block may have later.
func idsOf(op *memproxy.Operation, names []string) []string {
	ids := slices.Clone(names)
	for i, name := range ids {
		ids[i] = cmp.Or(op.Current[name].ID, name)
	}
	return ids
}

// maskHiddenIDs replaces the ids of objects that the caller may not see, in places where the
// backend accepts any text, so that the request has the effect of an unknown id. It
// reports whether the adapter can replace ids.
func maskHiddenIDs(r *evaluation, v *viewer) bool {
	if _, masks := r.call.Backend.Adapter.(Extractor); !masks {
		return false
	}
	if len(r.op.Refs) == 0 {
		return true
	}
	hidden, seen := map[string]string{}, map[string]bool{}
	for i := range r.op.Refs {
		ref := &r.op.Refs[i]
		if !ref.Loose || slices.Contains(r.op.Targets, ref.ID) {
			continue
		}
		switch row := r.namedRecords.owner(ref.Kind, ref.ID); {
		case row != nil && v.Sees(row, &memproxy.Memory{}):
			seen[ref.ID] = true
		case row != nil:
			r.verdict.Note(memproxy.Reason{Code: memproxy.OwnerForeign, Pointer: ref.Pointer, Detail: "the id was replaced by one that does not exist: the caller may not see the object with the given id"})
			hidden[ref.ID] = r.Decision.ID
		}
	}
	maps.DeleteFunc(hidden, func(id, _ string) bool { return seen[id] })
	if len(hidden) > 0 {
		r.op.Hidden = hidden
	}
	return true
}

// ContainsHiddenID reports whether a header's value contains the id of an object that the
// caller may not see. The header is then not forwarded.
func (a *Admission) ContainsHiddenID(value string) bool {
	if a.op == nil {
		return false
	}
	for id := range a.op.Hidden {
		if strings.Contains(value, id) {
			return true
		}
	}
	return false
}
