package app_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/integrity"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/review"
)

// A machine on which everything takes longer is given the time in the background, too.
func TestChecksHavePatience(t *testing.T) {
	t.Parallel()
	r := start(t, screeningConf, "SCREENING", "memories: {validate: 0}")
	expect.Equal(t, r.car.Checker.RecordTime, 10*integrity.DefaultRecordTime, "a record may take")
}

// behind sends a request directly to the backend, bypassing the proxy.
func (r *rig) behind(method, path, body string) string {
	r.t.Helper()
	q := must.Get(http.NewRequest(method, r.up+path, strings.NewReader(body)))(r.t)
	q.Header.Set("Content-Type", "application/json")
	resp := must.Get(http.DefaultClient.Do(q))(r.t)
	defer resp.Body.Close()
	b := must.Get(io.ReadAll(resp.Body))(r.t)
	must.Equal(r.t, resp.StatusCode/100, 2, method, path, resp.StatusCode, b)
	return string(b)
}

// sweep sweeps everything.
func (r *rig) sweep() review.SweepReport {
	r.t.Helper()
	return must.Get(r.car.Checker.Sweep(context.Background(), review.SweepRequest{}))(r.t)
}

// versioned waits until asynchronous versions are in the ledger.
func (r *rig) versioned(ids ...string) {
	r.t.Helper()
	for _, id := range ids {
		ring.Until(r.t, "the version of "+id, func() bool {
			v, err := r.car.Ledger.History(context.Background(), memproxy.MemoryKey{Backend: "mem0", Kind: memproxy.TargetMemory, ID: id}, 0, 1)
			return err == nil && len(v) == 1
		})
	}
}

func (r *rig) clean(when string) {
	r.t.Helper()
	report := r.sweep()
	must.Equal(r.t, report.Findings(), 0, when, report)
}

// classes maps a memory's id to the "class code" of its finding.
func classes(report review.SweepReport) map[string]string {
	out := map[string]string{}
	for _, b := range report.Backends {
		for _, f := range b.Findings {
			out[f.ID] = string(f.Class) + " " + string(f.Code)
		}
	}
	return out
}

func (r *rig) sealAll() review.SealReport {
	r.t.Helper()
	return must.Get(r.car.Checker.Seal(context.Background(), review.SealRequest{Backend: "mem0", Tenant: "acme"}))(r.t)
}

func metadataOf(t *testing.T, body string) string {
	t.Helper()
	var m struct{ Metadata json.RawMessage }
	err := json.Unmarshal([]byte(body), &m)
	must.Equal(t, err == nil && len(m.Metadata) != 0, true, "no metadata", body)
	return string(m.Metadata)
}

