// These tests are about statements and sizes that no caller sees, and one adds keys for
// half a second, so they are in the slow ring.

//go:build slow

package ledger

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
)

// Statuses by state, and memories changed out-of-band, are listed by an index: reads
// derived from many memories query them first, and would otherwise scan all statuses.
//
// Proves EDGE-4, EDGE-17.
func TestStatusesAreListedFromAnIndex(t *testing.T) {
	l := opened(t, filepath.Join(ring.Dir(t), "ledger.db"))
	indexes := map[*memproxy.StatusFilter]string{
		{Unverified: true}:         "record_unverified",
		{Overdue: true}:            "record_expires",
		{Deleted: new(time.Now())}: "record_deleted",
	}
	for _, state := range memproxy.MemoryStates {
		indexes[&memproxy.StatusFilter{State: state}] = "record_state"
	}
	for f, index := range indexes {
		f.Backend, f.Tenant = "mem0", new("acme")
		query, args, err := statusQuery(f, time.Now())
		must.Do(t, err)
		if got := planOf(t, l, query, args...); !strings.Contains(got, index) || strings.Contains(got, "TEMP B-TREE") && !f.Overdue && f.Deleted == nil { // few are over and not marked, or were just deleted
			t.Errorf("%+v: %s", *f, got)
		}
	}
}

// planOf returns how SQLite runs a query.
func planOf(t *testing.T, l *Ledger, query string, args ...any) string {
	t.Helper()
	var plan strings.Builder
	rows := must.Get(l.reader.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+query, args...))(t)
	for rows.Next() {
		var id, parent, unused int
		var detail string
		must.Do(t, rows.Scan(&id, &parent, &unused, &detail))
		plan.WriteString(detail + "\n")
	}
	must.Do(t, rows.Close())
	return plan.String()
}

// Accepting a chain reads the memories that are flagged, in the order of their index: every
// write waits for the last of these queries.
//
// Proves EDGE-17.
func TestAcceptReadsFlaggedMemoriesOnly(t *testing.T) {
	l := opened(t, filepath.Join(ring.Dir(t), "ledger.db"))
	_, _, err := l.Chains.Accept(t.Context(), "acme", nil)
	must.Do(t, err)
	var asked []string
	l.queries.Range(func(text, _ any) bool { asked = append(asked, text.(string)); return true })
	asked = slices.AppendSeq(asked, maps.Keys(l.ready))
	asked = slices.DeleteFunc(asked, func(text string) bool { return !strings.Contains(text, "unverified = ?") })
	expect.Len(t, asked, 2, "queries")
	for _, text := range asked {
		plan := planOf(t, l, text, make([]any, strings.Count(text, "?"))...)
		expect.That(t, strings.Contains(plan, "record_unverified") && !strings.Contains(plan, "B-TREE"), "%s: %s", text, plan)
	}
}

// A new hold reads the rows of its caller's waiting holds only, and of the queue index
// entries, of which no more are compared than a limit.
//
// Proves EDGE-17.
func TestAHoldReadsNoRowsOfTheQueue(t *testing.T) {
	l := opened(t, filepath.Join(ring.Dir(t), "ledger.db"))
	var asked []string
	must.Do(t, l.change(t.Context(), nil, func(t *transaction) {
		for _, h := range []memproxy.HeldWrite{
			{Tenant: "acme", Principal: "agent:a"},
			{Tenant: "acme", Principal: memproxy.AnonymousID("00112233445566778899", ""), Trust: memproxy.TrustAnonymous},
		} {
			_ = roomFor(t, h)
			similarityOf(t, h.Tenant, 1)
		}
		for text := range t.ready {
			asked = append(asked, text)
		}
	}))
	expect.Len(t, asked, 5, "queries")
	for _, text := range asked {
		plan := planOf(t, l, sqliteDialect.sql(text), make([]any, strings.Count(text, "?"))...)
		if strings.Contains(plan, "B-TREE") || !strings.Contains(plan, "COVERING INDEX") && !strings.Contains(plan, "principal") || !strings.Contains(text, "count(") && !strings.Contains(text, "LIMIT") {
			t.Errorf("%s: %s", text, plan)
		}
	}
}

// The statements of lists are prepared once and reused, also at another time: each text is
// kept until the ledger is closed. The writer keeps what it runs for the second time.
func TestListsReuseStatements(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	l := must.Get(Open(Options{Timeout: ring.Limit, Clock: func() time.Time { return now }}))(t)
	defer l.Close()
	list := func() (read, written int) {
		now = now.Add(time.Second)
		must.Get(l.Sessions.List(t.Context(), memproxy.SessionFilter{Tenant: new("acme")}))(t)
		must.Get(l.Upkeep.Maintain(t.Context(), now, Retention{time.Hour, time.Hour, time.Hour, time.Hour}))(t)
		l.queries.Range(func(any, any) bool { read++; return true })
		for _, kept := range l.ready {
			if kept != nil {
				written++
			}
		}
		return read, written
	}
	read, before := list()
	_, written := list()
	again, still := list()
	expect.That(t, again == read && still == written && written > before,
		"kept: %d statements of readers, %d after the same calls; %d of the writer, then %d, then %d", read, again, before, written, still)
}

// Proves EDGE-3: filters grow without losing keys.
func TestFiltersKeepTheirKeysWhenGrowing(t *testing.T) {
	ring.Long(t, "one key after another")
	s := &keyFilter{loaded: true}
	id := func(i int) key { return key{Backend: "mem0", Kind: memproxy.TargetMemory, ID: fmt.Sprint(i)} }
	const n, step = 3 * firstFilter, 7 // a filter that is lost loses all of its keys
	for i := range n {
		s.add(id(i))
	}
	wrong := 0
	for i := 0; i < 2*n; i += step {
		_, unknown := s.absent(id(i))
		must.That(t, i >= n || !unknown, "%d is unknown", i)
		if i >= n && !unknown {
			wrong++
		}
	}
	expect.That(t, len(s.filters) == 2 && wrong <= n/step/25, "%d filters take %d of %d unknown keys for known ones", len(s.filters), wrong, n/step)
}

func TestDialect(t *testing.T) {
	for text, want := range map[string]string{
		`a = ? AND b = ?`:                        `a = $1 AND b = $2`,
		`a = ?2 AND b = ?1 OR c = ?12`:           `a = $2 AND b = $1 OR c = $12`,
		`id IN (SELECT value FROM json_each(?))`: `id IN (SELECT json_array_elements_text($1))`,
		`VALUES (?,?,'')`:                        `VALUES ($1,$2,'')`,
		`SELECT 1`:                               `SELECT 1`,
	} {
		expect.Equal(t, postgresDialect.sql(text), want, text)
		expect.Equal(t, sqliteDialect.sql(text), text, "SQLite")
	}
}
