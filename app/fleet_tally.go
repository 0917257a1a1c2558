package app

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/envoy/xds/follow"
	"github.com/memproxy/memproxy/gate"
)

// tally counts decisions by release, for the reports to the control plane, and
// passes everything on to the meter that it is put before.
type tally struct {
	gate.Meter

	mu     sync.Mutex
	names  map[string]string // release by version of the rules
	counts map[string]*follow.Count
}

func newTally(m gate.Meter) *tally {
	return &tally{Meter: m, names: map[string]string{}, counts: map[string]*follow.Count{}}
}

// name says which release a version of the rules is.
func (t *tally) name(version, release string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if release == "" {
		return
	}
	if len(t.names) >= maxNames {
		clear(t.names) // only requests that are still under way would miss theirs
	}
	t.names[version] = release
}

// maxNames bounds the versions that are remembered.
const maxNames = 100

// breakage are the reasons of decisions that came of a failure.
var breakage = []memproxy.ReasonCode{
	memproxy.PolicyError, memproxy.AuditUnavailable, memproxy.LedgerUnavailable, memproxy.InternalError,
}

// Decided implements gate.Meter.
func (t *tally) Decided(ctx context.Context, ev *memproxy.Event) {
	t.Meter.Decided(ctx, ev)
	failed := slices.ContainsFunc(ev.Reasons, func(r memproxy.Reason) bool { return slices.Contains(breakage, r.Code) })
	t.mu.Lock()
	defer t.mu.Unlock()
	name, ok := t.names[ev.Policy]
	if !ok {
		return
	}
	c := t.counts[name]
	if c == nil {
		c = &follow.Count{Release: name}
		t.counts[name] = c
	}
	c.Decisions++
	if ev.Verdict.Stops() {
		c.Refused++
	}
	if failed {
		c.Errors++
	}
}

// drain returns the counts since the call before, by release.
func (t *tally) drain() []follow.Count {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []follow.Count
	for _, c := range t.counts {
		out = append(out, *c)
	}
	clear(t.counts)
	slices.SortFunc(out, func(a, b follow.Count) int { return strings.Compare(a.Release, b.Release) })
	return out
}
