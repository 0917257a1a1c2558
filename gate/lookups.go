package gate

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate/access"
	"github.com/memproxy/memproxy/gate/backend"
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

// maxParents bounds the objects that are fetched so that what belongs to them can be
// attributed.
const maxParents = 64

// loadParents fetches the parents of objects that memories are within and that have no
// record: of a message the run, and of the run the agent, which has an owner, or whose name
// has one. What is found counts as if it had been recorded. If one tenant has the backend alone,
// only callers who may not act for every agent need it.
func (v *viewer) loadParents(ctx context.Context, bare []memproxy.Memory) error {
	c := v.call.call
	if c.Backend.Fetch == nil || v.call.singleTenant() && v.Principal.ActsAs.All {
		return nil
	}
	var unknown []*memproxy.Memory
	for i := range bare {
		if v.Descent(&bare[i]) == access.Unknown {
			unknown = append(unknown, &bare[i])
		}
	}
	var ask []string
	for back := 1; len(unknown) > 0; back++ { // the last parents first: they are the nearest
		unknown = slices.DeleteFunc(unknown, func(m *memproxy.Memory) bool { return len(m.Parents) < back })
		for _, m := range unknown {
			if ref := m.Parents[len(m.Parents)-back]; ref.Kind == memproxy.TargetMemory && len(ask) < maxParents && !slices.Contains(ask, ref.ID) &&
				c.Backend.Adapter.Locate(c.Route, c.Request, ref.ID).EscapedPath != "" {
				ask = append(ask, ref.ID)
			}
		}
	}
	if len(ask) == 0 {
		return nil
	}
	found, _ := fetch(ctx, c, ask) // an object that is not returned belongs to nothing
	maps.DeleteFunc(found, func(_ string, m memproxy.Memory) bool { return m.Missing })
	var above []memproxy.MemoryKey
	for _, id := range ask {
		above = append(above, v.known.key(memproxy.TargetEntity, memproxy.OwnerID(memproxy.DimAgent, found[id].Scope.Agent)))
		for _, ref := range found[id].Parents {
			above = append(above, v.known.key(ref.Kind, ref.ID), v.known.key(memproxy.TargetEntity, memproxy.OwnerID(memproxy.DimAgent, ref.ID)))
		}
	}
	if err := v.known.need(ctx, above...); err != nil {
		return err
	}
	over := *v
	over.Derived = nil
	v.Derived, v.Agents = map[string]memproxy.Ownership{}, map[string]string{}
	for _, id := range ask {
		v.Agents[id] = found[id].Scope.Agent
		tenant := v.Principal.Tenant
		relation := over.Descent(&memproxy.Memory{Scope: memproxy.Scope{Agent: v.Agents[id]}, Parents: found[id].Parents})
		for _, ref := range found[id].Parents { // of a group all agents
			relation = relation.With(over.Rows(memproxy.TargetEntity, memproxy.OwnerID(memproxy.DimAgent, ref.ID)), tenant)
		}
		switch relation {
		case access.Unknown:
			continue
		case access.Foreign:
			tenant += "/" // not the caller's tenant; which one does not matter
		}
		v.Derived[id] = memproxy.Ownership{Kind: memproxy.TargetMemory, ID: id, Scope: memproxy.Scope{Tenant: tenant}}
	}
	return nil
}

// maySee reports whether the caller may see an object. It returns false if that cannot
// be determined.
func maySee(ctx context.Context, g *Gate, a *Admission, id string) bool {
	if a.call.Backend.Fetch == nil {
		return false
	}
	known := newLookups(g, a)
	if err := known.need(ctx, known.key(memproxy.TargetMemory, id)); err != nil {
		return false
	}
	v := a.viewer(g.opt.Signer, known)
	if row := known.owner(memproxy.TargetMemory, id); row != nil {
		return v.lookUp(ctx, []*memproxy.Scope{&row.Scope}, nil) == nil && v.Sees(row, &memproxy.Memory{})
	}
	found, err := fetch(ctx, a.call, []string{id})
	if err != nil {
		g.opt.Log.WarnContext(ctx, "the owner of a run could not be determined", "decision", a.Decision.ID, "error", err)
		return false
	}
	m := found[id]
	return !m.Missing && v.lookUp(ctx, nil, []memproxy.Memory{m}) == nil && v.Sees(nil, &m)
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
	// trackShare is the divisor of StoreTimeout that bounds one lookup.
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
		asking, cancel := context.WithTimeout(ctx, r.g.opt.StoreTimeout/trackShare)
		defer cancel()
		found, err := r.g.opt.Ledger.Track(asking, who.tenant, who.id)
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
	if _, masks := r.call.Backend.Adapter.(backend.Extractor); !masks {
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
