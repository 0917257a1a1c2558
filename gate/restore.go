package gate

import (
	"context"

	"github.com/memproxy/memproxy"
)

// A Restorer is an Adapter that can put a memory back to what it was.
type Restorer interface {
	// Restore returns requests that make a memory what a version of it was,
	// one for each dialect of the backend that knows it: the first that the
	// backend has counts. None where there is no such request.
	Restore(to memproxy.Version) []memproxy.Search

	// Remove returns requests that delete a memory, in the same way.
	Remove(memproxy.MemoryKey) []memproxy.Search
}

// Restored notes that a memory is again what a version of it was, so that its
// text is not taken for one that was changed behind the proxy.
func (g *Gate) Restored(ctx context.Context, to memproxy.Version, decision string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.opt.RecordTimeout)
	defer cancel()
	rows, err := g.opt.Ledger.Owners(ctx, to.Backend, to.Kind, []string{to.ID})
	if err == nil {
		if row, known := rows[to.ID]; known {
			row.SHA256, row.Decision, row.Deleted = textHash(to.Text), decision, false
			err = g.opt.Ledger.Put(ctx, row)
		}
	}
	if err != nil {
		g.opt.Meter.LedgerFailed(ctx)
		g.opt.Log.ErrorContext(ctx, "ledger not updated", "decision", decision, "error", err)
	}
}
