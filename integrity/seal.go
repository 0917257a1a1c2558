package integrity

import (
	"context"
	"fmt"
	"slices"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/gate/access"
	"github.com/memproxy/memproxy/gate/tamper"
	"github.com/memproxy/memproxy/review"
)

// Seal implements review.Integrity: it gives what a backend held before memproxy an
// owner and a first version, without an author and without confidence. Memories with a
// receipt or a valid stamp keep their owner, so a seal may be repeated. Memories that
// name an owner or an object of another tenant are skipped.
func (c *Checker) Seal(ctx context.Context, q review.SealRequest) (review.SealReport, error) {
	report := review.SealReport{Backend: q.Backend, Tenant: q.Tenant}
	if !c.busy.TryLock() {
		return report, errBusy
	}
	defer c.busy.Unlock()
	backends, err := c.backends(q.Backend)
	if err != nil {
		return report, err
	}
	if err := checkTenant(ctx, c, q.Tenant); err != nil {
		return report, err
	}
	if !backends[0].Serves(q.Tenant) {
		return report, fmt.Errorf("%w: backend %s holds the memories of another tenant only", memproxy.ErrRefused, q.Backend)
	}
	s := &sealing{c: c, backend: backends[0].Name, tenant: q.Tenant, decision: c.NewID(), report: &report}
	callers := c.Callers()
	several := callers.OpenTenants || len(callers.Tenants) > 1
	s.onlyNamed = q.SkipForeign && several && backends[0].Tenant != q.Tenant
	if err := recordSeal(ctx, c, q.Tenant, s.backend, s.decision, 0, "begun"); err != nil {
		return report, err
	}
	count := q.Progress.Counting()
	err = c.walk(ctx, backends[0], walk{scopes: q.Scopes, rate: c.Pace.Rate}, func(p page) error {
		before := report.Items
		defer func() { count(report.Items - before) }()
		return s.page(ctx, p)
	})
	if err != nil {
		return report, err
	}
	done := fmt.Sprintf("%d memories, %d sealed, %d known before, %d not adopted", report.Items, report.Sealed, report.Known, report.Skipped)
	// After a partial seal, an unknown object may belong to the part that was not read.
	if report.Whole = report.Skipped == 0 && len(q.Scopes) == 0; report.Whole {
		if err := c.Ledger.Backends.Seal(ctx, s.backend); err != nil {
			return report, err
		}
		done += sealWhole
	}
	return report, recordSeal(ctx, c, q.Tenant, s.backend, s.decision, report.Sealed, done)
}

// checkTenant returns an error if no caller can have a tenant and there is no chain of it, so
// that a misspelled name is not taken for a new tenant.
func checkTenant(ctx context.Context, c *Checker, tenant string) error {
	heads, err := c.Ledger.Chains.Heads(ctx)
	if err != nil {
		return err
	}
	names := c.Callers()
	for _, h := range heads {
		names.Tenants = append(names.Tenants, h.Tenant)
	}
	if names.OpenTenants || slices.Contains(names.Tenants, tenant) {
		return nil
	}
	return &review.UnknownTenantError{Tenant: tenant, Known: names.Tenants}
}

func recordSeal(ctx context.Context, c *Checker, tenant, backend, decision string, items int, detail string) error {
	ev := c.event(memproxy.EventSeal, tenant, backend, detail)
	ev.Decision, ev.Kind, ev.Verdict, ev.Items = decision, memproxy.Admin, memproxy.Allow, items
	return c.record(ctx, ev)
}

// sealing is one seal of a backend.
type sealing struct {
	c                         *Checker
	backend, tenant, decision string
	onlyNamed                 bool // only memories that name an owner of the tenant
	report                    *review.SealReport
}

