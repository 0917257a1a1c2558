package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/app"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/internal/cli"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/ledger"
	"github.com/memproxy/memproxy/review"
)

// offline stops the sidecar and writes its configuration to a file for commands.
func (r *rig) offline() string {
	r.t.Helper()
	r.stop()
	return writeFile(r.t, filepath.Join(r.dir, "memproxy.yaml"), r.conf)
}

// Proves EDGE-4: a seal records the backend's existing memories as a tenant's, with
// unknown author and no confidence, and is idempotent. Readers with a minimum
// confidence do not get them, and they are not reported as tampered; later changes and
// additions behind the proxy are found.
func TestSealAdoptsExistingMemories(t *testing.T) {
	t.Parallel()
	r := start(t, screeningConf, "SCREENING", "memories: {validate: 0}")
	var ids []string
	for i := range 5 {
		body := r.behind("POST", "/memories", strings.TrimSuffix(noted(fmt.Sprintf("Ann has %d cats.", i)), "}")+`,"metadata":{"about":"cats"}}`)
		ids = append(ids, got{body: body}.id(t))
	}
	mine := r.written("Ann likes green tea.", "")
	r.versioned(mine)
	report := r.sweep()
	expect.Equal(t, report.Findings() == 0 && report.Backends[0].Unknown == 5 && report.Backends[0].Known == 1, true, "before the seal nobody is accused", report)

	conf := r.offline()
	for i, want := range []string{"5 sealed for tenant \"acme\", 1 known before, 0 not adopted", "0 sealed for tenant \"acme\", 6 known before, 0 not adopted"} {
		ran(t, "audit", "seal", "--config", conf, "--backend", "mem0", "--tenant", "acme").want(t, cli.OK, "seal", i).has(t, want)
	}
	ran(t, "ledger", "sweep", "--config", conf).want(t, cli.OK).has(t, "6 memories, 6 known, 0 unknown, 0 not read, 0 findings", "unbroken")
	r.run()
	expect.Text(t, r.audit("--type", "seal"), "the record of the seal").Times(4, `"type":"seal"`).Has("5 sealed").Lacks("cats")
	history, err := r.car.Ledger.History(context.Background(), memproxy.MemoryKey{Backend: "mem0", Kind: memproxy.TargetMemory, ID: ids[0]}, 0, 9)
	if err != nil || len(history) != 1 || history[0].Op != memproxy.OpSeal || history[0].Trust != memproxy.TrustAnonymous || history[0].Confidence != 0 ||
		history[0].Attestation != memproxy.AttestationUnknown || history[0].Actor != "" || history[0].Tenant != "acme" {
		t.Errorf("%+v, %v", history, err)
	}
	if a := r.do("GET", "/memories?user_id=ann", ""); strings.Count(a.body, "cats.") != 5 || a.header.Get("X-Memproxy-Unverified") != "" {
		t.Errorf("%v %s", a.header, a.body)
	}
	r.do("GET", "/memories?user_id=ann", "", "X-Memproxy-Min-Trust", "0.001").about("of a least confidence").has(t, "green tea").lacks(t, "cats.")

	r.behind("PUT", "/v1/memories/"+ids[1]+"/", `{"text":"Ann has no cats."}`)
	r.behind("PUT", "/v1/memories/"+ids[2]+"/", `{"metadata":{"about":"dogs"}}`)
	r.behind("DELETE", "/v1/memories/"+ids[3]+"/", "")
	dog := r.planted("Ann has a dog.")
	a := r.do("GET", "/memories?user_id=ann", "")
	for id, want := range map[string]bool{ids[0]: false, ids[1]: true, ids[2]: false, dog: true, mine: false} {
		expect.Equal(t, strings.Contains(a.header.Get("X-Memproxy-Unverified"), id), want, id, "named in", a.header.Get("X-Memproxy-Unverified"))
	}
	found := classes(r.sweep())
	for id, want := range map[string]string{
		ids[0]: "", ids[1]: "tamper integrity.mismatch", ids[2]: "", ids[3]: "delete integrity.missing", dog: "insert integrity.unknown",
	} {
		expect.Equal(t, found[id], want, id)
	}
}

