package xds

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/memproxy/memproxy/policy"
)

// Plan describes how releases are rolled out.
type Plan struct {
	// Stages are the stages in order. After the last one every sidecar has the release.
	// Without stages every sidecar gets it at once.
	Stages []Stage
	// Refused and Errors are how much higher the share of refused or failed decisions may
	// be than under the previous release, from 0 to 1. A larger increase stops the
	// rollout.
	Refused, Errors float64
	// Decisions is the number of decisions under a release from which its shares count.
	Decisions uint64
	// Rejections is the number of sidecars that may refuse a release.
	Rejections int
}

// Stage is a share of the sidecars, and how long it is observed.
type Stage struct {
	Percent float64
	Hold    time.Duration
}

// offer is what one channel offers: next to a share of its sidecars, and base to all
// others.
type offer struct {
	selector policy.Selector
	base     *release // nil if all releases are stopped
	next     *release // nil if there is no rollout
	percent  float64
}

// pick returns the release for one sidecar of the channel. The sidecars of a stage are
// the same on every replica, remain in the next stage, and differ from release to
// release.
func (o offer) pick(id string) *release {
	if o.next != nil && (o.percent >= 100 || position(o.next.Number, id) < o.percent) {
		return o.next
	}
	return o.base
}

// position returns a sidecar's position in the order of a release's rollout, from 0 to
// 100.
func position(release uint64, id string) float64 {
	sum := sha256.Sum256(fmt.Appendf(nil, "memproxy rollout %d %s", release, id))
	return float64(binary.BigEndian.Uint32(sum[:4])) / (1 << 32) * 100
}

func offers(releases []*release, plan Plan) []offer {
	channels := map[string][]*release{}
	for _, r := range releases {
		name := r.Selector.String()
		channels[name] = append(channels[name], r)
	}
	var out []offer
	for _, list := range channels {
		out = append(out, offerOf(list, plan))
	}
	// The narrowest selectors come first, and equally narrow ones in a fixed order.
	slices.SortFunc(out, func(a, b offer) int {
		return cmp.Or(b.selector.Specificity()-a.selector.Specificity(), strings.Compare(a.selector.String(), b.selector.String()))
	})
	return out
}

func offerOf(list []*release, plan Plan) offer {
	o := offer{selector: list[0].Selector}
	var oldest *release
	for _, r := range slices.Backward(list) {
		switch {
		case r.progress.stopped:
		case r.progress.done:
			o.base = r
		case o.next == nil:
			o.next, oldest = r, r
		default:
			oldest = r // superseded before its rollout was done
		}
		if o.base != nil {
			break
		}
	}
	switch {
	case o.next == nil:
	case o.base == nil && oldest == o.next:
		o.base, o.next = o.next, nil // there is no release to compare it with
	case o.base == nil:
		o.base = oldest
	}
	if o.next != nil {
		o.percent = 100
		if len(plan.Stages) > 0 {
			o.percent = plan.Stages[min(o.next.progress.stage, len(plan.Stages)-1)].Percent
		}
	}
	return o
}

// DecisionCounts is the number of decisions.
type DecisionCounts struct {
	Decisions uint64 `json:"decisions"`
	Refused   uint64 `json:"refused"`
	Errors    uint64 `json:"errors"`
}

// maxTally is the maximum of the counts of one certificate, so that the sum of all does
// not overflow.
const maxTally = 1 << 48

func (c DecisionCounts) add(u DecisionCounts) DecisionCounts {
	return DecisionCounts{min(c.Decisions+u.Decisions, maxTally), min(c.Refused+u.Refused, maxTally), min(c.Errors+u.Errors, maxTally)}
}

func (c DecisionCounts) since(u DecisionCounts) DecisionCounts {
	return DecisionCounts{c.Decisions - u.Decisions, c.Refused - u.Refused, c.Errors - u.Errors}
}

// tallies are the counts of one release, by the certificate of the reporter.
type tallies map[identity]DecisionCounts

func (ts tallies) sum() (all DecisionCounts) {
	for _, t := range ts {
		all = DecisionCounts{all.Decisions + t.Decisions, all.Refused + t.Refused, all.Errors + t.Errors}
	}
	return all
}

// worst returns why a release's decisions are worse than its predecessor's, whose counts
// at the start are before; "" if they are not. It compares all counts together, and also
// all counts without those of each single certificate, so that the reports of one sidecar
// cannot outweigh the others'.
func (p Plan) worst(next, base, before tallies) string {
	all := [...]DecisionCounts{next.sum(), base.sum(), before.sum()}
	judge := func(without identity) string {
		is, was, began := all[0].since(next[without]), all[1].since(base[without]), all[2].since(before[without])
		if during := was.since(began); during.Decisions >= p.Decisions {
			was = during // the same period is a better comparison
		}
		return p.worse(is, was)
	}
	why := judge(identity{})
	for who := range next {
		if why == "" {
			why = judge(who)
		}
	}
	return why
}

// worse returns why a release's decisions are worse than those of its predecessor, or "".
// Without a predecessor failures are compared with zero. Refusals are then not compared,
// because their expected number is unknown.
func (p Plan) worse(next, base DecisionCounts) string {
	if next.Decisions < max(p.Decisions, 1) {
		return ""
	}
	share := func(n uint64, t DecisionCounts) float64 {
		if t.Decisions == 0 {
			return 0
		}
		return float64(n) / float64(t.Decisions)
	}
	if was, is := share(base.Errors, base), share(next.Errors, next); is > was+p.Errors {
		return fmt.Sprintf("%.1f %% of its decisions failed, %.1f %% under the previous release", is*100, was*100)
	}
	if base.Decisions < max(p.Decisions, 1) {
		return ""
	}
	if was, is := share(base.Refused, base), share(next.Refused, next); is > was+p.Refused {
		return fmt.Sprintf("%.1f %% of its decisions were refusals, %.1f %% under the previous release", is*100, was*100)
	}
	return ""
}
