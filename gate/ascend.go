package gate

import (
	"context"
	"slices"
	"sync"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate/access"
)

// maxAscent bounds the objects that are asked for so that what belongs to them
// can be attributed.
const maxAscent = 64

// ascend asks the backend what the objects belong to that memories are within
// and of which nothing is recorded: of a message the run, and of the run the
// agent, which somebody made. What is found counts as if it had been
// recorded. Where one tenant has the backend alone, only callers that may not act
// for every agent need it.
func (v *viewer) ascend(ctx context.Context, g *Gate, bare []memproxy.Memory) error {
	a := v.call
	loc, ok := a.call.Backend.Adapter.(Locator)
	if !ok || a.call.Backend.Fetch == nil || a.alone() && v.Principal.ActsAs.All {
		return nil
	}
	var ask []string
	for i := range bare {
		if v.Descent(&bare[i]) != access.Unknown {
			continue
		}
		for _, ref := range bare[i].Within {
			if ref.Kind == memproxy.TargetMemory && !slices.Contains(ask, ref.ID) && len(ask) < maxAscent {
				ask = append(ask, ref.ID)
			}
		}
	}
	if len(ask) == 0 {
		return nil
	}
	found := a.parents(ctx, g, loc, ask)
	var above []memproxy.MemoryKey
	for i := range found {
		for _, ref := range found[i].Within {
			above = append(above, v.known.key(ref.Kind, ref.ID))
		}
	}
	if err := v.known.need(ctx, above...); err != nil {
		return err
	}
	over := *v
	over.Derived = nil
	v.Derived, v.Agents = map[string]memproxy.Ownership{}, map[string]string{}
	for i, id := range ask {
		v.Agents[id] = found[i].Scope.Agent
		tenant := v.Principal.Tenant
		switch over.Descent(&memproxy.Memory{Within: found[i].Within}) {
		case access.Unknown:
			continue
		case access.Foreign:
			tenant += "/" // whose, is of no matter
		}
		v.Derived[id] = memproxy.Ownership{Kind: memproxy.TargetMemory, ID: id, Scope: memproxy.Scope{Tenant: tenant}}
	}
	return nil
}

// parents are objects as the backend has them, in the order of ids. What it
// does not give belongs to nothing.
func (a *Admission) parents(ctx context.Context, g *Gate, loc Locator, ids []string) []memproxy.Memory {
	ctx, cancel := context.WithTimeout(ctx, g.opt.FetchTimeout)
	defer cancel()
	found := make([]memproxy.Memory, len(ids))
	slots := make(chan struct{}, g.opt.FetchParallel)
	var wg sync.WaitGroup
	for i, id := range ids {
		q := loc.Locate(a.call.Route, a.call.Request, id)
		if q.EscapedPath == "" {
			continue
		}
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			reply, err := a.call.Backend.Fetch.Fetch(ctx, q)
			if err != nil {
				return
			}
			if m, err := loc.Located(a.call.Route, id, reply); err == nil && !m.Missing {
				found[i] = m
			}
		})
	}
	wg.Wait()
	return found
}