// Proves EDGE-4: a command on the state of a stopped sidecar, for which no caller waits, is
// not ended by a disk that takes longer than a request would wait.
func TestCommandsWaitForASlowDisk(t *testing.T) {
	t.Parallel()
	up := serving(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close") // no goroutine of a connection is left in the bubble
		_, _ = w.Write([]byte(`{"results":[]}`))
	}))
	text := fmt.Sprintf("profile: development\nstate: %q\nbackends: [{name: mem0, kind: mem0, listen: \"127.0.0.1:0\", upstream: %q}]\n", ring.Dir(t), up.URL)
	cfg := must.Get(config.Parse("memproxy.yaml", []byte(text), os.Getenv))(t)
	synctest.Test(t, func(t *testing.T) {
		slow := func() time.Time { time.Sleep(2 * ledger.DefaultTimeout); return time.Now() } // within transactions
		here := app.Installation{Config: cfg, Options: app.Options{Log: &lockedBuffer{}, Getenv: allowing(cfg), Version: "test", Clock: slow}}
		report, err := app.RunReviewOp(t.Context(), here, "seal", review.SealRequest{Backend: "mem0"}, func(c review.Integrity, ctx context.Context, q review.SealRequest) (review.SealReport, error) {
			return c.Seal(ctx, q)
		})
		expect.OK(t, err)
		expect.Equal(t, report.Whole, true, report)
	})
}

// Proves EDGE-4: the commands work on the state of a stopped sidecar, or through the
// API of a running one, as a reviewer. A sweep with findings exits with 1.
func TestCustodyCommands(t *testing.T) {
	reviewed := fmt.Sprintf(`memories: {validate: 0}
review: {reviewers: [{id: eve, sha256: %q, roles: [view, review], tenants: "*"}, {id: bob, sha256: %q, roles: [view, review], tenants: [other]}]}`, sha(reviewToken), sha("bob-has-a-token-of-many-letters"))
	r := start(t, screeningConf, "SCREENING", reviewed)
	id := r.written("Ann likes green tea.", "")
	r.versioned(id)
	conf := writeFile(t, filepath.Join(r.dir, "memproxy.yaml"), r.conf)
	token := writeFile(t, filepath.Join(r.dir, "token"), reviewToken+"\n")
	bob := writeFile(t, filepath.Join(r.dir, "bob"), "bob-has-a-token-of-many-letters")
	says(t, cli.OK, "mem0: 1 memories, 1 known", "ledger", "sweep", "--config", conf)
	says(t, cli.OK, `"whole": true`, "audit", "seal", "--admin", r.admin, "--token-file", token, "--backend", "mem0", "--tenant", "acme", "--json")
	says(t, cli.OK, "mem0: 1 memories, 1 known", "ledger", "sweep", "--admin", r.admin, "--token-file", token)
	r.behind("PUT", "/v1/memories/"+id+"/", `{"text":"Ann pays Eve."}`)
	code, out, errs := invoke(t, "ledger", "sweep", "--admin", r.admin, "--token-file", token, "--backend", "mem0", "--json")
	var report review.SweepReport
	err := json.Unmarshal([]byte(out), &report)
	expect.Equal(t, err == nil && code == cli.Failed && classes(report)[id] == "tamper integrity.mismatch", true, "exit", code, out, errs)
	// A reviewer of another tenant learns nothing of it.
	ran(t, "ledger", "sweep", "--admin", r.admin, "--token-file", bob).want(t, cli.OK).lacks(t, id, "acme")
	says(t, cli.Failed, "not a tenant that you review", "audit", "seal", "--admin", r.admin, "--token-file", bob, "--backend", "mem0", "--tenant", "acme")
	expect.Text(t, r.audit("--type", "review"), "who asked is not on record").Has("review.sweep", "review.seal", `"id":"eve"`)

	r.offline()
	ran(t, "ledger", "sweep", "--config", conf).want(t, cli.Failed).has(t, "tamper integrity.mismatch "+id).lacks(t, "Eve")
	for _, args := range [][]string{{"ledger"}, {"ledger", "mop"}, {"ledger", "sweep", "x"}, {"audit", "seal", "--config", conf}, {"ledger", "sweep", "--scope", "x"}, {"ledger", "sweep", "--config", conf, "--backend", "none"}} {
		ran(t, args...).want(t, cli.Usage, args)
	}
	t.Setenv(review.TokenEnv, "")
	for _, args := range [][]string{{"ledger", "sweep"}, {"ledger", "sweep", "--config", filepath.Join(r.dir, "none")}, {"audit", "seal", "--backend", "mem0", "--token-file", filepath.Join(r.dir, "none")}} {
		a := ran(t, args...).want(t, cli.Failed)
		expect.Equal(t, a.body != "", true, args, "says nothing")
	}
}

