package integrity

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate/tamper"
	"github.com/memproxy/memproxy/ledger"
	"github.com/memproxy/memproxy/screen/hunt"
)

// finding is a discrepancy. If the text differs, has and wants are the hashes of the
// present and the recorded text.
type finding struct {
	memproxy.Discrepancy
	has, wants string
}

func (w *storeSweep) finding(
	tenant, id string, class memproxy.FaultClass, code memproxy.ReasonCode, detail string,
) *finding {
	return &finding{Discrepancy: memproxy.Discrepancy{
		Class: class, Code: code, Tenant: tenant, Detail: detail,
		MemoryKey: memproxy.MemoryKey{Backend: w.backend.Name, Kind: memproxy.TargetMemory, ID: id},
	}}
}

// comparison is the result of comparing a page once.
type comparison struct {
	items, known, unknown, skipped int
	found                          map[string]*finding // by id
	unchanged                      []string            // ids of memories that are as recorded
}

// comparePage compares the items of a page with the ledger.
func (w *storeSweep) comparePage(ctx context.Context, items []hunt.Item) (comparison, error) {
	out := comparison{found: map[string]*finding{}}
	for _, item := range items {
		if item.ID != "" {
			w.seenIDs[w.hash(item.ID)] = struct{}{}
		}
	}
	entries, err := entriesOf(ctx, w.c, w.backend.Name, w.adapter, items)
	for i := range entries {
		e := &entries[i]
		out.items++
		rec, row, m := &e.record, &e.record.Owner, &e.memory
		switch {
		case e.Incomplete:
			out.skipped++
		case rec.Status.Unverified == memproxy.IntegrityLedger:
			if row.Scope.Tenant != memproxy.TenantInaccessible { // otherwise the verification of its tenant's chain reports the row
				out.found[e.ID] = w.finding(rec.Status.Tenant, e.ID, memproxy.FaultTamper, memproxy.IntegrityLedger, rec.Status.Reason)
			}
		case e.invalid:
			out.found[e.ID] = w.finding(row.Scope.Tenant, e.ID, memproxy.FaultTamper, memproxy.IntegrityMismatch, "its JSON is ambiguous")
		case rec.HasOwner():
			err = w.compareRecorded(ctx, row, m, &out)
		case rec.Presence == memproxy.PresentAtSeal && m.Stamp == nil:
			err = w.comparePresentAtSeal(ctx, rec.FirstSeen, m, &out)
		default:
			w.compareUnrecorded(ctx, m, &out)
		}
		if err != nil {
			break
		}
	}
	return out, err
}

func (w *storeSweep) examiner(tenant string) *tamper.Examiner {
	return &tamper.Examiner{Ledger: w.c.Ledger, Signer: w.c.Signer, Backend: w.backend.Name, Tenant: tenant}
}

// compareUnrecorded judges a memory without a record. It was written out-of-band, before
// memproxy, or by a write whose answer names no ids.
func (w *storeSweep) compareUnrecorded(ctx context.Context, m *memproxy.Memory, out *comparison) {
	if m.Stamp != nil {
		for _, tenant := range w.tenants {
			if !tamper.SignedFor(w.c.Signer, tenant, *m.Stamp) {
				continue
			}
			if code, detail := w.examiner(tenant).Examine(ctx, nil, m); code != "" {
				out.found[m.ID] = w.finding(tenant, m.ID, classOf(code, memproxy.FaultInsert), code, detail)
			}
			return // the next read records its owner
		}
		out.found[m.ID] = w.finding("", m.ID, memproxy.FaultForge, memproxy.IntegrityForged, "the provenance is not signed by this installation")
		return
	}
	if w.sealed {
		out.found[m.ID] = w.finding("", m.ID, memproxy.FaultInsert, memproxy.IntegrityUnknown, "it was not written through memproxy")
		return
	}
	out.unknown++
}

// comparePresentAtSeal judges a memory that the backend held when it was sealed, by its text at that
// time or by the text that was written through memproxy since.
func (w *storeSweep) comparePresentAtSeal(ctx context.Context, was string, m *memproxy.Memory, out *comparison) error {
	history, err := w.c.Ledger.History(ctx, memproxy.MemoryKey{Backend: w.backend.Name, Kind: memproxy.TargetMemory, ID: m.ID}, 0, 1)
	if err != nil {
		return err
	}
	tenant, gone := "", false
	if len(history) == 1 {
		tenant, was, gone = history[0].Tenant, history[0].SHA256, history[0].Op == memproxy.OpDelete
	}
	has := memproxy.TextSHA256(m.Text)
	switch {
	case gone:
		out.found[m.ID] = w.finding(tenant, m.ID, memproxy.FaultInsert, memproxy.IntegrityUnknown, "it was deleted through memproxy and has reappeared")
	case was != "" && was != has:
		f := w.finding(tenant, m.ID, memproxy.FaultTamper, memproxy.IntegrityMismatch, "the text differs from the one at the time of the seal, and was not written through memproxy since")
		f.has, f.wants = has, was
		out.found[m.ID] = f
	default:
		out.known++
		out.unchanged = append(out.unchanged, m.ID)
	}
	return nil
}

