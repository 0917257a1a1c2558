package gate

import (
	"context"
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
)

// records looks up what is known of an answer's memories, and whose the owners
// and objects are that they name. If the ledger cannot be asked, provenance is
// unknown, which is the lowest trust.
func records(ctx context.Context, ret *answer) error {
	known := ret.lookups()
	ret.view = ret.viewer(ret.g.opt.Signer, known)
	ret.settled = len(ret.op.Targets) > 0 && !ret.deferred() && ret.op.Kind != memproxy.Learn
	named := false
	err := known.memories(ctx, ret.reading.Memories)
	rows := make([]memproxy.Ownership, 0, 2*len(ret.items))
	var bare []memproxy.Memory
	ret.fresh = slices.Clone(ret.reading.Made)
	for i := range ret.items {
		it := &ret.items[i]
		named = named || it.ID != "" && !it.Drop
		if it.know(known); it.row != nil {
			rows = append(rows, *it.row, memproxy.Ownership{Scope: it.Scope})
			continue
		}
		bare = append(bare, *it.Memory)
		ret.fresh = append(ret.fresh, it.ID)
	}
	if ret.answers && !named {
		ret.settled = true // it shows nothing but the write itself, which was ruled on
		return nil
	}
	if err == nil {
		err = ret.view.lookUp(ctx, ret.g, rows, bare)
	}
	if err != nil {
		ret.view.Blind, ret.blind = true, true
	}
	return nil
}

// examine compares the memories with what was written. A text that the backend's
// own agents change may be on its way into the ledger: it is looked at again
// before it counts as changed.
func examine(ctx context.Context, ret *answer) error {
	if ret.rules.Changed == ChangedIgnore {
		return nil
	}
	e := examinerOf(ret.g, ret.Admission)
	for i := range ret.items {
		it := &ret.items[i]
		if it.Drop || it.Missing || it.ID == "" {
			continue
		}
		if !ret.answers {
			it.altered, it.detail = e.Examine(ctx, it.row, it.Memory)
			switch {
			case it.altered == memproxy.IntegrityMismatch && it.Mutable:
				it.altered = ""
				if ret.g.opt.Check != nil {
					ret.g.opt.Check(*it.row)
				}
			case it.altered == "" && it.row == nil && it.Stamp == nil && !it.Mutable && it.Text != "" && it.rec.Listing == memproxy.Unlisted:
				it.altered, it.detail = memproxy.IntegrityUnknown, "nobody wrote it through memproxy"
			}
		}
		if it.altered == "" && !ret.ownWords(it.Memory) {
			it.altered, it.detail = it.rec.Status.Unverified, "it was found not to be what was written"
		}
	}
	return nil
}

// statuses finds out how the memories are to be shown by their status. If the
// ledger cannot be asked, every memory counts as untrusted (docs/design.md, table
// of failures).
func statuses(ctx context.Context, ret *answer) error {
	if !ret.answers || ret.op.Kind != memproxy.Learn { // what an addition made has just come to be
		byDecision(ctx, ret)
		unrated(ret)
	}
	for i := range ret.items {
		if it := &ret.items[i]; it.rec.Rated() && !it.Missing && !ret.ownWords(it.Memory) {
			it.display = displayed(ret, it)
		}
	}
	return nil
}

// unrated withholds memories of which nothing is recorded, or the ledger could
// not be asked, where what is untrusted is withheld. Those that were written
// around memproxy are among them.
func unrated(ret *answer) {
	if !ret.rules.WithholdUntrusted {
		return
	}
	for i := range ret.items {
		it := &ret.items[i]
		if it.unsaid == "" && !it.rec.Rated() && it.ID != "" && (it.Text != "" || len(it.Also) > 0) && !it.Drop && it.Layer != memproxy.Episodic {
			it.unsaid = "the status of the memory is not known, and it is withheld"
		}
	}
}

// compilations finds out whether what the backend makes of memories is hidden
// from the caller. It is asked only where an answer shows such a thing.
func compilations(ctx context.Context, ret *answer) error {
	if slices.ContainsFunc(ret.items, func(it item) bool { return it.Compiled && !it.Drop }) {
		ret.hiding = ret.call.Wishes.MinTrust > 0 || hides(ctx, ret.g, ret.Admission)
	}
	return nil
}

// screened has the memories judged by screening, as the answer shows them.
func screened(ctx context.Context, ret *answer) error {
	flagged := slices.ContainsFunc(ret.items, func(it item) bool { return it.display == sanitise })
	if ret.rules.Withhold <= 0 && ret.rules.Sanitise <= 0 && !flagged {
		return nil
	}
	found, err := ret.judge(ctx, ret.reading.Memories)
	ret.screened = found != nil
	for i, j := range found {
		ret.items[i].judged = j
	}
	return err
}

// befores finds the texts that a write replaced and that nobody can attribute, or
// that look like attacks.
func befores(ctx context.Context, ret *answer) error {
	if !ret.answers {
		return nil
	}
	before := make([]memproxy.Memory, len(ret.items))
	for i := range ret.items {
		it := &ret.items[i]
		it.orphan = it.Before != "" && it.row == nil && !ret.rules.OneTenant && !ret.view.Declared
		before[i] = memproxy.Memory{Text: it.Before, Field: it.Field, Drop: it.Drop || it.orphan}
	}
	risks, err := ret.risks(ctx, before)
	for i, risk := range risks {
		ret.items[i].orphan = ret.items[i].orphan || risk >= ret.rules.Withhold
	}
	return err
}

// enclosures finds items that are part of one that is left out.
func enclosures(_ context.Context, ret *answer) error {
	gone := map[string]bool{}
	for i := range ret.items {
		if it := &ret.items[i]; it.Drop {
			gone[it.Pointer] = true
		}
	}
	if len(gone) == 0 {
		return nil
	}
	for i := range ret.items {
		it := &ret.items[i]
		for at := strings.LastIndexByte(it.Pointer, '/'); at > 0 && !it.inside; at = strings.LastIndexByte(it.Pointer[:at], '/') {
			it.inside = gone[it.Pointer[:at]]
		}
	}
	return nil
}
