package gate

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate/access"
	"github.com/memproxy/memproxy/internal/cache"
)

// lookups are what the ledger said in one phase of a request: its admission, or
// its answer. Every object is asked about once, so that all steps of a phase
// judge the same. After an error the ledger is not asked again: each question
// could take as long as the one that failed.
type lookups struct {
	ledger  Ledger
	backend string
	records map[memproxy.MemoryKey]memproxy.Record
	asked   map[memproxy.MemoryKey]struct{}
	err     error
}

func newLookups(g *Gate, a *Admission) *lookups {
	return &lookups{ledger: g.opt.Ledger, backend: a.call.Backend.Name, asked: map[memproxy.MemoryKey]struct{}{}}
}

func (ret *answer) lookups() *lookups {
	if ret.looked == nil {
		ret.looked = newLookups(ret.g, ret.Admission)
	}
	return ret.looked
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

// need asks about the objects that were not asked about. An error means that
// nothing is known of them.
func (l *lookups) need(ctx context.Context, keys ...memproxy.MemoryKey) error {
	if l.err != nil {
		return l.err
	}
	ask := make([]memproxy.MemoryKey, 0, len(keys))
	for _, k := range keys {
		if _, asked := l.asked[k]; !asked && k.ID != "" {
			l.asked[k] = struct{}{}
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
	if l.records == nil {
		l.records = found
		return nil
	}
	maps.Copy(l.records, found)
	return nil
}

// memories asks about memories as an answer shows them.
func (l *lookups) memories(ctx context.Context, memories []memproxy.Memory) error {
	keys := make([]memproxy.MemoryKey, len(memories))
	for i := range memories {
		keys[i] = l.key(kindOf(&memories[i]), memories[i].ID)
	}
	return l.need(ctx, keys...)
}

// of is the record of an object: empty where nothing is recorded, or it was not
// asked about.
func (l *lookups) of(kind memproxy.TargetKind, id string) memproxy.Record {
	if l == nil {
		return memproxy.Record{}
	}
	return l.records[l.key(kind, id)]
}

// owner is who owns an object, or nil.
func (l *lookups) owner(kind memproxy.TargetKind, id string) *memproxy.Ownership {
	if rec := l.of(kind, id); rec.Owned() {
		owner := rec.Owner // not the whole record, which would go to the heap
		return &owner
	}
	return nil
}

// rate notes a status that a step found out.
func (l *lookups) rate(st memproxy.Status) {
	rec := l.records[st.MemoryKey]
	rec.Status = st
	if l.records == nil {
		l.records = map[memproxy.MemoryKey]memproxy.Record{}
	}
	l.records[st.MemoryKey] = rec
}

// unpictured: no members of objects are changed.
func unpictured(r *run) bool {
	return r.op == nil || len(r.op.Changes) == 0 || !r.enforced() || r.Reply != nil || r.Decision.Verdict.Stops()
}

// images asks the backend for the objects whose members the operation changes,
// as far as nobody asked yet: what stands there now is the version before. It is
// history, not permission: an object that cannot be read is changed all the same,
// and its version then says only what it became.
func images(ctx context.Context, r *run) error {
	loc, ok := r.call.Backend.Adapter.(Locator)
	if !ok || r.call.Backend.Fetch == nil {
		return nil
	}
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
	found, err := located(ctx, r.g, r.call, loc, ask)
	if err != nil {
		r.g.opt.Log.WarnContext(ctx, "what a change replaces cannot be read", "decision", r.Decision.ID, "error", err)
	}
	for id, m := range found {
		if m.Members == nil {
			continue
		}
		if r.op.Current == nil {
			r.op.Current = make(map[string]memproxy.Memory, len(found))
		}
		if _, known := r.op.Current[id]; !known {
			r.op.Current[id] = m
		}
	}
	return nil
}

// objects are the versions of what is next to memories' texts, and of objects
// that are no memories: of those that came to be, were changed or are gone.
func (ret *effects) objects() (found, out []memproxy.Version) {
	if ret.call.restores {
		return nil, nil // whoever rolls back keeps the version, of what is there afterwards
	}
	changed := func(id string, before, after []byte, op memproxy.VersionOp) {
		v := ret.version(memproxy.TargetObject, id, op)
		v.Text = string(after)
		if before != nil {
			was := ret.version(memproxy.TargetObject, id, memproxy.OpSeal)
			was.Score, was.Attestation, was.Text = 0, ret.attested(nil), string(before)
			found, v.Before = append(found, was), textHash(string(before))
		}
		out = append(out, v)
	}
	for i := range ret.op.Changes {
		c := &ret.op.Changes[i]
		if c.Object == "" {
			if m, ok := ret.answered(); ok {
				changed(m.ID, nil, m.Members, memproxy.OpUpdate)
			}
			continue
		}
		id, before := ret.before(c.Object)
		after, err := c.Over(before.Members)
		if err != nil || before.Members != nil && bytes.Equal(after, before.Members) {
			continue // it was decoded from a request that was understood; nothing changes
		}
		changed(id, before.Members, after, memproxy.OpUpdate)
	}
	if ret.op.Kind == memproxy.Learn && ret.reading != nil {
		for i := range ret.reading.Memories {
			switch m := &ret.reading.Memories[i]; {
			case m.ID == "" || m.Members == nil || m.Drop:
			case ret.self && m.Was != nil:
				changed(m.ID, m.Was, m.Members, memproxy.OpSelfEdit)
			case m.Event == "" || m.Event == eventAdd:
				changed(m.ID, nil, m.Members, memproxy.OpWrite)
			}
		}
	}
	if ret.op.Kind == memproxy.Forget {
		for _, target := range ret.op.Targets {
			if id, before := ret.before(target); before.Members != nil {
				changed(id, before.Members, nil, memproxy.OpDelete)
			}
		}
	}
	return found, out
}

// answered is the object that an answer is, of a request that did not say which
// one it would change.
func (ret *effects) answered() (memproxy.Memory, bool) {
	loc, ok := ret.call.Backend.Adapter.(Locator)
	if !ok {
		return memproxy.Memory{}, false
	}
	m, err := loc.Located(ret.call.Route, "", ret.raw)
	return m, err == nil && m.ID != "" && m.Members != nil
}

// viewer is a view of one principal, with where to ask for what it needs.
type viewer struct {
	access.View
	known *lookups
	call  *Admission // what is judged, for asking its backend
}

func (a *Admission) viewer(signer Signer, known *lookups) viewer {
	t := a.call.Backend.Tenant
	return viewer{known: known, call: a, View: access.View{
		Principal: &a.Principal, Unattributed: a.rules.Unattributed, Rows: known.owner, Declared: t != "" && t == a.Principal.Tenant,
		Signed: func(s memproxy.Stamp) bool { return signedFor(signer, a.Principal.Tenant, s) },
	}}
}

// lookUp finds out what is needed to judge the scopes of records, and memories
// without one: whose the owners and objects are that they name. An error means
// that nothing is known of them. Also are asked about along with them.
func (v *viewer) lookUp(ctx context.Context, g *Gate, scopes []memproxy.Scope, bare []memproxy.Memory, also ...memproxy.MemoryKey) error {
	ask := func(kind memproxy.TargetKind, id string) { also = append(also, v.known.key(kind, id)) }
	named := func(s *memproxy.Scope, all bool) {
		for _, d := range access.Dimensions {
			name := s.In(d)
			if name == "" || !all && v.Principal.May(d).Allows(name) {
				continue
			}
			ask(memproxy.TargetEntity, memproxy.OwnerID(d, name))
			ask(memproxy.TargetMemory, name)
		}
	}
	for i := range scopes {
		named(&scopes[i], false)
	}
	for i := range bare {
		named(&bare[i].Scope, true)
		for _, ref := range bare[i].Within {
			ask(ref.Kind, ref.ID)
		}
	}
	if err := v.known.need(ctx, also...); err != nil {
		return err
	}
	if err := v.ascend(ctx, g, bare); err != nil || v.Principal.ActsAs.All {
		return err
	}
	also = also[:0]
	for i := range bare {
		for _, ref := range bare[i].Within {
			named(&memproxy.Scope{Agent: v.Agent(ref)}, false)
		}
	}
	return v.known.need(ctx, also...)
}

// How records are kept.
const (
	// maxTracks bounds the authors whose records are kept, about 200 bytes each.
	maxTracks = 8192
	// keepTrack is how long a record holds; a correction that this process lets
	// in ends it at once.
	keepTrack = 10 * time.Second
	// keepGap is how long nobody asks again after a ledger that did not answer.
	keepGap = time.Second
	// trackTimeout bounds one question.
	trackTimeout = time.Second
)

// tracks are the records of the authors who wrote lately.
type tracks struct {
	kept  cache.Cache[author, kept]
	clock func() time.Time
}

type author struct{ tenant, id string }

type kept struct {
	track memproxy.Track
	known bool // the ledger said so, once
	until time.Time
}

func newTracks(clock func() time.Time) *tracks {
	return &tracks{kept: cache.New[author, kept](maxTracks), clock: clock}
}

func (t *tracks) forget(tenant, id string) { t.kept.Remove(author{tenant, memproxy.Account(id)}) }

// of returns an author's record, and false where nobody knows it: the ledger
// did not answer, and never did about this author.
func (t *tracks) of(ctx context.Context, from Ledger, tenant, id string) (memproxy.Track, bool, error) {
	who, now := author{tenant, id}, t.clock()
	last, there := t.kept.Get(who)
	if there && now.Before(last.until) {
		return last.track, last.known, nil
	}
	ctx, cancel := context.WithTimeout(ctx, trackTimeout)
	defer cancel()
	track, err := from.Record(ctx, tenant, id)
	if err != nil {
		last.until = now.Add(keepGap)
		t.kept.Add(who, last)
		return last.track, last.known, err
	}
	t.kept.Add(who, kept{track: track, known: true, until: now.Add(keepTrack)})
	return track, true, nil
}

// loadTrack loads the caller's track record, and reports whether it is known: now, or
// from the last time that the ledger answered.
func loadTrack(ctx context.Context, r *run) bool {
	track, known, err := r.g.tracks.of(ctx, r.g.opt.Ledger, r.Principal.Tenant, r.Principal.Account())
	if err != nil {
		r.g.opt.Log.WarnContext(ctx, "a track record cannot be looked up", "decision", r.Decision.ID, "principal", r.Principal.ID, "error", err)
	}
	r.track, r.trackKnown = track, known
	return known
}

// unearned: the caller's tier is not one that a record raises, or nothing is
// written.
func unearned(r *run) bool {
	return unlocked(r) || r.Principal.Trust != memproxy.TrustAuthenticated || r.rules.Earning.Facts == 0
}

// earn makes an authenticated caller an established one whose record is good
// enough. A record that nobody can look up earns nothing.
func earn(ctx context.Context, r *run) error {
	if loadTrack(ctx, r) && r.rules.Earning.Earned(r.track, r.begun) {
		r.Principal.Trust = memproxy.TrustEstablished
	}
	return nil
}
