package ledgertest

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/ledger"
)

func entity(tenant, id string) memproxy.Ownership {
	return memproxy.Ownership{Backend: "mem", Kind: memproxy.TargetEntity, ID: id, Scope: memproxy.Scope{Tenant: tenant}, Actor: "agent:" + tenant}
}

func bound(t *testing.T, s *ledger.Ledger) {
	ctx := t.Context()
	for _, tenant := range []string{"acme", "globex"} {
		got, err := s.Bind(ctx, entity(tenant, "user:ann"), entity(tenant, "user:of-"+tenant))
		must.That(t, err == nil && len(got) == 2 && got[0].Scope.Tenant == "acme" && got[1].Scope.Tenant == tenant, "bound for %s: %+v, %v", tenant, got, err)
	}
	rows, err := ledger.ByID(ctx, s, "mem", memproxy.TargetEntity, "user:ann", "user:of-globex")
	expect.That(t, err == nil && rows["user:ann"].Owner.Actor == "agent:acme" && rows["user:of-globex"].Owner.Scope.Tenant == "globex", "found %+v, %v", rows, err)
	other := entity("globex", "user:ann")
	other.Backend = "other"
	expect.Equal(t, must.Get(s.Bind(ctx, other))(t)[0].Scope.Tenant, "globex", "another backend's name")
	expect.Error(t, expect.Err(s.Bind(ctx, entity("acme", "user:\x00"))), "a name with a NUL was bound")
}

// release gives up the claim of a name, as Bind returned it.
func release(t *testing.T, s *ledger.Ledger, claim memproxy.Ownership) error {
	gone := claim
	gone.Deleted = true
	return s.Commit(t.Context(), memproxy.Entry{ExpectedOwners: []memproxy.Ownership{claim}, Owners: []memproxy.Ownership{gone}})
}

func claim(tenant, id, decision string) memproxy.Ownership {
	row := entity(tenant, id)
	row.Decision = decision
	return row
}

func released(t *testing.T, s *ledger.Ledger) {
	bind := func(tenant, decision string) memproxy.Ownership {
		t.Helper()
		return must.Get(s.Bind(t.Context(), claim(tenant, "user:ann", decision)))(t)[0]
	}
	first := bind("acme", "1")
	again := bind("acme", "1")
	expect.That(t, again == first && first.Decision == "1", "claimed twice by one decision: %+v, then %+v", first, again)
	expect.Equal(t, bind("globex", "2"), first, "another tenant's claim")
	if _, found, err := s.Decision(t.Context(), "mem", "1"); found || err != nil {
		t.Errorf("a name counts as a memory of its decision: %v, %v", found, err)
	}
	must.Do(t, release(t, s, first))
	if rows, err := ledger.ByID(t.Context(), s, "mem", memproxy.TargetEntity, "user:ann"); len(rows) > 0 || err != nil {
		t.Errorf("released: %+v, %v", rows, err)
	}
	wantErr(t, "released twice", release(t, s, first), memproxy.ErrStale)
	second := bind("globex", "2")
	wantErr(t, "another's claim", release(t, s, first), memproxy.ErrStale)
	third := bind("globex", "3")
	expect.That(t, second.Scope.Tenant == "globex" && third.Scope.Tenant == "globex" && third.Decision == "", "claimed by %+v, then by %+v", second, third)
	wantErr(t, "a claim that another write relies on", release(t, s, second), memproxy.ErrStale)
	listed := must.Get(s.Bind(t.Context(), claim("acme", "user:bob", "4")))(t)[0]
	must.Get(s.Assign(t.Context(), entity("acme", "user:bob")))(t)
	wantErr(t, "a claim of a listed name", release(t, s, listed), memproxy.ErrStale)
}

// releasedAtOnce releases a claim while another write of its tenant comes to rely on it,
// and a second tenant wants the name.
func releasedAtOnce(t *testing.T, s *ledger.Ledger) {
	for i := range 20 {
		id := fmt.Sprint("user:", i)
		first := must.Get(s.Bind(t.Context(), claim("acme", id, "1")))(t)[0]
		var gone error
		var mine, theirs []memproxy.Ownership
		var errs [2]error
		var wg sync.WaitGroup
		wg.Go(func() { gone = release(t, s, first) })
		wg.Go(func() { mine, errs[0] = s.Bind(t.Context(), claim("acme", id, "2")) })
		wg.Go(func() { theirs, errs[1] = s.Bind(t.Context(), claim("globex", id, "3")) })
		wg.Wait()
		must.Do(t, errors.Join(errs[:]...))
		rows := must.Get(ledger.ByID(t.Context(), s, "mem", memproxy.TargetEntity, id))(t)
		is := rows[id].Owner
		must.That(t, is.Scope.Tenant == mine[0].Scope.Tenant && (theirs[0].Scope.Tenant != "globex" || mine[0].Scope.Tenant != "acme"),
			"released: %v; the tenant was told %+v, the other %+v, and the owner is %+v", gone, mine[0], theirs[0], is)
		must.Equal(t, errors.Is(gone, memproxy.ErrStale), is.Scope.Tenant == "acme" && is.Decision == "", "released", gone, "and the owner is", is)
	}
}

