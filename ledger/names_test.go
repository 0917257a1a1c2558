package ledger_test

import (
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/memproxy/memproxy/ledger"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
)

// Proves EDGE-3: migration of an earlier ledger adds a row for every name in its
// memories. A name with memories of several tenants has no owner, even if one of them
// has bound it: no summary shows one tenant's memories to the other.
func TestNamesOfEarlierVersions(t *testing.T) {
	path := filepath.Join(ring.Dir(t), "ledger.db")
	db := emptied(t, path)
	n := 0
	row := func(kind, id, tenant, column, name string, deleted int) {
		t.Helper()
		n++
		names := map[string]string{"user": "", "agent": "", "app": "", "run": "", column: name}
		must.Get(db.Exec(`INSERT INTO ownership (backend, kind, id, tenant, "user", agent, app, run, actor, trust, confidence, source, decision, sha256, written, deleted)
			VALUES ('mem0', ?, ?, ?, ?, ?, ?, ?, 'agent:x', '', 0, '', '', '', ?, ?)`, kind, id, tenant, names["user"], names["agent"], names["app"], names["run"], n, deleted))(t)
	}
	for _, column := range []string{"user", "agent", "app", "run"} {
		row("memory", column+"1", "acme", column, "acmes", 0)
		row("memory", column+"2", "acme", column, "both", 0)
		row("memory", column+"3", "globex", column, "both", 0)
	}
	row("memory", "4", "acme", "user", "bob", 0)
	row("entity", "user:bob", "globex", "", "", 0) // taken by an unlisted caller
	row("memory", "5", "acme", "user", "emptied", 9)
	row("memory", "6", "globex", "user", "left", 9)
	row("entity", "user:left", "acme", "", "", 0)
	row("event", "7", "globex", "user", "asked", 0)
	row("entity", "user:asked", "acme", "", "", 0)
	must.Do(t, db.Close())
	want := map[string]string{
		"user:acmes": "acme", "agent:acmes": "acme", "app:acmes": "acme", "run:acmes": "acme",
		"user:both": memproxy.TenantInaccessible, "agent:both": memproxy.TenantInaccessible, "app:both": memproxy.TenantInaccessible, "run:both": memproxy.TenantInaccessible,
		"user:bob": memproxy.TenantInaccessible, "user:emptied": "acme", "user:left": "acme", "user:asked": memproxy.TenantInaccessible,
	}
	for range 2 { // idempotent
		l := must.Get(ledger.Open(ledger.Options{Path: path, Vault: testVault(t), Timeout: ring.Limit}))(t)
		rows := must.Get(ledger.ByID(t.Context(), l, "mem0", memproxy.TargetEntity, slices.Collect(maps.Keys(want))...))(t)
		for id, tenant := range want {
			got, is := rows[id]
			expect.That(t, is && got.Owner.Scope.Tenant == tenant && (tenant != memproxy.TenantInaccessible || got.Owner.Actor == ""), "%s is %+v, want %q", id, got, tenant)
		}
		must.Do(t, l.Close())
	}
}
