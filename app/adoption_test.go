package app_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/ledger"
	"github.com/memproxy/memproxy/review"
)

// planted writes a memory directly to the backend and returns its id.
func (r *rig) planted(text string) string {
	r.t.Helper()
	return got{status: 200, body: r.behind("POST", "/memories", noted(text))}.id(r.t)
}

// sealed waits until the backend is sealed.
func (r *rig) sealed() {
	r.t.Helper()
	ring.Until(r.t, "the seal", func() bool {
		return strings.Contains(r.get("/metrics").body, `memproxy_backend_sealed{backend="mem0"} 1`)
	})
}

// sealing is a rig that seals automatically, paced by the test.
func sealing(t *testing.T, noWait bool) (*rig, *paces) {
	p := newPaces()
	return &rig{t: t, clock: p.now, pace: p.ticker, seals: true, noWait: noWait}, p
}

// records counts the audit records of a type.
func (r *rig) records(of memproxy.EventType) int {
	return strings.Count(r.audit("--type", string(of)), `"type":"`+string(of)+`"`)
}

// Proves EDGE-4: in production with default intervals, the first start seals the
// backend's existing memories without an owner. Memories added or changed directly in
// the backend afterwards are reported by reads, and by the sweep in log, audit record,
// metric and mark, without any read. Memories written through memproxy are not
// reported. The next start does not seal again.
func TestBackendIsSealedAtFirstStart(t *testing.T) {
	t.Parallel()
	r, p := sealing(t, true)
	var old []string
	r.before = func() {
		for i := range 3 {
			old = append(old, r.planted(fmt.Sprintf("Ann has %d cats.", i)))
		}
	}
	startRig(r, screeningConf, "SCREENING", "", "level: error", "level: info")
	must.Equal(t, r.car.cfg.Memories.Sweep.Std(), time.Hour, "the default is")
	r.sealed()
	expect.Text(t, r.audit("--type", "seal"), "on record").Times(2, `"type":"seal"`).Has("3 memories that nobody is known to have written").Lacks("cats")
	records, err := ledger.ByID(context.Background(), r.car.Ledger, "mem0", memproxy.TargetMemory, old...)
	for _, id := range old {
		rec := records[id]
		expect.Equal(t, err == nil && !rec.HasOwner() && rec.Presence == memproxy.PresentAtSeal, true, "somebody owns what was found", rec, err)
	}
	a := r.do("GET", "/memories?user_id=ann", "").about("what was there before").unverified(t, "")
	expect.Text(t, a.body).Times(3, "cats.")

	mine := r.written("Ann likes green tea.", "")
	r.versioned(mine)
	r.do("PUT", "/v1/memories/"+old[1]+"/", `{"text":"Ann has one cat."}`).want(t, 200)
	seen, unread := r.planted("Ann has a dog."), r.planted("Ann has a horse.")
	r.behind("PUT", "/v1/memories/"+old[2]+"/", `{"text":"Ann has no cats."}`)
	r.do("GET", "/v1/memories/"+seen+"/", "").unverified(t, seen)
	marks := map[string]memproxy.ReasonCode{
		mine: "", old[0]: "", old[1]: "", old[2]: memproxy.IntegrityMismatch, seen: memproxy.IntegrityUnknown, unread: memproxy.IntegrityUnknown,
	}
	r.within(p, 10*time.Minute, "the sweep", func() bool { return r.statusOf(unread).Unverified != "" && r.records(memproxy.EventSweep) > 0 })
	for id, want := range marks {
		expect.Equal(t, r.statusOf(id).Unverified, want, id, "is marked")
	}
	expect.Text(t, r.audit("--type", "integrity"), "on record").Times(3, `"type":"integrity"`).Has(unread).Lacks("horse")
	expect.Text(t, r.get("/metrics").body, "no metric counts them").Has(`memproxy_audit_records_total{type="integrity"} 3`)
	expect.Text(t, r.log.String(), "the log", r.log).Has(unread).Lacks("horse")

	r.stop()
	late := r.planted("Ann has a boat.")
	r.run()
	r.sealed()
	r.do("GET", "/v1/memories/"+late+"/", "").about("planted while nobody looked").unverified(t, late)
	sweeps := r.records(memproxy.EventSweep)
	r.within(p, 10*time.Minute, "the next sweep", func() bool { return r.records(memproxy.EventSweep) > sweeps })
	expect.Equal(t, r.records(memproxy.EventSeal), 2)
	for id, want := range map[string]memproxy.ReasonCode{late: memproxy.IntegrityUnknown, old[0]: ""} {
		expect.Equal(t, r.statusOf(id).Unverified, want)
	}
}