// page gives the memories of a page an owner and a first version.
func (s *sealing) page(ctx context.Context, p page) error {
	entries, err := entriesOf(ctx, s.c, s.backend, p.adapter, p.items)
	if err != nil {
		return err
	}
	unknown, resumed := s.unknown(entries)
	relation, err := s.relations(ctx, unknown)
	if err != nil {
		return err
	}
	var stamped, adopted []memproxy.Ownership
	var found []memproxy.Version
	for _, m := range unknown {
		row := s.row(&m)
		switch b := relation(&m); {
		case b == access.Foreign || s.onlyNamed && b != access.Ours:
			s.report.Skipped++
		case m.Stamp != nil:
			s.report.Known++
			stamped = append(stamped, row)
		default:
			adopted, found = append(adopted, row), append(found, s.version(&m))
		}
	}
	if err := s.c.Ledger.Commit(ctx, memproxy.Entry{Queued: true, Owners: stamped}); err != nil {
		return err
	}
	// Another replica's seal, or a write, may have recorded an owner meanwhile, which stays.
	bound, err := s.c.Ledger.Bind(ctx, adopted...)
	if err != nil {
		return err
	}
	for i, row := range bound {
		if row.Decision == s.decision {
			resumed = append(resumed, found[i])
			s.report.Sealed++
		} else {
			s.report.Known++
		}
	}
	_, err = s.c.Ledger.Backends.BeginHistories(ctx, resumed...)
	return err
}

// unknown returns the memories of a page without an owner, and the first versions of those
// whose seal was interrupted.
func (s *sealing) unknown(entries []entry) (unknown []memproxy.Memory, resumed []memproxy.Version) {
	for _, e := range entries {
		s.report.Items++
		switch {
		case e.Incomplete:
			s.report.Skipped++
		case e.record.HasOwner():
			s.report.Known++
			if !e.invalid && s.interrupted(&e.record, &e.memory) {
				resumed = append(resumed, s.version(&e.memory))
			}
		case e.invalid || e.memory.Stamp != nil && !tamper.SignedFor(s.c.Signer, s.tenant, *e.memory.Stamp):
			s.report.Skipped++ // a sweep reports it
		default:
			unknown = append(unknown, e.memory)
		}
	}
	return unknown, resumed
}

// interrupted reports whether an earlier seal recorded the owner of a memory and was
// stopped before it began the history, which also makes the status.
func (s *sealing) interrupted(rec *memproxy.Record, m *memproxy.Memory) bool {
	own := &rec.Owner
	return own.Actor == "" && own.Scope.Tenant == s.tenant && !own.Deleted && !rec.HasStatus() && own.SHA256 == memproxy.Hash(m.Text)
}

func (s *sealing) version(m *memproxy.Memory) memproxy.Version {
	return memproxy.Version{
		MemoryKey: memproxy.MemoryKey{Backend: s.backend, Kind: memproxy.TargetMemory, ID: m.ID}, Tenant: s.tenant, Field: m.Field,
		Decision: s.decision, Text: m.Text, Metadata: m.Metadata,
	}
}

// relations returns a function that gives the relation of a memory without a record, from
// the owners and objects that the memory names.
func (s *sealing) relations(ctx context.Context, all []memproxy.Memory) (func(*memproxy.Memory) access.Relation, error) {
	var keys []memproxy.MemoryKey
	for i := range all {
		for _, d := range memproxy.Dimensions {
			if name := all[i].Scope.In(d); name != "" {
				keys = append(keys, memproxy.MemoryKey{Backend: s.backend, Kind: memproxy.TargetEntity, ID: memproxy.OwnerID(d, name)},
					memproxy.MemoryKey{Backend: s.backend, Kind: memproxy.TargetMemory, ID: name})
			}
		}
		for _, ref := range all[i].Parents {
			keys = append(keys, memproxy.MemoryKey{Backend: s.backend, Kind: ref.Kind, ID: ref.ID})
		}
	}
	records, err := s.c.Ledger.Lookup(ctx, keys...)
	view := access.View{Principal: &memproxy.Principal{Tenant: s.tenant}, Rows: func(kind memproxy.TargetKind, id string) *memproxy.Ownership {
		if rec := records.Of(memproxy.MemoryKey{Backend: s.backend, Kind: kind, ID: id}); rec.HasOwner() {
			return &rec.Owner
		}
		return nil
	}}
	return view.Descent, err
}

// row returns the owner of a memory: without a known author, unless its stamp names one.
func (s *sealing) row(m *memproxy.Memory) memproxy.Ownership {
	if m.Stamp != nil {
		return gate.OwnerFromStamp(s.backend, m, s.tenant)
	}
	row := memproxy.Ownership{
		Backend: s.backend, Kind: memproxy.TargetMemory, ID: m.ID, Scope: m.Scope, Trust: memproxy.TrustAnonymous,
		Source: memproxy.SourceUnstated, Decision: s.decision, SHA256: memproxy.Hash(m.Text), Written: s.c.Clock(),
	}
	row.Scope.Tenant = s.tenant
	return row
}