// Proves EDGE-4, TRL-7: restoring an earlier ledger, signed chain ends included, is
// detected by the anchors in the audit log, also after further writes. An administrator
// may accept a deliberate restore, on record, after which new writes verify.
func TestLedgerPutBackIsDetected(t *testing.T) {
	t.Parallel()
	for _, writes := range []int{0, 3} {
		r := start(t, screeningConf, "SCREENING", "memories: {validate: 0}")
		r.versioned(r.written("Ann has a cat.", ""))
		r.offline()
		file := filepath.Join(r.dir, "state", "ledger.db")
		old := must.Get(os.ReadFile(file))(t)
		r.run()
		r.versioned(r.written("Ann has two cats.", ""))
		conf := r.offline()
		expect.Equal(t, strings.Count(r.audit("--type", "chain_anchor"), `"type":"chain_anchor"`), 2)
		expect.Text(t, r.audit("--type", "chain_anchor"), "an anchor names the tenant").Lacks("acme")
		must.Do(t, os.WriteFile(file, old, 0o600))
		r.run()
		for i := range writes {
			r.versioned(r.written(fmt.Sprintf("Ann has %d dogs.", i), ""))
		}
		r.offline()
		want := "truncate at 2: the chain once reached position 2"
		if writes > 0 {
			want = "forge at 2: the chain differs from the one that was anchored"
		}
		ran(t, "ledger", "sweep", "--config", conf).want(t, cli.Failed, writes, "writes").has(t, want)
		log := r.audit("--type", "chain_break")
		expect.Equal(t, strings.Count(log, `"type":"chain_break"`) >= 1, true, "no break on record", log)
		// The administrator accepts the restored backup.
		says(t, cli.Usage, "--reason is required", "ledger", "accept", "--config", conf, "--tenant", "acme")
		ran(t, "ledger", "accept", "--config", conf, "--tenant", "acme", "--reason", "restored from the backup of Monday").want(t, cli.OK, writes, "writes").
			has(t, fmt.Sprintf("1 faults accepted, it continues from %d", 1+writes), want)
		expect.Text(t, r.audit("--type", "chain_accept"), "on record").Times(1, `"type":"chain_accept"`).Has("restored from the backup of Monday")
		r.run()
		r.versioned(r.written("Ann has a horse.", ""))
		r.offline()
		ran(t, "ledger", "sweep", "--config", conf).about(writes, "writes, accepted").has(t, "unbroken").lacks(t, "faults")
		says(t, cli.Failed, "that chain has no faults", "ledger", "accept", "--config", conf, "--tenant", "acme", "--reason", "again")
	}
}