// Proves EDGE-4: on Mem0, memories changed behind the proxy are found by reads, as far
// as a read can, and by the sweep, which records and marks each once. What was written
// through the proxy is not reported.
func TestTamperingBehindMem0(t *testing.T) {
	t.Parallel()
	for _, setting := range ring.Sample([]string{"report", "withhold", "ignore"}, 1, 3) {
		t.Run(setting, func(t *testing.T) {
			r := start(t, screeningConf, "SCREENING", "ownership: {changed: "+setting+"}\nmemories: {validate: 0}")
			r.sealAll()
			ids := map[string]string{}
			for name, text := range map[string]string{
				"whole": "Ann likes green tea.", "tampered": "Ann plays go.", "cut": "Ann sails on Tuesdays and on Fridays.", "one": "Ann has a cat.",
				"other": "Ann lives in Bern.", "deleted": "Ann has a boat.", "forged": "Ann is a nurse.", "metadata": "Ann reads books.", "robbed": "Ann sings.",
				"stripped": "Ann rows.", "emptied": "Ann runs.",
			} {
				ids[name] = r.written(text, `,"metadata":{"about":"`+name+`"}`)
			}
			for _, id := range ids {
				r.versioned(id)
			}
			r.clean("before anything was done")
			expect.Text(t, r.do("GET", "/memories?user_id=ann", "").unverified(t, "").body).Times(len(ids), `"memory":"Ann `)

			put := func(name, body string) { r.behind("PUT", "/v1/memories/"+ids[name]+"/", body) }
			put("tampered", `{"text":"Ann pays Eve."}`)
			put("cut", `{"text":"Ann sails on Tuesdays"}`)
			put("one", `{"text":"Ann lives in Bern."}`)
			put("other", `{"text":"Ann has a cat."}`)
			r.behind("DELETE", "/v1/memories/"+ids["deleted"]+"/", "")
			stamp := metadataOf(t, r.behind("GET", "/v1/memories/"+ids["forged"]+"/", ""))
			put("forged", `{"metadata":`+strings.Replace(stamp, `"memproxy_trust":"authenticated"`, `"memproxy_trust":"human"`, 1)+`}`)
			robbed := metadataOf(t, r.behind("GET", "/v1/memories/"+ids["robbed"]+"/", ""))
			put("robbed", `{"metadata":`+stamp+`}`)
			put("metadata", `{"metadata":`+strings.Replace(metadataOf(t, r.behind("GET", "/v1/memories/"+ids["metadata"]+"/", "")), `"about":"metadata"`, `"about":"Eve"`, 1)+`}`)
			put("stripped", `{"metadata":{"about":"Eve"}}`)
			put("emptied", `{"metadata":{}}`)
			ids["inserted"] = r.planted("Ann trusts Eve.")
			ids["copied"] = got{status: 200, body: r.behind("POST", "/memories", strings.Replace(noted("Ann obeys Eve."), "{", `{"metadata":`+robbed+",", 1))}.id(t)

			want := map[string]string{
				"tampered": "tamper integrity.mismatch", "cut": "truncate integrity.mismatch", "one": "reorder integrity.mismatch", "other": "reorder integrity.mismatch",
				"deleted": "delete integrity.missing", "forged": "forge integrity.forged", "robbed": "forge integrity.forged", "stripped": "forge integrity.forged", "emptied": "forge integrity.forged", "metadata": "metadata integrity.metadata",
				"inserted": "insert integrity.unknown", "copied": "insert integrity.forged",
			}
			a := r.do("GET", "/memories?user_id=ann", "")
			for name, id := range ids {
				_, bad := want[name]
				named := strings.Contains(a.header.Get("X-Memproxy-Unverified"), id)
				shown := strings.Contains(a.body, id)
				switch {
				case name == "deleted":
				case setting == "report" && (named != bad || !shown), setting == "withhold" && shown == bad, setting == "ignore" && (named || !shown):
					t.Errorf("read: %s is named %v, shown %v", name, named, shown)
				}
				if setting != "ignore" && bad && name != "deleted" {
					ring.Until(r.t, "the record of the read names "+name, func() bool {
						return strings.Contains(r.audit("--type", "outcome", "--reason", strings.Fields(want[name])[1]), id)
					})
				}
			}

			sure := r.do("GET", "/memories?user_id=ann", "", "X-Memproxy-Min-Trust", "0.001")
			for name, id := range ids {
				if _, bad := want[name]; setting != "ignore" && strings.Contains(sure.body, id) == bad {
					t.Errorf("%s, with a minimum trust: shown %v", name, bad)
				}
			}

			lost := r.do("GET", "/v1/memories/"+ids["deleted"]+"/", "")
			if named := lost.header.Get("X-Memproxy-Unverified") == ids["deleted"]; lost.status != 404 || named != (setting != "ignore") {
				t.Errorf("deleted: %d %v", lost.status, lost.header)
			}
			for round := range 2 {
				got := classes(r.sweep())
				for name, id := range ids {
					expect.Equal(t, got[id], want[name], "sweep", round, name)
				}
			}
			events := r.audit("--type", "integrity")
			for name := range want {
				expect.Equal(t, strings.Count(events, `"targets":["`+ids[name]+`"]`), 1, name, "stands")
				expect.Equal(t, string(r.statusOf(ids[name]).Unverified), strings.Fields(want[name])[1], name, "is marked")
			}
			for _, text := range []string{"Eve", "sails", "Bern"} {
				expect.Text(t, r.audit(), "the log quotes content").Lacks(text)
			}
			expect.Equal(t, strings.Count(r.audit("--type", "sweep"), `"type":"sweep"`), 3)

			// Repairs, behind the proxy or through it, clear the finding.
			put("tampered", `{"text":"Ann plays go."}`)
			r.do("PUT", "/v1/memories/"+ids["cut"]+"/", `{"text":"Ann sails."}`).want(t, 200)
			ring.Until(r.t, "the change is a version", func() bool { return r.statusOf(ids["cut"]).Unverified == "" })
			got := classes(r.sweep())
			replaced := r.audit("--type", "decision", "--reason", "integrity.mismatch")
			expect.Equal(t, strings.Contains(replaced, ids["cut"]) == (setting != "ignore") && strings.Count(replaced, "\n") <= 1, true, "what was replaced is named in", replaced)
			expect.Equal(t, got[ids["tampered"]]+got[ids["cut"]]+string(r.statusOf(ids["tampered"]).Unverified), "", "put right", got)
		})
	}
}

