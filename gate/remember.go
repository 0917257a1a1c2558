package gate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"

	"github.com/memproxy/memproxy"
)

// remember puts what the write did into the ledger: who owns the memories that
// came to be, which are gone. A ledger that fails here cannot undo the write;
// the owner is then asked upstream the next time.
func (ret *returning) remember(ctx context.Context) {
	if ret.op == nil || !ret.rules.Enforce && ret.reading == nil {
		return
	}
	if ret.status >= 400 && ret.status < 500 {
		ret.g.release(ctx, ret.Admission) // the backend refused: nothing was written
		return
	}
	if !ok2xx(ret.status) {
		return
	}
	switch ret.op.Kind {
	case memproxy.Learn:
		ret.learned()
	case memproxy.Correct:
		ret.corrected()
	case memproxy.Forget:
		ret.forgotten(ctx)
	case memproxy.Recall:
		ret.exported()
	}
	if len(ret.rows) == 0 {
		return
	}
	rows := slices.SortedFunc(maps.Values(ret.rows), func(a, b memproxy.Ownership) int {
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	if err := ret.g.opt.Ledger.Put(ctx, rows...); err != nil {
		ret.g.opt.Meter.LedgerFailed(ctx)
		ret.g.opt.Log.ErrorContext(ctx, "ledger not updated", "decision", ret.Decision.ID, "error", err)
	}
}

func (ret *returning) put(row memproxy.Ownership) {
	if ret.rows == nil {
		ret.rows = map[string]memproxy.Ownership{}
	}
	ret.rows[string(row.Kind)+"/"+row.ID] = row
}

// row is the ownership of something that this operation made.
func (ret *returning) row(kind memproxy.TargetKind, id string) memproxy.Ownership {
	row := memproxy.Ownership{
		Backend: ret.op.Backend, Kind: kind, ID: id, Scope: ret.op.Scope,
		Actor: ret.Principal.ID, Trust: ret.Principal.Trust, Confidence: ret.event.Confidence,
		Source: ret.op.SourceClaim, Decision: ret.Decision.ID, Written: ret.begun,
	}
	row.Scope.Tenant = ret.Principal.Tenant
	return row
}

// learned remembers new memories and receipts. A backend whose own model
// decides may also have updated or deleted others; the answer says so.
func (ret *returning) learned() {
	if ret.reading == nil {
		return
	}
	for i := range ret.reading.Memories {
		m := &ret.reading.Memories[i]
		if m.ID == "" {
			continue
		}
		row := ret.row(memproxy.TargetMemory, m.ID)
		row.SHA256 = textHash(m.Text)
		row.Deleted = m.Event == "DELETE"
		ret.put(row)
		ret.shown = append(ret.shown, m.ID)
	}
	for _, id := range ret.reading.Events {
		ret.put(ret.row(memproxy.TargetEvent, id))
	}
}

// corrected keeps the author and notes the new text's hash. The memory of
// which nobody knows the author stays unattributed.
func (ret *returning) corrected() {
	texts := map[string]string{}
	for i := range ret.op.Items {
		if it := &ret.op.Items[i]; it.Kind == memproxy.ItemContent && it.Target != "" {
			texts[it.Target] = it.Text
		}
	}
	for _, id := range ret.op.Targets {
		row, known := ret.owners[id]
		text, written := texts[id]
		if !known || !written {
			continue
		}
		row.SHA256, row.Decision = textHash(text), ret.Decision.ID
		ret.put(row)
	}
	ret.shown = ret.op.Targets
}

// forgotten leaves tombstones and lowers the authors' totals.
func (ret *returning) forgotten(ctx context.Context) {
	var gone []memproxy.Ownership
	for _, id := range ret.op.Targets {
		row, known := ret.owners[id]
		if !known {
			continue
		}
		gone = append(gone, row)
		row.Deleted = true
		ret.put(row)
	}
	ret.g.repay(ctx, ret.Admission, gone)
	ret.shown = ret.op.Targets
}

// exported remembers whose an export job is.
func (ret *returning) exported() {
	if ret.reading == nil || !ret.op.Derived {
		return
	}
	for _, id := range ret.reading.Events {
		ret.put(ret.row(memproxy.TargetExport, id))
	}
}

func textHash(text string) string {
	if text == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