// Proves EDGE-4: an unchanged chain end is anchored again before pruning of the log may
// remove its record, and not earlier.
func TestAnchorsAreRenewed(t *testing.T) {
	t.Parallel()
	p := newPaces()
	r := startAt(t, p.now, screeningConf, "SCREENING", "memories: {validate: 0}")
	r.versioned(r.written("Ann has a cat.", ""))
	for _, step := range []struct {
		after time.Duration
		want  int
	}{{0, 1}, {time.Hour, 1}, {25 * time.Hour, 2}} {
		p.pass(step.after)
		must.Do(t, r.car.Checker.Anchor(context.Background()))
		must.Do(t, r.car.Audit.Flush(context.Background()))
		expect.Equal(t, strings.Count(r.audit("--type", "chain_anchor"), `"type":"chain_anchor"`), step.want, step.after)
	}
}

// A backend that cannot be read takes nothing from the others' results; the periodic sweep
// is repeated, and steps back for one that a reviewer runs.
func TestSweepsWithABackendAway(t *testing.T) {
	t.Parallel()
	away := serving(t, http.NotFoundHandler())
	r := start(t, strings.Replace(screeningConf, "identity:", "  - {name: away, kind: mem0, listen: \"127.0.0.1:0\", upstream: \""+away.URL+"\"}\nidentity:", 1), "SCREENING", "memories: {validate: 0, sweep: 24h}")
	id := r.written("Ann likes green tea.", "")
	r.versioned(id)
	report := r.sweep()
	expect.Len(t, report.Backends, 2)
	expect.Equal(t, report.Backends[0].Known, 1)
	expect.Text(t, report.Backends[1].Unread).Has("backend away cannot be read")
	expect.ErrorHas(t, expect.Err(r.car.Checker.Sweep(t.Context(), review.SweepRequest{Backend: "away"})), "away cannot be read")
	expect.ErrorHas(t, r.car.Once(t.Context(), "sweeps", time.Now()), "away cannot be read")

	// So does one that is away when a page with a difference is read again.
	away.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) { r.back.ServeHTTP(w, q) })
	r.behind("PUT", "/v1/memories/"+id+"/", `{"text":"Ann likes black tea."}`)
	back, reads := r.back.handler(), 0
	r.back.handle(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if strings.HasSuffix(q.URL.Path, "/v3/memories/") && q.Host != away.Listener.Addr().String() {
			if reads++; reads > 1 {
				http.Error(w, "", http.StatusForbidden)
				return
			}
		}
		back.ServeHTTP(w, q)
	}))
	report = r.sweep()
	expect.Equal(t, reads, 2)
	expect.Len(t, report.Backends, 2)
	expect.Text(t, report.Backends[0].Unread).Has("backend mem0 cannot be read")
	expect.Equal(t, report.Backends[1].Unread, "")
}

// A sweep that takes longer than its interval keeps its lease, so that no replica sweeps at
// the same time; a periodic one steps back for one that a reviewer runs.
func TestOneSweepAtATime(t *testing.T) {
	t.Parallel()
	p := newPaces()
	var r *rig
	second := serving(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) { r.back.ServeHTTP(w, q) }))
	r = startRig(&rig{t: t, clock: p.now, noWait: true}, strings.Replace(screeningConf, "identity:", "  - {name: more, kind: mem0, listen: \"127.0.0.1:0\", upstream: \""+second.URL+"\"}\nidentity:", 1), "SCREENING", "memories: {validate: 0, sweep: 1h}")
	r.versioned(r.written("Ann likes green tea.", ""))
	back, pages, seen := r.back.handler(), 0, map[string]bool{}
	claim := func() bool {
		return must.Get(r.car.Ledger.Backends.Claim(t.Context(), "sweep", "another", time.Hour))(t)
	}
	r.back.handle(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if !seen[q.Host] { // the first request to each backend
			seen[q.Host] = true
			p.pass(40 * time.Minute)
			expect.Equal(t, claim(), false, len(seen))
		}
		back.ServeHTTP(w, q)
	}))
	r.once("sweeps", p.now())
	expect.Equal(t, len(seen), 2)
	r.back.handle(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if pages++; pages == 0 {
			expect.OK(t, r.car.Once(t.Context(), "sweeps", p.now()), "during a reviewer's")
		}
		back.ServeHTTP(w, q)
	}))
	pages = -1
	p.pass(24 * time.Hour)
	r.sweep()
	expect.Equal(t, pages >= 0, true)
}