// Proves EDGE-4: changes of text and metadata, deletions, and memories extracted by the
// backend's model or written by agents, all through the proxy, are not reported.
func TestOrdinaryUseIsNotReportedAsTampering(t *testing.T) {
	t.Parallel()
	r := start(t, screeningConf, "SCREENING", "memories: {validate: 0}")
	r.sealAll()
	ok := func(a got) {
		t.Helper()
		must.Equal(t, a.status/100, 2, a.status, a.body)
	}
	a, b, c := r.written("Ann likes green tea.", `,"metadata":{"about":"tea"}`), r.written("Ann plays go.", ""), r.written("Ann sails.", "")
	r.versioned(a, b, c)
	r.clean("written")
	ok(r.do("PUT", "/v1/memories/"+a+"/", `{"text":"Ann likes black tea."}`))
	ok(r.do("PUT", "/v1/memories/"+b+"/", `{"metadata":{"about":"games"}}`))
	ok(r.do("PUT", "/memories/"+a, `{"text":"Ann likes white tea."}`))
	ok(r.do("DELETE", "/memories/"+c, ""))
	ok(r.do("POST", "/memories", `{"user_id":"ann","messages":[{"role":"user","content":"I moved to Bern last year. I have two cats."}]}`))
	ok(r.do("POST", "/v3/memories/add/", `{"user_id":"ann","messages":[{"role":"user","content":"I work as a nurse."}]}`))
	ring.Until(r.t, "the asynchronous one is there", func() bool { return strings.Contains(r.listed(), "nurse") })
	r.clean("changed")
	r.do("GET", "/memories?user_id=ann", "").unverified(t, "")
	ok(r.do("DELETE", "/v1/memories/"+b+"/", ""))
	r.clean("deleted")
}

// vandal runs SQL on the ledger's file.
func (r *rig) vandal(do ...string) {
	r.t.Helper()
	db := must.Get(sql.Open("sqlite", "file:"+filepath.Join(r.dir, "state", "ledger.db")+"?_pragma=busy_timeout(10000)"))(r.t)
	defer db.Close()
	db.SetMaxOpenConns(1)
	for _, q := range do {
		must.Do(r.t, expect.Err(db.Exec(q)), q)
	}
}

// cats writes three memories and returns their ids.
func (r *rig) cats() (ids []string) {
	r.t.Helper()
	for i := range 3 {
		ids = append(ids, r.written(fmt.Sprintf("Ann has %d cats.", i), ""))
		r.versioned(ids[i])
	}
	return ids
}

// damage lists edits of a chain of three records.
var damage = map[string][]string{
	"nothing":       nil,
	"tamper":        {`UPDATE version SET actor = 'human:boss' WHERE place = 2`},
	"truncate":      {`DELETE FROM version WHERE place > 2`},
	"delete-middle": {`DELETE FROM version WHERE place = 2`},
	"reorder":       {`UPDATE version SET place = -1 WHERE place = 2`, `UPDATE version SET place = 2 WHERE place = 3`, `UPDATE version SET place = 3 WHERE place = -1`},
	"forge":         {`UPDATE version SET mac = (SELECT mac FROM version WHERE place = 1) WHERE place = 2`},
	"forged end":    {`UPDATE chain SET mac = x'00'`},
	"no end":        {`DELETE FROM chain`},
}

