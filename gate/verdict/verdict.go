// Package verdict combines the results of a request's steps into one decision.
package verdict

import (
	"cmp"
	"errors"
	"slices"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate/access"
	"github.com/memproxy/memproxy/gate/limits"
)

// Sum collects the results of the steps, as if everything were enforced.
type Sum struct {
	Worst         memproxy.Verdict
	Status        int // HTTP status of a refusal
	Reasons       []memproxy.Reason
	Notes         []memproxy.Reason // only the record has them
	Shadow        []memproxy.Reason // the reasons of policies that are not enforced
	ShadowVerdict memproxy.Verdict  // the verdict of those policies

	weights map[memproxy.Reason]memproxy.Verdict // of Reasons
}

// Note adds reasons to the record. The caller never sees them.
func (v *Sum) Note(reasons ...memproxy.Reason) { v.Notes = append(v.Notes, reasons...) }

// Add raises the verdict and adds the reasons, which a refusal shows.
func (v *Sum) Add(to memproxy.Verdict, reasons ...memproxy.Reason) {
	if to == memproxy.Allow {
		v.Note(reasons...)
		return
	}
	v.Worst = max(v.Worst, to)
	v.Reasons = append(v.Reasons, reasons...)
	if v.weights == nil {
		v.weights = make(map[memproxy.Reason]memproxy.Verdict, len(reasons))
	}
	for _, why := range reasons {
		v.weights[why] = max(v.weights[why], to)
	}
}

// Ruled adds a policy's ruling: the reasons that led to it, the others as notes, and the
// result of policies that are not enforced.
func (v *Sum) Ruled(ruling *memproxy.Ruling) {
	led := cmp.Or(ruling.Led, len(ruling.Reasons))
	v.Add(ruling.Verdict, ruling.Reasons[:led]...)
	v.Note(ruling.Reasons[led:]...)
	v.Shadow = append(v.Shadow, ruling.Shadow...)
	v.ShadowVerdict = max(v.ShadowVerdict, ruling.ShadowVerdict)
}

// Refuse denies with an HTTP status.
func (v *Sum) Refuse(status int, reasons ...memproxy.Reason) {
	v.Add(memproxy.Deny, reasons...)
	v.Status = cmp.Or(v.Status, status)
}

// Forbid denies for one reason, with 403.
func (v *Sum) Forbid(code memproxy.ReasonCode, pointer, detail string) {
	v.Refuse(memproxy.StatusForbidden, memproxy.Reason{Code: code, Pointer: pointer, Detail: detail})
}

// Amend raises the verdict to amend: the request is not forwarded as it arrived.
func (v *Sum) Amend(code memproxy.ReasonCode, pointer, detail string) {
	v.Add(memproxy.Amend, memproxy.Reason{Code: code, Pointer: pointer, Detail: detail})
}

// Malformed refuses a request that cannot be read.
func (v *Sum) Malformed(m *memproxy.Flaw) {
	v.Refuse(cmp.Or(m.Status, memproxy.StatusBadRequest), memproxy.Reason{Code: m.Code, Detail: m.Detail, Pointer: m.Pointer})
}

// Unreadable refuses a request that cannot be read, and returns any other error.
func (v *Sum) Unreadable(err error) error {
	if bad, unreadable := errors.AsType[*memproxy.Flaw](err); unreadable {
		v.Malformed(bad)
		return nil
	}
	return err
}

// Missing refuses a request as if what it names did not exist.
func (v *Sum) Missing(pointer string) { v.Refuse(memproxy.StatusNotFound, access.Missing(pointer)) }

// RefuseNames refuses names that do not exist for the caller's tenant, and requests
// that are not narrowed to the tenant.
func (v *Sum) RefuseNames(refused []memproxy.Reason) {
	for _, why := range refused {
		status := memproxy.StatusForbidden
		if why.Code == memproxy.OwnerUnknown {
			status = memproxy.StatusNotFound
		}
		v.Refuse(status, why)
	}
}

// Decisive returns the reasons and the notes, sorted and shortened for the record and
// the answer. Reasons that led to the verdict come first, so that the first explains it.
func (v *Sum) Decisive() (reasons, notes []memproxy.Reason) {
	led, lesser := Split(v.Reasons, func(why memproxy.Reason) bool { return v.weights[why] == v.Worst })
	Sort(led)
	Sort(lesser)
	Sort(v.Notes)
	led = limits.Reasons(led, 0)
	reasons = append(led, limits.Reasons(lesser, len(led))...)
	return reasons, limits.Reasons(v.Notes, len(reasons))
}

// Sort puts reasons in the order in which they are recorded and shown.
func Sort(rs []memproxy.Reason) {
	slices.SortFunc(rs, func(a, b memproxy.Reason) int {
		return cmp.Or(cmp.Compare(a.Code, b.Code), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Pointer, b.Pointer))
	})
}

// Split divides a list into the elements for which is holds and the rest, in order.
func Split[T any](list []T, is func(T) bool) (so, rest []T) {
	for _, v := range list {
		if is(v) {
			so = append(so, v)
		} else {
			rest = append(rest, v)
		}
	}
	return so, rest
}