// A seal does not adopt memories under another tenant's name; requested by a reviewer
// of some tenants, it adopts none under an unowned name either. A tenant counts from the edit
// of the configuration that brings it.
func TestSealsTakeNothingOfOtherTenants(t *testing.T) {
	t.Parallel()
	r := startRig(&rig{t: t, file: filepath.Join(t.TempDir(), "memproxy.yaml")}, tenantsConf, "RIVAL", sha("rival-key"), "tenant: globex", "tenant: acme", "level: error", "level: info")
	both := strings.Replace(r.conf, `"agent:globex", kind: agent, trust: authenticated, tenant: acme`, `"agent:globex", kind: agent, trust: authenticated, tenant: globex`, 1)
	must.Do(t, os.Rename(writeFile(t, r.file+".new", both), r.file))
	ring.Until(t, "the second tenant", func() bool { return strings.Contains(r.log.String(), "configuration reloaded") })
	r.conf = both
	rival := []string{"X-API-Key", "rival-key"}
	add := func(user string, header ...string) string {
		return r.do("POST", "/memories", `{"messages":[{"role":"user","content":"a note of theirs"}],"user_id":"`+user+`","infer":false}`, header...).body
	}
	expect.Text(t, add("ann")+add("zoe", rival...)).Lacks("denied")
	for _, user := range []string{"ann", "zoe", "carol"} {
		r.behind("POST", "/memories", `{"messages":[{"role":"user","content":"what was there of `+user+`"}],"user_id":"`+user+`","infer":false}`)
	}
	for _, c := range []struct {
		narrow          bool
		sealed, skipped int
	}{{true, 1, 2}, {false, 1, 1}} {
		report, err := r.car.Checker.Seal(t.Context(), review.SealRequest{Backend: "mem0", Tenant: "globex", SkipForeign: c.narrow})
		expect.Equal(t, err == nil && report.Sealed == c.sealed && report.Skipped == c.skipped && !report.Whole, true, c, report, err)
	}
	r.do("GET", "/memories?user_id=zoe", "", rival...).about("its own").has(t, "there of zoe")
	r.do("GET", "/memories", "", rival...).about("another's").lacks(t, "there of ann")
	ran(t, "audit", "seal", "--config", r.offline(), "--backend", "mem0", "--tenant", "globex").want(t, cli.Failed, "a partial seal").has(t, "does not count as sealed: not everything was read and adopted")
}

