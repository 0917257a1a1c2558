package gate

import (
	"context"
	"time"

	"github.com/memproxy/memproxy"
)

// A Restorer is an Adapter that can put a memory back to what it was. Where a
// backend has several dialects it returns one request for each that knows the
// memory: the first that the backend has counts. None where there is no such
// request.
type Restorer interface {
	// Find returns requests that show a memory as it is.
	Find(memproxy.MemoryKey) []memproxy.Search

	// Found reads the answer to one of them. One that is not there comes back
	// with Missing set.
	Found(memproxy.MemoryKey, memproxy.Reply) (memproxy.Memory, error)

	// Restore returns requests that make a memory what a version of it was.
	// Now is the memory as it is: its other metadata stays, the stamp takes the
	// place of the one that is there.
	Restore(to memproxy.Version, now memproxy.Memory, stamp memproxy.Stamp) []memproxy.Search

	// Remove returns requests that delete a memory.
	Remove(memproxy.MemoryKey) []memproxy.Search
}

// RestoredStamp is the provenance of a memory that is made again what a version
// of it was: that version's words and worth, under the rollback's decision.
func (g Reviewed) RestoredStamp(to memproxy.Version, decision string) memproxy.Stamp {
	return g.opt.Signer.Sign(memproxy.Stamp{
		ID: decision, Actor: to.Actor, Tenant: to.Tenant, Trust: to.Trust, Confidence: to.Confidence, Source: memproxy.SourceUnstated,
		Attestation: to.Attestation, Time: g.opt.Clock().UTC().Truncate(time.Second), SHA256: textHash(to.Text),
		Trigger: "rollback",
	})
}

// Restored notes that a memory is again what a version of it was, so that its
// text is not taken for one that was changed behind the proxy.
func (g Reviewed) Restored(ctx context.Context, to memproxy.Version, decision string) {
	g.amendRow(ctx, to.MemoryKey, decision, func(row *memproxy.Ownership) {
		row.SHA256, row.Decision, row.Deleted = textHash(to.Text), decision, false
	})
}

// FoundGone notes that a memory was deleted in the backend, around memproxy.
func (g Reviewed) FoundGone(ctx context.Context, k memproxy.MemoryKey, decision string) {
	g.amendRow(ctx, k, decision, func(row *memproxy.Ownership) { row.Deleted = true })
}

func (g Reviewed) amendRow(ctx context.Context, k memproxy.MemoryKey, decision string, change func(*memproxy.Ownership)) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.opt.RecordTimeout)
	defer cancel()
	records, err := g.opt.Ledger.Lookup(ctx, k)
	if rec := records[k]; err == nil && rec.Owned() {
		change(&rec.Owner)
		err = g.opt.Ledger.Commit(ctx, memproxy.Entry{Queued: true, Owners: []memproxy.Ownership{rec.Owner}})
	}
	if err != nil {
		g.opt.Log.ErrorContext(ctx, "ledger not updated", "decision", decision, "error", err)
	}
}