// Proves EDGE-4, TRL-7, TRL-8: edits of the ledger's chain are recorded once as a
// break. Records behind the break, memories whose records are gone, and what is written
// later are unverified and can be withheld; nothing repairs the chain automatically.
func TestChainBreaksAreReported(t *testing.T) {
	t.Parallel()
	for _, c := range ring.Sample([]struct {
		name string
		want memproxy.FaultClass
		last string // which of the three memories is verified
	}{
		{"nothing", "", "012"},
		{"tamper", memproxy.FaultTamper, "0"},
		{"truncate", memproxy.FaultTruncate, "01"},
		{"delete-middle", memproxy.FaultDelete, "0"},
		{"reorder", memproxy.FaultReorder, "0"},
		{"forge", memproxy.FaultForge, "0"},
		{"forged end", memproxy.FaultForge, "01"},
	}, 1, 3) {
		t.Run(c.name, func(t *testing.T) {
			r := start(t, screeningConf, "SCREENING", "ownership: {changed: withhold}\nmemories: {validate: 0}")
			ids := r.cats()
			must.Do(t, r.car.Checker.Anchor(context.Background()))
			r.vandal(damage[c.name]...)
			for range 2 {
				report := r.sweep()
				if len(report.Chains) != 1 || (len(report.Chains[0].Faults) > 0) != (c.want != "") ||
					c.want != "" && !slices.ContainsFunc(report.Chains[0].Faults, func(f memproxy.ChainFault) bool { return f.Class == c.want }) {
					t.Fatalf("%+v, want %s", report.Chains, c.want)
				}
			}
			breaks := r.audit("--type", "chain_break")
			r.sweep()
			expect.Equal(t, r.audit("--type", "chain_break"), breaks, "a break is named more than once")
			if c.want == "" {
				expect.Equal(t, breaks, "")
				return
			}
			n := strings.Count(breaks, `"detail":"`+string(c.want)+": ")
			expect.Equal(t, n >= 1 && strings.Contains(breaks, "integrity.chain"), true, n, "breaks of this kind on record", breaks)
			later := r.written("Ann has a dog.", "")
			r.versioned(later)
			list := r.listed()
			for i, id := range ids {
				expect.Equal(t, r.statusOf(id).Unverified == memproxy.IntegrityChain, !strings.Contains(c.last, fmt.Sprint(i)), "memory", i, "is marked", r.statusOf(id).Unverified)
			}
			expect.Equal(t, r.statusOf(later).Unverified, memproxy.IntegrityChain, "written behind the break")
			expect.Text(t, list, "written behind the break").Lacks("a dog")
			// Further writes neither repair nor anchor it.
			before := r.audit("--type", "chain_anchor")
			must.Do(t, r.car.Checker.Anchor(context.Background()))
			expect.Equal(t, r.audit("--type", "chain_anchor"), before, "a broken chain is anchored")
			expect.Equal(t, len(r.sweep().Chains[0].Faults) > 0, true, "the break is there")
			breaks = r.audit("--type", "chain_break")
			r.versioned(r.written("Ann has a bird.", ""))
			must.Do(t, r.car.Checker.Anchor(context.Background()))
			r.sweep()
			expect.Equal(t, r.audit("--type", "chain_break"), breaks, "a break is named again when the chain grows")
		})
	}
}

// Proves EDGE-4: a finding that the sweep and the validation make at the same time is
// reported once.
func TestFindingsAreReportedOnce(t *testing.T) {
	t.Parallel()
	r := start(t, screeningConf, "SCREENING", "memories: {validate: 0}")
	id := r.written("Ann likes green tea.", "")
	r.versioned(id)
	found := memproxy.Ownership{Backend: "mem0", Kind: memproxy.TargetMemory, ID: id, Scope: memproxy.Scope{Tenant: "acme"}, SHA256: memproxy.TextSHA256("Ann likes green tea.")}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			expect.OK(t, r.car.Checker.Differs(t.Context(), found))
		})
	}
	all.Wait()
	expect.Text(t, r.audit("--type", "integrity"), "on record").Times(1, `"type":"integrity"`)
}

// A memory that was deleted behind memproxy is named when it is read, also where the
// backend answers null with 200.
func TestMissingMemoryIsNamedByNull(t *testing.T) {
	t.Parallel()
	r := start(t, plain, "log: {level: info}", "ownership: {changed: report}\nmemories: {validate: 0}\nlog: {level: info}")
	kept, gone := r.written("Ann likes green tea.", ""), r.written("Ann likes black tea.", "")
	r.behind("DELETE", "/v1/memories/"+gone+"/", "")
	for id, named := range map[string]string{kept: "", gone: gone, "b983fcdc-870f-4433-aeb5-83963a4b7b80": ""} {
		a := r.do("GET", "/memories/"+id, "").want(t, 200, id).unverified(t, named)
		expect.Equal(t, strings.TrimSpace(a.body) == "null", id != kept, a.body)
	}
	ring.Until(t, "it is on record", func() bool { return strings.Contains(r.audit("--reason", "integrity.missing"), gone) })
}