// Proves MFW-9, EDGE-4: a name that does not exist is an error that lists those that do, and
// not an empty answer or a new tenant. A reviewer of some tenants sees no name of the others.
func TestMisspeltNamesAreErrors(t *testing.T) {
	t.Parallel()
	r := start(t, tenantsConf+`review: {reviewers: [{id: eve, sha256: "`+sha(reviewToken)+`", tenants: "*"}, {id: gus, sha256: "`+sha(bobsToken)+`", tenants: [globex]}]}
`, "RIVAL", sha("rival-key"))
	id := r.written("Ann likes green tea.", "")
	const backends, tenants = "backend not found; configured backends: mem0\n", "known tenants: acme, globex\n"
	for _, c := range []struct {
		token, line string
		code        int
		want        string
	}{
		{reviewToken, "memory trace --backend mem9 " + id, 2, backends},
		{bobsToken, "memory history --backend mem9 " + id, 2, backends},
		{reviewToken, "memory promote --reason x --backend mem9 " + id, 2, backends},
		{reviewToken, "memory trace --backend mem0 none", 1, "no record of this memory"},
		{reviewToken, "holds list --backend mem9", 2, backends},
		{reviewToken, "holds list --tenant acmee", 2, "tenant not found; configured tenants: acme, globex\n"},
		{reviewToken, "holds list --tenant acme", 0, "no held write matches"},
		{bobsToken, "holds list --tenant acmee", 1, "not a tenant that you review"},
		{reviewToken, "holds list --principal agent:acmee", 2, "principal not found; configured principals: agent:acme, agent:globex\n"},
		{bobsToken, "holds list --principal agent:acme", 2, "configured principals: agent:globex\n"},
		{bobsToken, "holds list --principal agent:globex", 0, "no held write matches"},
		{reviewToken, "sessions list --tenant acmee", 2, "configured tenants: acme, globex\n"},
		{reviewToken, "sessions list --principal agent:acme", 0, "no session matches"},
		{reviewToken, "upkeep run anchor", 2, "job not found; jobs: replays, "},
	} {
		if a := r.ran(c.token, strings.Fields(c.line)...).want(t, c.code).has(t, c.want); c.token == bobsToken {
			a.lacks(t, "acme,")
		}
	}
	// By the running sidecar, then here.
	seal := func(tenant string) error {
		client := must.Get(review.NewClient(review.ClientOptions{URL: r.admin, Token: reviewToken}))(t)
		return expect.Err(review.Call[review.SealReport](t.Context(), client, "seal", nil, review.SealRequest{Backend: "mem0", Tenant: tenant, Reason: "day one"}))
	}
	for _, tenant := range []string{"acmee", ""} {
		expect.ErrorHas(t, seal(tenant), strings.TrimSpace(tenants), tenant)
	}
	expect.OK(t, seal("acme"))
	conf := r.offline()
	for line, want := range map[string]string{
		"audit seal --backend mem0 --tenant acmee": tenants, "audit seal --backend mem9 --tenant acme": "it has mem0",
		"ledger accept --reason x --tenant acmee": tenants, "ledger accept --reason x --tenant acme": "no faults to accept",
		"ledger sweep --backend mem9": "it has mem0", "explain --as agent:acme --backend mem9": "it has mem0", "explain --as agent:acmee": "it has agent:acme",
	} {
		misuse := cli.Usage
		if want == "no faults to accept" {
			misuse = cli.Failed
		}
		ran(t, append(strings.Fields(line), "--config", conf)...).want(t, misuse, line).has(t, want)
	}
}

// A tenant that tokens may name is no mistake.
func TestSealsForTenantsOfTokens(t *testing.T) {
	t.Parallel()
	r := start(t, strings.Replace(tenantsConf, "identity:\n", "identity:\n  oidc: {issuer: \"https://issuer.example\", audience: memproxy, claims: {tenant: org}}\n", 1), "RIVAL", sha("rival-key"))
	must.Get(r.car.Checker.Seal(t.Context(), review.SealRequest{Backend: "mem0", Tenant: "initech"}))(t)
}

// Proves EDGE-3, EDGE-4: the memories of a backend that is one tenant's are not given to another
// by a mistyped name. Their own tenant's seal takes them over.
func TestSealOfATenantsBackend(t *testing.T) {
	t.Parallel()
	r := start(t, tenantsConf, "RIVAL", sha("rival-key"), `kind: mem0,`, `kind: mem0, tenant: acme,`)
	id := r.planted("Ann has a horse.")
	_, err := r.car.Checker.Seal(t.Context(), review.SealRequest{Backend: "mem0", Tenant: "globex"})
	expect.Error(t, err, "holds the memories of another tenant only")
	report := must.Get(r.car.Checker.Seal(t.Context(), review.SealRequest{Backend: "mem0", Tenant: "acme"}))(t)
	expect.Equal(t, report.Sealed, 1, "sealed")
	r.do("GET", "/memories/"+id, "").want(t, 200)
}
