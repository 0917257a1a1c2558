package gate

import (
	"context"
	"slices"
)

// maxHeaders bounds the names of headers that are remembered as reported.
const maxHeaders = 256

// Headers rules on the headers of an answer that no row claims, by their
// names. They are counted, and each is named in the log once. A is nil for a
// public route. It reports whether they pass: as set, and in shadow mode.
func (g *Gate) Headers(ctx context.Context, a *Admission, backend string, names []string) (pass bool) {
	rules := g.rules.Load()
	if a != nil {
		rules = a.rules
	}
	pass = rules.Headers == UnclaimedPass || !rules.Enforce || a != nil && !a.enforced()
	if len(names) == 0 {
		return pass
	}
	g.opt.Meter.Unclaimed(ctx, backend, len(names))
	if fresh := g.unreported(backend, names); len(fresh) > 0 {
		what := "left out"
		if pass {
			what = "passed on"
		}
		g.opt.Log.WarnContext(ctx, "headers of an answer that no row claims were "+what, "backend", backend, "names", fresh)
	}
	return pass
}

// unreported are the names that were not named before. Those that do not look
// like a header's, or are too many, are only counted.
func (g *Gate) unreported(backend string, names []string) []string {
	g.headers.Lock()
	defer g.headers.Unlock()
	if g.headers.told == nil {
		g.headers.told = map[string]bool{}
	}
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		key := backend + " " + name
		if len(name) > 64 || g.headers.told[key] || len(g.headers.told) >= maxHeaders {
			return true
		}
		g.headers.told[key] = true
		return false
	})
}