func assigned(t *testing.T, s *ledger.Ledger) {
	ctx := t.Context()
	memory := func(id, tenant, user string) memproxy.Ownership {
		return memproxy.Ownership{Backend: "mem", Kind: memproxy.TargetMemory, ID: id, Scope: memproxy.Scope{Tenant: tenant, User: user}, Actor: "agent:" + tenant}
	}
	deleted := memory("gone", "acme", "emptied")
	deleted.Deleted = true
	put(t, s, memory("1", "acme", "in-use"), memory("2", "globex", "of-both"), memory("3", "acme", "of-both"), memory("4", "globex", "own"), deleted)
	elsewhere := memory("5", "acme", "unused")
	elsewhere.Backend = "other"
	agents := memory("6", "acme", "")
	agents.Scope.Agent = "unused"
	put(t, s, elsewhere, agents)
	for _, name := range []string{"in-use", "unused", "emptied"} {
		must.Get(s.Bind(ctx, entity("acme", "user:"+name)))(t)
	}
	for _, name := range []string{"of-both", "own"} {
		must.Get(s.Bind(ctx, entity(memproxy.TenantInaccessible, "user:"+name)))(t)
	}
	for name, want := range map[string]string{"in-use": "acme", "unused": "globex", "emptied": "globex", "of-both": memproxy.TenantInaccessible, "own": "globex", "new": "globex"} {
		id := "user:" + name
		got, err := s.Assign(ctx, entity("globex", id))
		expect.That(t, err == nil && len(got) == 1 && got[0].Scope.Tenant == want, "%s: %+v, %v; want %q", name, got, err, want)
		rows, err := ledger.ByID(ctx, s, "mem", memproxy.TargetEntity, id)
		expect.That(t, err == nil && rows[id].Owner.Scope.Tenant == want && (want != "globex" || rows[id].Owner.Actor == "agent:globex"),
			"%s: found %+v, %v; want %q", name, rows[id], err, want)
	}
}

func boundAtOnce(t *testing.T, s *ledger.Ledger) {
	const callers = 16
	told := make([]string, callers)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			got, err := s.Bind(t.Context(), entity(fmt.Sprint("tenant-", i), "user:ann"))
			if err != nil || len(got) != 1 {
				t.Errorf("%+v, %v", got, err)
				return
			}
			told[i] = got[0].Scope.Tenant
		})
	}
	wg.Wait()
	for _, tenant := range told {
		must.That(t, tenant != "" && tenant == told[0], "callers were told different tenants: %v", told)
	}
}

// statesOfOwners marks memories before another tenant comes to own them.
func statesOfOwners(t *testing.T, l Life) {
	row := Row("m1")
	row.Scope.Tenant = "globex"
	bound := Row("m2")
	bound.Scope.Tenant = "globex"
	for _, id := range []string{"m1", "m2", "none"} {
		set(t, l, id, memproxy.StateQuarantined)
	}
	put(t, l.Ledger, row)
	if st := status(t, l, "m1"); st.Tenant != "globex" { // also while the owner is queued
		t.Errorf("adopted: %+v", st)
	}
	must.Get(l.Bind(t.Context(), bound))(t)
	for _, again := range []memproxy.MemoryState{memproxy.StateFlagged, memproxy.StateQuarantined} {
		set(t, l, "m1", again) // by a change that has the earlier tenant
	}
	for tenant, want := range map[string][]string{"globex": {"m1", "m2"}, "acme": {"none"}} {
		var ids []string
		for _, st := range must.Get(l.Other.ListStatuses(t.Context(), memproxy.StatusFilter{State: memproxy.StateQuarantined, Tenant: &tenant}))(t) {
			ids = append(ids, st.ID)
		}
		expect.List(t, ids, want, "quarantined of", tenant)
	}
}

// judgedAgain begins the histories of memories that the rules judged before. They are
// judged by the same rules again, unless they have a state that says more.
func judgedAgain(t *testing.T, l Life) {
	for id, state := range map[string]memproxy.MemoryState{"m1": memproxy.StateUntrusted, "m2": memproxy.StateFlagged} {
		set(t, l, id, state)
		v := Version(id, "found")
		must.Get(l.Backends.BeginHistories(t.Context(), v, v))(t)
		want := map[memproxy.MemoryState]string{memproxy.StateUntrusted: "", memproxy.StateFlagged: "p1"}[state]
		st := status(t, l, id)
		expect.That(t, st.Rules == want && st.State == state && st.Decision == "d-"+id, "%s: %+v, want rules %q", state, st, want)
	}
}
