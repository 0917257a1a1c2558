package integrity

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/ledger"
	"github.com/memproxy/memproxy/review"
)

// errUnbroken means that the chain has no fault that could be accepted.
var errUnbroken = fmt.Errorf("%w: that chain has no faults to accept", memproxy.ErrState)

// hashedTenant is the prefix of a tenant's name if only the anchors of its chain are left:
// the rest is the tenant's hash in the anchors.
const hashedTenant = "sha256:"

// Accept implements review.Integrity. It records the acceptance and the faults in the
// audit log before it changes anything, and anchors the new head before it returns it.
func (c *Checker) Accept(ctx context.Context, q review.AcceptRequest) (review.AcceptReport, error) {
	report := review.AcceptReport{Tenant: q.Tenant, Head: memproxy.ChainHead{Tenant: q.Tenant}}
	if !c.busy.TryLock() {
		return report, errBusy
	}
	defer c.busy.Unlock()
	c.anchoring.Lock() // Anchor must not report a fault while it is being accepted
	defer c.anchoring.Unlock()
	last, err := c.anchored(ctx)
	if err != nil {
		return report, err
	}
	name, lost := strings.CutPrefix(q.Tenant, hashedTenant)
	if !lost {
		name = tenantHash(q.Tenant)
	}
	reached, noted := last[name]
	faults, more, err := c.unacceptedFaults(ctx, q.Tenant, lost, reached)
	if err != nil {
		return report, err
	}
	if lost && !noted {
		return report, fmt.Errorf("%w: such a chain was never anchored", memproxy.ErrUnknown)
	}
	if !noted && len(faults) == 0 {
		if err := checkTenant(ctx, c, q.Tenant); err != nil {
			return report, err
		}
	}
	for _, f := range faults {
		if f.Class == memproxy.FaultText || strings.HasSuffix(f.Detail, ledger.UnreadableRow) {
			report.Left = append(report.Left, f)
		} else {
			report.Accepted = append(report.Accepted, f)
		}
	}
	report.More = more
	breached := false
	if !lost { // a chain that was deleted has no stored faults, only anchors
		if breached, err = c.breached(ctx, q.Tenant); err != nil {
			return report, err
		}
	}
	if len(report.Accepted)+more == 0 && !breached {
		return report, errUnbroken
	}
	ev := c.event(memproxy.EventAccept, q.Tenant, "", fmt.Sprintf("%d faults of the chain are accepted: %s", len(report.Accepted)+more, q.Reason))
	ev.Items = int(reached.Position)
	ev.Reasons = []memproxy.Reason{{Code: memproxy.IntegrityChain, Detail: kindsOf(report.Accepted)}}
	if err := c.record(ctx, ev); err != nil {
		return report, err
	}
	if !lost {
		if report.Head, report.Cleared, err = c.Ledger.Chains.Accept(ctx, q.Tenant, faults); err != nil {
			return report, err
		}
	}
	if err := c.record(ctx, anchorEvent(c.Clock(), name, report.Head)); err != nil {
		return report, err
	}
	if c.anchors == nil {
		c.anchors = last
	}
	c.anchors[name] = anchor{report.Head, c.Clock()}
	return report, nil
}

// unacceptedFaults returns the unaccepted faults of a chain, and how many more of its tenant's
// rows were edited. lost means that nothing is left of it.
func (c *Checker) unacceptedFaults(ctx context.Context, tenant string, lost bool, reached anchor) (_ []memproxy.ChainFault, more int, _ error) {
	if lost {
		if reached.Position == 0 {
			return nil, 0, nil
		}
		return []memproxy.ChainFault{missingChain(tenant)}, 0, nil
	}
	reached.Tenant = tenant
	found, err := c.Ledger.Chains.Verify(ctx, tenant, ledger.VerifyOptions{Texts: true, Anchor: &reached.ChainHead})
	if err != nil {
		return nil, 0, err
	}
	faults := slices.DeleteFunc(found.Faults, func(f memproxy.ChainFault) bool { return f.Accepted })
	edited, more, err := c.Ledger.Backends.VerifyRecords(ctx, &tenant, nil)
	return append(faults, edited...), more, err
}

// missingChain returns the fault of a chain of which nothing is left.
func missingChain(tenant string) memproxy.ChainFault {
	return memproxy.ChainFault{Class: memproxy.FaultTruncate, Tenant: tenant, Position: 1, Detail: "the whole chain is gone"}
}

func kindsOf(faults []memproxy.ChainFault) string {
	var out []string
	for i := range faults {
		if s := string(faults[i].Class); !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return strings.Join(out, ", ")
}
