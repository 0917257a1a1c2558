// Package ledgertest is the contract of a ledger. A store that passes Run can serve the
// gate: what was written is found, what is unknown is absent, one malformed id does not
// fail a lookup, writers and readers see no partial entries, and a closed store returns
// an error. RunLife is the contract of holds, states, versions and sessions.
package ledgertest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/ledger"
)

// Run tests the contract. Open returns a new, empty store; Run closes it.
func Run(t *testing.T, open func(*testing.T) *ledger.Ledger) {
	for _, c := range []struct {
		name string
		run  func(*testing.T, *ledger.Ledger)
	}{
		{"found as put", foundAsPut},
		{"unknown is absent", unknownIsAbsent},
		{"replaced", replaced},
		{"backends and kinds are apart", apart},
		{"a name is bound once", bound},
		{"a name that many bind at once is one's", boundAtOnce},
		{"a claimed name is released unless others rely on it", released},
		{"a name is released while it is claimed", releasedAtOnce},
		{"a listed name goes to its tenant where nobody else has anything", assigned},
		{"many ids", manyIDs},
		{"odd ids are stored exactly", oddIDs},
		{"hostile rows are refused whole", hostileRows},
		{"hostile ids do not spoil a lookup", hostileLookup},
		{"a decision finds its scope", decisions},
		{"tombstones stay until pruned", tombstones},
		{"a sweep leaves tombstones within its scope", swept},
		{"noted rows arrive in order", noted},
		{"facts are counted once", facts},
		{"what is let out of review is counted", accepted},
		{"corrections are counted once, one's own never", corrections},
		{"a dead context is an error", deadContext},
		{"a closed store says so", closed},
		{"writers and readers at once", concurrent},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := open(t)
			t.Cleanup(func() { _ = s.Close() })
			c.run(t, s)
		})
	}
}

// Row returns a complete row of a memory.
func Row(id string) memproxy.Ownership {
	return memproxy.Ownership{
		Backend: "mem0", Kind: memproxy.TargetMemory, ID: id,
		Scope: memproxy.Scope{Tenant: "acme", User: "ann", Agent: "dev", App: "web", Run: "r1"},
		Actor: "agent:dev", Trust: memproxy.TrustAuthenticated, Confidence: 700, Source: memproxy.SourceUnstated,
		Decision: "d-" + id, SHA256: strings.Repeat("ab", 32),
		Written: time.Date(2026, 3, 1, 12, 0, 0, 123456000, time.UTC),
	}
}

func put(t *testing.T, s *ledger.Ledger, rows ...memproxy.Ownership) {
	t.Helper()
	must.Do(t, s.Commit(t.Context(), memproxy.Entry{Queued: true, Owners: rows}))
}

func owners(t *testing.T, s *ledger.Ledger, ids ...string) map[string]memproxy.Ownership {
	t.Helper()
	records := must.Get(ledger.ByID(t.Context(), s, "mem0", memproxy.TargetMemory, ids...))(t)
	got := map[string]memproxy.Ownership{}
	for id, rec := range records {
		if rec.HasOwner() {
			got[id] = rec.Owner
		}
	}
	return got
}

func same(t *testing.T, got, want memproxy.Ownership) {
	t.Helper()
	expect.Equal(t, got.Written.Equal(want.Written), true, "written", got.Written, want.Written)
	got.Written, want.Written = time.Time{}, time.Time{}
	expect.Equal(t, got, want)
}

func names(n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("m-%05d", i)
	}
	return ids
}