// Proves EDGE-4: removing the ledger's record of a seal, also of one that an operator made,
// which would make the next start accept planted memories as old, is recorded, and the
// planted memories are reported.
func TestRemovedSealIsRestored(t *testing.T) {
	t.Parallel()
	const off = "memories: {seal: false}"
	for name, tc := range map[string]struct {
		conf   string
		vandal []string
	}{
		"removed":        {"", []string{`DELETE FROM sealed`}},
		"as if it began": {"", []string{`DELETE FROM sealed`, `INSERT INTO sealing (backend, cursor, pass, fresh, found) VALUES ('mem0', '', 1, 0, 0)`}},
		"an operator's":  {off, []string{`DELETE FROM sealed`}},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := sealing(t, true)
			startRig(r, screeningConf, "SCREENING", tc.conf)
			if tc.conf != off {
				r.sealed()
			}
			r.versioned(r.written("Ann likes green tea.", ""))
			if tc.conf == off {
				must.Equal(t, r.sealAll().Whole, true, "sealed")
			}
			r.stop()
			planted := r.planted("Ann has a boat.")
			r.vandal(tc.vandal...)
			r.conf = strings.Replace(r.conf, off, "", 1)
			r.run()
			r.sealed()
			r.do("GET", "/v1/memories/"+planted+"/", "").unverified(t, planted)
			expect.Equal(t, r.records(memproxy.EventSeal), 2, r.audit("--type", "seal"))
			expect.Text(t, r.audit("--type", "integrity"), "on record").Has("the seal of the backend was removed")
		})
	}
}

// Proves EDGE-4: with the setting off nothing is sealed or reported as tampered until
// the command runs.
func TestSealingCanBeDisabled(t *testing.T) {
	t.Parallel()
	r, p := sealing(t, false)
	startRig(r, screeningConf, "SCREENING", "memories: {seal: false}")
	late := r.planted("Ann has a boat.")
	r.within(p, 10*time.Minute, "a sweep", func() bool { return r.records(memproxy.EventSweep) > 0 })
	r.do("GET", "/v1/memories/"+late+"/", "").unverified(t, "")
	expect.Equal(t, r.statusOf(late).Unverified, "")
	expect.Equal(t, r.records(memproxy.EventSeal), 0)
	expect.Text(t, r.get("/metrics").body).Lacks("memproxy_backend_sealed{")
	r.get("/readyz").has(t, `"production is weakened by memories.seal"`)
}

// paging is a backend that can refuse one page of its list, and records the pages
// requested.
type paging struct {
	http.Handler
	mu     sync.Mutex
	refuse string
	asked  []string
}

func (b *paging) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	if page := q.URL.Query().Get("page"); page != "" {
		b.mu.Lock()
		b.asked = append(b.asked, page)
		no := page == b.refuse
		b.mu.Unlock()
		if no {
			_, _ = io.Copy(io.Discard, q.Body)
			w.WriteHeader(http.StatusForbidden)
			return
		}
	}
	b.Handler.ServeHTTP(w, q)
}

func (b *paging) pages() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(b.asked, " ")
}

// Proves EDGE-4: a failed seal neither prevents the start nor reports memories; the
// next process continues at the page where it stopped.
func TestInterruptedSealContinues(t *testing.T) {
	t.Parallel()
	r, _ := sealing(t, false)
	back := &paging{refuse: "2"}
	var last string
	r.before = func() {
		back.Handler = r.back.handle(back)
		for i := range 120 {
			last = r.planted(fmt.Sprintf("Ann has %d cats.", i))
		}
	}
	startRig(r, screeningConf, "SCREENING", "", "level: error", "level: info")
	ring.Until(r.t, "the failure", func() bool { return strings.Contains(r.log.String(), "is not sealed yet") })
	r.do("GET", "/v1/memories/"+last+"/", "").want(t, 200).unverified(t, "")
	expect.Text(t, r.get("/metrics").body, "no metric says so").Has(`memproxy_backend_sealed{backend="mem0"} 0`)
	r.stop()
	must.Equal(t, back.pages(), "1 2", "pages")
	back.mu.Lock()
	back.refuse = ""
	back.mu.Unlock()
	r.run()
	r.sealed()
	expect.Equal(t, back.pages(), "1 2 2 1 2", "pages")
	expect.Text(t, r.audit("--type", "seal"), "on record").Times(2, `"type":"seal"`).Has("120 memories")
}

