package gate

import (
	"errors"
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate/access"
	"github.com/memproxy/memproxy/gate/limits"
)

// verdict collects the results of the steps, as if everything were enforced.
type verdict struct {
	worst   memproxy.Verdict
	status  int // of a refusal
	reasons []memproxy.Reason
	weights map[memproxy.Reason]memproxy.Verdict // of reasons
	notes   []memproxy.Reason                    // for the record alone
	shadow  []memproxy.Reason                    // of policies that are not enforced
	would   memproxy.Verdict                     // likewise
}

// note adds reasons to the record. The caller never sees them.
func (v *verdict) note(reasons ...memproxy.Reason) { v.notes = append(v.notes, reasons...) }

// add raises the verdict and adds the reasons, which a refusal shows.
func (v *verdict) add(to memproxy.Verdict, reasons ...memproxy.Reason) {
	if to == memproxy.Allow {
		v.note(reasons...)
		return
	}
	v.worst = max(v.worst, to)
	v.reasons = append(v.reasons, reasons...)
	if v.weights == nil {
		v.weights = make(map[memproxy.Reason]memproxy.Verdict, len(reasons))
	}
	for _, why := range reasons {
		v.weights[why] = max(v.weights[why], to)
	}
}

// ruled adds a ruling: the reasons that led to it, and the others as notes.
func (v *verdict) ruled(ruling *memproxy.Ruling) {
	led := ruling.Led
	if led == 0 {
		led = len(ruling.Reasons)
	}
	v.add(ruling.Verdict, ruling.Reasons[:led]...)
	v.note(ruling.Reasons[led:]...)
}

// refuse denies with an HTTP status.
func (v *verdict) refuse(status int, reasons ...memproxy.Reason) {
	v.add(memproxy.Deny, reasons...)
	if v.status == 0 {
		v.status = status
	}
}

// malformed refuses a request that cannot be read.
func (v *verdict) malformed(m *memproxy.Malformed) {
	status := m.Status
	if status == 0 {
		status = StatusBadRequest
	}
	v.refuse(status, memproxy.Reason{Code: m.Code, Detail: m.Detail, Pointer: m.Pointer})
}

// unreadable refuses a request that cannot be read, and returns any other error.
func (v *verdict) unreadable(err error) error {
	var bad *memproxy.Malformed
	if errors.As(err, &bad) {
		v.malformed(bad)
		return nil
	}
	return err
}

// missing refuses a request as if what it names did not exist.
func (v *verdict) missing(pointer string) { v.refuse(StatusNotFound, access.Missing(pointer)) }

// refuseNames refuses names that do not exist for the caller's tenant, and requests
// that are not narrowed to the tenant.
func (v *verdict) refuseNames(refused []memproxy.Reason) {
	for _, why := range refused {
		status := StatusForbidden
		if why.Code == memproxy.OwnerUnknown {
			status = StatusNotFound
		}
		v.refuse(status, why)
	}
}

// decisive sorts the reasons for the record and the answer: first those that led to
// the verdict, so that the first one explains it. Notes are returned separately.
func (v *verdict) decisive() (reasons, notes []memproxy.Reason) {
	led, lesser := v.reasons[:0:0], v.reasons[:0:0]
	for _, why := range v.reasons {
		if v.weights[why] == v.worst {
			led = append(led, why)
		} else {
			lesser = append(lesser, why)
		}
	}
	sortReasons(led)
	sortReasons(lesser)
	sortReasons(v.notes)
	led = limits.Reasons(led, 0)
	reasons = append(led, limits.Reasons(lesser, len(led))...)
	return reasons, limits.Reasons(v.notes, len(reasons))
}

// sortReasons puts reasons in the order in which they are recorded and shown.
func sortReasons(rs []memproxy.Reason) {
	slices.SortFunc(rs, func(a, b memproxy.Reason) int {
		if c := strings.Compare(string(a.Code), string(b.Code)); c != 0 {
			return c
		}
		if c := strings.Compare(a.Rule, b.Rule); c != 0 {
			return c
		}
		return strings.Compare(a.Pointer, b.Pointer)
	})
}
