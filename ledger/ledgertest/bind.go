package ledgertest

import (
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
		if err != nil || len(got) != 2 || got[0].Scope.Tenant != "acme" || got[1].Scope.Tenant != tenant {
			t.Fatalf("bound for %s: %+v, %v", tenant, got, err)
		}
	}
	rows, err := ledger.ByID(ctx, s, "mem", memproxy.TargetEntity, "user:ann", "user:of-globex")
	if err != nil || rows["user:ann"].Owner.Actor != "agent:acme" || rows["user:of-globex"].Owner.Scope.Tenant != "globex" {
		t.Errorf("found %+v, %v", rows, err)
	}
	other := entity("globex", "user:ann")
	other.Backend = "other"
	if got, err := s.Bind(ctx, other); err != nil || got[0].Scope.Tenant != "globex" {
		t.Errorf("another backend's name: %+v, %v", got, err)
	}
	expect.Error(t, expect.Err(s.Bind(ctx, entity("acme", "user:\x00"))), "a name with a NUL was bound")
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
		if err != nil || len(got) != 1 || got[0].Scope.Tenant != want {
			t.Errorf("%s: %+v, %v; want %q", name, got, err, want)
		}
		rows, err := ledger.ByID(ctx, s, "mem", memproxy.TargetEntity, id)
		if err != nil || rows[id].Owner.Scope.Tenant != want || want == "globex" && rows[id].Owner.Actor != "agent:globex" {
			t.Errorf("%s: found %+v, %v; want %q", name, rows[id], err, want)
		}
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
		if tenant == "" || tenant != told[0] {
			t.Fatalf("callers were told different tenants: %v", told)
		}
	}
}
