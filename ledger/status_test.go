package ledger

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
)

// Statuses by state, and memories changed out-of-band, are listed by an index: reads
// derived from many memories query them first, and would otherwise scan all statuses.
//
// Proves EDGE-4, EDGE-17.
func TestStatusesAreListedFromAnIndex(t *testing.T) {
	l := must.Get(Open(Options{Timeout: ring.Limit, Path: filepath.Join(ring.Dir(t), "ledger.db"), Vault: testVault(t), Clock: time.Now}))(t)
	defer l.Close()
	for index, f := range map[string]memproxy.StatusFilter{
		"record_state":      {Backend: "mem0", Tenant: new("acme"), State: memproxy.StateFlagged},
		"record_unverified": {Backend: "mem0", Tenant: new("acme"), Unverified: true},
		"record_expires":    {Backend: "mem0", Tenant: new("acme"), Overdue: true},
		"record_deleted":    {Backend: "mem0", Tenant: new("acme"), Deleted: new(time.Now())},
	} {
		query, args, err := statusQuery(&f, time.Now())
		must.Do(t, err)
		var plan strings.Builder
		rows := must.Get(l.reader.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+query, args...))(t)
		for rows.Next() {
			var id, parent, unused int
			var detail string
			must.Do(t, rows.Scan(&id, &parent, &unused, &detail))
			plan.WriteString(detail + "\n")
		}
		must.Do(t, rows.Close())
		if got := plan.String(); !strings.Contains(got, index) || strings.Contains(got, "TEMP B-TREE") && !f.Overdue && f.Deleted == nil { // few are over and not marked, or were just deleted
			t.Errorf("%+v: %s", f, got)
		}
	}
}

// The statements of lists are prepared once and reused, also at another time: each text is
// kept until the ledger is closed.
func TestListsReuseStatements(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	l := must.Get(Open(Options{Timeout: ring.Limit, Vault: testVault(t), Clock: func() time.Time { return now }}))(t)
	defer l.Close()
	list := func() (n int) {
		now = now.Add(time.Second)
		must.Get(l.Sessions.List(t.Context(), memproxy.SessionFilter{Tenant: new("acme")}))(t)
		must.Get(l.Upkeep.Maintain(t.Context(), now, Retention{time.Hour, time.Hour, time.Hour, time.Hour}))(t)
		l.queries.Range(func(any, any) bool { n++; return true })
		return n + len(l.ready)
	}
	if first, again := list(), list(); again != first {
		t.Errorf("%d statements are kept, %d after the same calls", first, again)
	}
}
