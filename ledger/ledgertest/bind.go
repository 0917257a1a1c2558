package ledgertest

import (
	"fmt"
	"sync"
	"testing"

	"github.com/memproxy/memproxy"
)

func entity(tenant, id string) memproxy.Ownership {
	return memproxy.Ownership{Backend: "mem", Kind: memproxy.TargetEntity, ID: id, Scope: memproxy.Scope{Tenant: tenant}, Actor: "agent:" + tenant}
}

func bound(t *testing.T, s Store) {
	ctx := t.Context()
	for _, tenant := range []string{"acme", "globex"} {
		got, err := s.Bind(ctx, entity(tenant, "user:ann"), entity(tenant, "user:of-"+tenant))
		if err != nil || len(got) != 2 || got[0].Scope.Tenant != "acme" || got[1].Scope.Tenant != tenant {
			t.Fatalf("bound for %s: %+v, %v", tenant, got, err)
		}
	}
	rows, err := s.Owners(ctx, "mem", memproxy.TargetEntity, []string{"user:ann", "user:of-globex"})
	if err != nil || rows["user:ann"].Actor != "agent:acme" || rows["user:of-globex"].Scope.Tenant != "globex" {
		t.Errorf("found %+v, %v", rows, err)
	}
	other := entity("globex", "user:ann")
	other.Backend = "other"
	if got, err := s.Bind(ctx, other); err != nil || got[0].Scope.Tenant != "globex" {
		t.Errorf("another backend's name: %+v, %v", got, err)
	}
	if _, err := s.Bind(ctx, entity("acme", "user:\x00")); err == nil {
		t.Error("a name with a NUL was bound")
	}
}

func boundAtOnce(t *testing.T, s Store) {
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