// compareRecorded compares a memory with the ledger's row and the newest version.
func (w *storeSweep) compareRecorded(ctx context.Context, row *memproxy.Ownership, m *memproxy.Memory, out *comparison) error {
	tenant := row.Scope.Tenant
	out.known++
	history, err := w.c.Ledger.History(ctx, row.Key(), 0, 1)
	if err != nil {
		return err
	}
	// A row from before the deletion that was put back has a valid mark.
	if row.Deleted || len(history) == 1 && (history[0].Op == memproxy.OpDelete || history[0].Op == memproxy.OpPurge) && history[0].Actor != "" {
		out.found[m.ID] = w.finding(tenant, m.ID, memproxy.FaultInsert, memproxy.IntegrityUnknown, "it was deleted through memproxy and has reappeared")
		return nil
	}
	code, detail := w.examiner(tenant).Examine(ctx, row, m)
	switch {
	// The row may have been edited before rows had marks. If there is a single write, the
	// row must have the hash of its version.
	case len(history) == 1 && history[0].Decision == row.Decision && row.SHA256 != "" && history[0].SHA256 != "" && history[0].SHA256 != row.SHA256:
		out.found[m.ID] = w.finding(tenant, m.ID, memproxy.FaultTamper, memproxy.IntegrityMismatch, "the ledger's row is not what its signed version says")
	case code == "":
		out.unchanged = append(out.unchanged, m.ID)
	case code == memproxy.IntegrityMismatch:
		f := w.finding(tenant, m.ID, memproxy.FaultTamper, code, detail)
		f.has, f.wants = memproxy.TextSHA256(m.Text), row.SHA256
		if len(history) == 1 && history[0].SHA256 == row.SHA256 {
			short, err := w.shortened(ctx, history[0], m.Text)
			if err != nil {
				return err
			}
			if short {
				f.Class, f.Detail = memproxy.FaultTruncate, "the text was cut"
			}
		}
		out.found[m.ID] = f
	default:
		out.found[m.ID] = w.finding(tenant, m.ID, classOf(code, memproxy.FaultForge), code, detail)
	}
	return nil
}

// classOf returns the class of a stamp's fault: FaultMetadata if the metadata was
// changed, else otherwise.
func classOf(code memproxy.ReasonCode, otherwise memproxy.FaultClass) memproxy.FaultClass {
	if code == memproxy.IntegrityMetadata {
		return memproxy.FaultMetadata
	}
	return otherwise
}

// shortened reports whether a text is the beginning of a version's text.
func (w *storeSweep) shortened(ctx context.Context, v memproxy.Version, text string) (bool, error) {
	whole, err := w.c.Ledger.Version(ctx, v.MemoryKey, v.Number)
	if errors.Is(err, ledger.ErrShredded) || errors.Is(err, ledger.ErrSealed) || errors.Is(err, ledger.ErrUnknown) {
		return false, nil // the verification of the chain reports this
	}
	return err == nil && len(text) < len(whole.Text) && strings.Contains(whole.Text, strings.TrimRight(text, " \n….")), err
}

// clear removes the flags of memories that are as recorded again.
func (w *storeSweep) clear(ctx context.Context, seen comparison) error {
	records, err := ledger.ByID(ctx, w.c.Ledger, w.backend.Name, memproxy.TargetMemory, seen.unchanged...)
	if err != nil {
		return err
	}
	for _, id := range seen.unchanged {
		rec := records[id]
		st, known := rec.Status, rec.HasStatus()
		if _, found := seen.found[id]; found || !known || st.Unverified == "" || st.Unverified == memproxy.IntegrityChain {
			continue
		}
		if err := w.c.record(ctx, w.c.event(memproxy.EventIntegrity, st.Tenant, w.backend.Name, "it matches what was written again", id)); err != nil {
			return err
		}
		if _, err := w.c.Ledger.Backends.Flag(ctx, memproxy.Discrepancy{MemoryKey: st.MemoryKey, Tenant: st.Tenant}); err != nil {
			return err
		}
		w.report.Cleared++
	}
	return nil
}

// finish distinguishes exchanged texts from other changes, reports each new finding,
// flags its memory, and records the sweep.
func (w *storeSweep) finish(ctx context.Context) error {
	wanted := map[string]bool{}
	for _, f := range w.found {
		wanted[f.wants] = true
	}
	for _, f := range w.found {
		if f.wants != "" && wanted[f.has] {
			f.Class, f.Detail = memproxy.FaultReorder, "it has the text of another memory"
		}
		if err := w.c.reportFinding(ctx, &f.Discrepancy); err != nil {
			return err
		}
		w.report.Findings = append(w.report.Findings, f.Discrepancy)
	}
	r := &w.report
	ev := w.c.event(memproxy.EventSweep, "", w.backend.Name, fmt.Sprintf("%d memories, %d known, %d unknown, %d not read, %d unsettled, %d findings, %d cleared",
		r.Items, r.Known, r.Unknown, r.Skipped, r.Unsettled, len(r.Findings)+r.More, r.Cleared))
	return w.c.record(ctx, ev)
}
