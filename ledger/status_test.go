package ledger

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
)

// Statuses by state, and memories changed out-of-band, are listed by an index: reads
// derived from many memories query them first, and would otherwise scan all statuses.
//
// Proves EDGE-4, EDGE-17.
func TestStatusesAreListedFromAnIndex(t *testing.T) {
	l, err := Open(Options{Path: filepath.Join(t.TempDir(), "ledger.db"), Vault: testVault(t), Clock: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for index, f := range map[string]memproxy.StatusFilter{
		"record_state":      {Backend: "mem0", Tenant: new("acme"), State: memproxy.StateFlagged},
		"record_unverified": {Backend: "mem0", Tenant: new("acme"), Unverified: true},
		"record_expires":    {Backend: "mem0", Tenant: new("acme"), Overdue: true},
	} {
		query, args, err := statusQuery(&f, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		var plan strings.Builder
		rows, err := l.reader.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+query, args...)
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			var id, parent, unused int
			var detail string
			if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
				t.Fatal(err)
			}
			plan.WriteString(detail + "\n")
		}
		if err := rows.Close(); err != nil {
			t.Fatal(err)
		}
		if got := plan.String(); !strings.Contains(got, index) || strings.Contains(got, "TEMP B-TREE") && !f.Overdue { // few are over and not marked
			t.Errorf("%+v: %s", f, got)
		}
	}
}

// The statements of lists are prepared once and reused, also at another time: each text is
// kept until the ledger is closed.
func TestListsReuseStatements(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	l, err := Open(Options{Vault: testVault(t), Clock: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	list := func() (n int) {
		now = now.Add(time.Second)
		if _, err := l.Sessions.List(t.Context(), memproxy.SessionFilter{Tenant: new("acme")}); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Upkeep.Maintain(t.Context(), now, Retention{}); err != nil {
			t.Fatal(err)
		}
		l.queries.Range(func(any, any) bool { n++; return true })
		return n + len(l.ready)
	}
	if first, again := list(), list(); again != first {
		t.Errorf("%d statements are kept, %d after the same calls", first, again)
	}
}