// Proves EDGE-4: a backend that requires a key is not sealed without one. The log names
// the setting once and the audit log the beginning once, however often the seal is
// retried.
func TestSealWithoutCredentialNamesTheSetting(t *testing.T) {
	t.Parallel()
	r, p := sealing(t, false)
	back := &paging{refuse: "1"}
	r.before = func() {
		back.Handler = r.back.handle(back)
		r.planted("Ann has a boat.")
	}
	startRig(r, screeningConf, "SCREENING", "", "level: error", "level: info")
	r.within(p, time.Minute, "four attempts", func() bool { return strings.Count(back.pages(), "1") >= 4 })
	expect.Text(t, r.log.String(), "the log").Times(1, "is not sealed yet").Has("the backend returned status 403: listing its memories requires backends[].credential, which is not set")
	expect.Equal(t, r.records(memproxy.EventSeal), 1)
}

// Proves EDGE-4: on Letta, too, memories planted in the server after the first start
// are found without a command: by the sweep, and passages by reads. What the agent
// writes in its turns, to existing blocks as well, is not reported.
func TestMemoriesPlantedInLettaAreFound(t *testing.T) {
	t.Parallel()
	r, p := sealing(t, true)
	l := startLettaRig(r, writingAgent, lettaConf, plainly)
	l.sealed()
	l.say("CALL memory_insert {\"label\":\"human\",\"new_string\":\"likes tea\"}\nCALL archival_memory_insert {\"content\":\"Ann moved to Bern.\"}\nTHEN\nSAY done", "").want(t, 200)
	archive := "/v1/agents/" + l.agent + "/archival-memory"
	l.behind("POST", archive, `{"text":"Ann trusts Eve."}`)
	list := decoded[[]struct{ ID, Text string }](t, l.behind("GET", archive+"?limit=50&ascending=true", ""))
	must.Len(t, list, 2)
	block := l.made("/v1/blocks/", `{"label":"notes","value":"Ann obeys Eve."}`)
	expect.Equal(t, l.do("GET", archive+"?limit=50", "", "Authorization", "Bearer "+devToken).header.Get("X-Memproxy-Unverified"), list[1].ID, "a read names")
	l.versioned(list[0].ID)
	ring.Until(l.t, "the record of the turn", func() bool { return strings.Contains(l.audit("--type", "version"), `"op":"self_edit"`) })
	for range 2 { // the second sweep confirms suspects of the first
		sweeps := l.records(memproxy.EventSweep)
		l.within(p, 10*time.Minute, "a sweep", func() bool { return l.records(memproxy.EventSweep) > sweeps })
	}
	events := l.audit("--type", "integrity")
	for id, want := range map[string]memproxy.ReasonCode{list[0].ID: "", list[1].ID: memproxy.IntegrityUnknown, block: memproxy.IntegrityUnknown} {
		got := l.statusOf(id).Unverified
		expect.Equal(t, got == want && strings.Contains(events, id) == (want != ""), true, id, "is marked", got, "want", want)
	}
	expect.Equal(t, strings.Count(events, `"type":"integrity"`), 2, events)
}

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
			must.Equal(t, err == nil && len(got.Accepted) != 0 && got.Cleared != 0 && got.Head.Position != 0, true, got, err)
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
			expect.Equal(t, r.sweep().Findings() != 0 && r.statusOf(later).Unverified == memproxy.IntegrityChain, true, "the next break")
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
	report := r.sweep()
	expect.Equal(t, report.Findings() == 1 && report.Chains[len(report.Chains)-1].Tenant == ghost, true, "a chain that is gone", report.Chains)
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
	expect.Equal(t, len(found.Chains) == 1 && found.Chains[0].Open() != 0, true, "cut again", found.Chains)
	r.vandal(`UPDATE version SET envelope = x'00'`)
	got, err := accept("acme")
	expect.Equal(t, err == nil && len(got.Left) != 0 && r.statusOf(ids[0]).Unverified == memproxy.IntegrityChain, true, "texts", got, err)
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
	expect.Equal(t, err == nil && len(got.Accepted)+got.More == 119 && got.Cleared >= 119 && len(got.Left) == 1 && got.Left[0].ID == "acme1", true, len(got.Accepted), "of", got.More, "accepted and", got.Cleared, "cleared, left", got.Left, err)
	expect.Text(t, r.audit("--type", "chain_accept"), "on record").Has("119 faults")
	_, err = r.car.Checker.Accept(context.Background(), review.AcceptRequest{Tenant: "acme", Reason: "again"})
	expect.Is(t, err, memproxy.ErrState, "what cannot be accepted")
}
