package app

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/ledger"
)

// bindNames binds the names in the configuration to their tenants in the ledger,
// which is the only authority on names. A contradiction is a fault: in production
// memproxy does not start; elsewhere the ledger's record remains and the log
// reports it.
func bindNames(ctx context.Context, cfg *config.Config, l *ledger.Ledger, now time.Time, log *slog.Logger) error {
	var faults config.Faults
	for i := range cfg.Backends {
		b := &cfg.Backends[i]
		listed := slices.DeleteFunc(cfg.Listed(), func(n config.Listed) bool { return !b.Serves(n.Tenant) })
		for names := range slices.Chunk(listed, namesAtOnce) {
			rows := make([]memproxy.Ownership, len(names))
			ids := make([]string, len(names))
			for j, n := range names {
				rows[j] = memproxy.Ownership{Backend: b.Name, Kind: memproxy.TargetEntity, ID: n.ID, Scope: memproxy.Scope{Tenant: n.Tenant}, Written: now}
				_, ids[j], _ = strings.Cut(n.ID, ":")
			}
			bound, err := l.Assign(ctx, rows...)
			if err != nil {
				return fmt.Errorf("bind the names that the configuration lists: %w", err)
			}
			objects, err := ledger.ByID(ctx, l, b.Name, memproxy.TargetMemory, ids...) // an agent of Letta's is one
			if err != nil {
				return fmt.Errorf("bind the names that the configuration lists: %w", err)
			}
			for j, n := range names {
				if rec := objects[ids[j]]; rec.Owned() && rec.Owner.Scope.Tenant != n.Tenant {
					bound[j] = rec.Owner
				}
				if whose := bound[j].Scope.Tenant; whose != n.Tenant {
					faults = append(faults, contradicted(b.Name, n, whose))
				}
			}
		}
	}
	if len(faults) > 0 && cfg.Profile == "production" {
		return faults
	}
	for _, f := range faults {
		log.Error("a name that the configuration lists is another's", "fault", f)
	}
	return nil
}

// contradicted describes a listed name that the ledger has as another tenant's,
// with a remedy.
func contradicted(backend string, n config.Listed, whose string) string {
	dim, name, _ := strings.Cut(n.ID, ":")
	has := fmt.Sprintf("by the ledger it is tenant %q's", whose)
	if whose == memproxy.TenantNobody {
		has = "by the ledger there are memories of several tenants under it, so that it is nobody's"
	}
	return fmt.Sprintf("%s: %s %q is listed for tenant %q, and on backend %s %s. List another name; or start without this one, "+
		"delete what is not %q's under it through memproxy, and list it again: a name under which nobody else has anything is given to the tenant that lists it",
		n.Place, dim, name, n.Tenant, backend, has, n.Tenant)
}
