package app_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/review"
)

// Proves EDGE-4, TRL-8: an administrator may accept a broken hash chain with a reason,
// which is recorded. Records behind the break are no longer marked unverified, chain
// ends are anchored again, and the next break is reported.
func TestAcceptingABreak(t *testing.T) {
	t.Parallel()
	for _, name := range ring.Sample(slices.Sorted(maps.Keys(damage)), 1, 2) {
		do := damage[name]
		if do == nil {
			continue
		}
		t.Run(name, func(t *testing.T) {
			r := start(t, screeningConf, "SCREENING", "ownership: {changed: withhold}\nmemories: {validate: 0}")
			ids, c := r.cats(), r.car.Checker
			must.Do(t, c.Anchor(t.Context()))
			r.vandal(do...)
			must.Equal(t, r.sweep().Findings() > 0, true, "something was found")
			ids = append(ids, r.written("Ann has a dog.", ""))
			r.versioned(ids[3])
			got, err := c.Accept(context.Background(), review.AcceptRequest{Tenant: "acme", Reason: "the disk was restored"})
			if err != nil || len(got.Accepted) == 0 || got.Cleared == 0 || got.Head.Position == 0 {
				t.Fatalf("%+v, %v", got, err)
			}
			r.clean("accepted")
			list := r.listed()
			for i, id := range ids {
				expect.Equal(t, r.statusOf(id).Unverified, "", "memory", i, "is marked")
				expect.Text(t, list, "memory", i, "is marked").Has(id)
			}
			expect.Is(t, expect.Err(c.Accept(context.Background(), review.AcceptRequest{Tenant: "acme", Reason: "again"})), memproxy.ErrState, "once more")
			expect.Text(t, r.audit("--type", "chain_accept"), "on record").Times(1, `"type":"chain_accept"`).Has("the disk was restored", `"acme"`)

			before := r.records(memproxy.EventAnchor)
			later := r.written("Ann has a horse.", "")
			r.versioned(later)
			must.Do(t, c.Anchor(t.Context()))
			must.Do(t, r.car.Audit.Flush(context.Background()))
			expect.Equal(t, r.records(memproxy.EventAnchor), before+1, before, "anchors, then")
			expect.Equal(t, r.statusOf(later).Unverified, "", before, "anchors, then")

			breaks := strings.Count(r.audit("--type", "chain_break"), `"type":"chain_break"`)
			r.vandal(`UPDATE version SET actor = 'human:boss' WHERE id = '` + later + `'`)
			if r.sweep().Findings() == 0 || r.statusOf(later).Unverified != memproxy.IntegrityChain {
				t.Errorf("the next break: %+v", r.statusOf(later))
			}
			expect.Equal(t, strings.Count(r.audit("--type", "chain_break"), `"type":"chain_break"`), breaks+1, breaks, "breaks on record, then")
		})
	}
}

// Proves EDGE-4: a chain that is truncated again at an accepted break is broken again.
// Accepting fails if the text differs from the recorded one, the chain is intact, or
// the tenant is unknown.
func TestAcceptanceRequiresTheRecordedBreak(t *testing.T) {
	t.Parallel()
	r := start(t, screeningConf, "SCREENING", "memories: {validate: 0}")
	ids, c := r.cats(), r.car.Checker
	accept := func(tenant string) (review.AcceptReport, error) {
		return c.Accept(context.Background(), review.AcceptRequest{Tenant: tenant, Reason: "known"})
	}
	for tenant, want := range map[string]error{"acme": memproxy.ErrState, "nobody": memproxy.ErrUnknown} {
		expect.Is(t, expect.Err(accept(tenant)), want, tenant)
	}
	expect.Is(t, expect.Err(accept("sha256:"+memproxy.TextSHA256("memproxy tenant\x00nobody"))), memproxy.ErrUnknown, "a chain that never was")
	hash := memproxy.TextSHA256("memproxy tenant\x00ghost") // of whom only the log knows
	ghost := "sha256:" + hash
	end := memproxy.Event{Type: memproxy.EventAnchor, Time: time.Now(), Targets: []string{hash}, Items: 5, ContentSHA256: "aa", Claimed: -1, Confidence: -1}
	must.Do(t, r.car.Audit.Record(t.Context(), end))
	if report := r.sweep(); report.Findings() != 1 || report.Chains[len(report.Chains)-1].Tenant != ghost {
		t.Errorf("a chain that is gone: %+v", report.Chains)
	}
	if got, err := accept(ghost); err != nil || len(got.Accepted) != 1 || r.sweep().Findings() != 0 {
		t.Errorf("a chain that is gone, accepted: %+v, %v", got, err)
	}
	expect.Is(t, expect.Err(accept(ghost)), memproxy.ErrState, "a chain that is gone, once more")
	must.Do(t, c.Anchor(context.Background()))
	r.vandal(`DELETE FROM version WHERE place = 3`)
	must.Get(accept("acme"))(t)
	r.clean("after the first")
	again := r.written("Ann has a dog.", "")
	r.versioned(again)
	must.Do(t, c.Anchor(context.Background()))
	r.vandal(`DELETE FROM version WHERE id = '` + again + `'`)
	found := r.sweep()
	if len(found.Chains) != 1 || found.Chains[0].Open() == 0 {
		t.Errorf("cut again: %+v", found.Chains)
	}
	r.vandal(`UPDATE version SET envelope = x'00'`)
	got, err := accept("acme")
	if err != nil || len(got.Left) == 0 || r.statusOf(ids[0]).Unverified != memproxy.IntegrityChain {
		t.Errorf("texts: %+v, %v, %+v", got, err, r.statusOf(ids[0]))
	}
}

// Edited records are accepted and counted however many there are, of the tenant and of others.
// One that cannot be read is named as not accepted.
func TestAcceptanceOfManyEditedRecords(t *testing.T) {
	t.Parallel()
	r := start(t, screeningConf, "SCREENING", "memories: {validate: 0}")
	r.versioned(r.written("Ann has a cat.", ""))
	r.vandal(`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 120)
		INSERT INTO record (backend, kind, id, owned, tenant, state, status_tenant, findings)
		SELECT 'a', 'memory', t || i, 1, t, CASE WHEN i = 1 AND t = 'acme' THEN 'validated' ELSE '' END, t, '' FROM n, (SELECT 'acme' AS t UNION SELECT '0')`)
	got, err := r.car.Checker.Accept(context.Background(), review.AcceptRequest{Tenant: "acme", Reason: "known"})
	if err != nil || len(got.Accepted)+got.More != 119 || got.Cleared < 119 || len(got.Left) != 1 || got.Left[0].ID != "acme1" {
		t.Errorf("%d of %d accepted and %d cleared, left %+v: %v", len(got.Accepted), got.More, got.Cleared, got.Left, err)
	}
	expect.Text(t, r.audit("--type", "chain_accept"), "on record").Has("119 faults")
	_, err = r.car.Checker.Accept(context.Background(), review.AcceptRequest{Tenant: "acme", Reason: "again"})
	expect.Is(t, err, memproxy.ErrState, "what cannot be accepted")
}
