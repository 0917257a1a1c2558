package gate

import (
	"bytes"
	"context"
	"slices"

	"github.com/memproxy/memproxy"
)

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
	found, err := r.located(ctx, loc, ask)
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

// objects are the versions of what stands beside memories' texts, and of objects
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
