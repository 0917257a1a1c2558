package ledgertest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/ledger"
)

func swept(t *testing.T, s *ledger.Ledger) {
	ctx := context.Background()
	row := func(id, user, agent, actor string) memproxy.Ownership {
		r := Row(id)
		r.Scope.User, r.Scope.Agent, r.Actor = user, agent, actor
		return r
	}
	other := row("elsewhere", "ann", "a1", "x")
	other.Backend = "another"
	receipt := row("receipt", "ann", "a1", "x")
	receipt.Kind = memproxy.TargetEvent
	gone := row("gone already", "ann", "a1", "x")
	gone.Deleted = true
	put(t, s, row("1", "ann", "a1", "x"), row("2", "ann", "a2", "x"), row("3", "ann", "", "y"), row("4", "bob", "a1", "x"), other, receipt, gone)

	got := must.Get(s.DeleteScope(ctx, Row("").Backend, memproxy.Scope{User: "ann"}, new(memproxy.Version)))(t).Tallies
	slices.SortFunc(got, func(a, b memproxy.AuthorCount) int { return int(b.Memories - a.Memories) })
	expect.That(t, len(got) == 2 && got[0].Actor == "x" && got[0].Memories == 2 && got[0].Tenant == Row("").Scope.Tenant && got[1].Actor == "y" && got[1].Memories == 1,
		"tallies %+v: want two of x and one of y", got)
	left := owners(t, s, "1", "2", "3", "4")
	for id, deleted := range map[string]bool{"1": true, "2": true, "3": true, "4": false} {
		expect.Equal(t, left[id].Deleted, deleted, id, "deleted")
	}
	expect.Len(t, must.Get(s.DeleteScope(ctx, Row("").Backend, memproxy.Scope{User: "ann"}, new(memproxy.Version)))(t).Tallies, 0, "a second sweep", "nothing left")
	expect.Is(t, expect.Err(s.DeleteScope(ctx, Row("").Backend, memproxy.Scope{}, new(memproxy.Version))), ledger.ErrRow, "a sweep of everything")
}

// deletedSince: memories that were deleted since a time, with or without a status, are
// listed by tenant.
func deletedSince(t *testing.T, l Life) {
	ctx, began := t.Context(), l.Clock.Now()
	for _, id := range []string{"stays", "before", "queued", "since", "stated"} {
		put(t, l.Ledger, memproxy.Ownership{Backend: "mem0", Kind: memproxy.TargetMemory, ID: id, Scope: memproxy.Scope{Tenant: "acme", User: id}})
	}
	must.Get(l.SetState(ctx, memproxy.StateChange{MemoryKey: mem("stated"), Tenant: "acme", State: memproxy.StateFlagged}))(t)
	must.Get(l.DeleteScope(ctx, "mem0", memproxy.Scope{User: "before"}, new(memproxy.Version)))(t)
	queued := Row("queued")
	queued.Scope, queued.Deleted = memproxy.Scope{Tenant: "acme", User: "queued"}, true
	must.Do(t, l.Commit(ctx, memproxy.Entry{Queued: true, Owners: []memproxy.Ownership{queued}}))
	l.Clock.Pass(time.Minute) // it was deleted when it was committed, whenever it is written
	since := l.Clock.Now()
	for _, user := range []string{"since", "stated"} {
		must.Get(l.DeleteScope(ctx, "mem0", memproxy.Scope{User: user}, new(memproxy.Version)))(t)
	}
	for _, tc := range []struct {
		tenant, user string
		at           time.Time
		want         int
	}{
		{"acme", "", since, 2}, {"acme", "", began, 4}, {"acme", "", time.Time{}, 4}, {"acme", "queued", began, 1}, {"acme", "queued", since, 0}, {"acme", "", since.Add(time.Minute), 0},
		{"globex", "", began, 0}, {"acme", "before", began, 1}, {"acme", "before", since, 0}, {"acme", "stays", began, 0},
	} {
		list, err := l.Other.ListStatuses(ctx, memproxy.StatusFilter{Backend: "mem0", Tenant: &tc.tenant, Deleted: &tc.at, Within: memproxy.Scope{User: tc.user}})
		expect.That(t, err == nil && len(list) == tc.want, "%s, %q, since %v: %v, %v; want %d", tc.tenant, tc.user, tc.at, list, err, tc.want)
	}
}
