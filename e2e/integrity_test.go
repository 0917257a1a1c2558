//go:build e2e

package e2e

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/review"
)

// integrity runs `ledger sweep` or `audit seal` on the state of a sidecar that
// does not run.
func integrity(t *testing.T, dir string, into any, args ...string) int {
	t.Helper()
	args = append(args, "--config", filepath.Join(dir, "memproxy.yaml"), "--json")
	out, code := run(t, nil, memproxyBinary(t), args...)
	must.Do(t, json.Unmarshal([]byte(out), into), args, code, out)
	return code
}

// swept are the findings of a sweep, "class code" by the memory's id.
func swept(t *testing.T, dir string, args ...string) map[string]string {
	t.Helper()
	var report review.SweepReport
	code := integrity(t, dir, &report, append([]string{"ledger", "sweep"}, args...)...)
	out := map[string]string{}
	for _, b := range report.Backends {
		for _, f := range b.Findings {
			out[f.ID] = string(f.Class) + " " + string(f.Code)
		}
	}
	for _, c := range report.Chains {
		expect.Len(t, c.Faults, 0, "faults of the chain")
	}
	expect.That(t, (code == 1) == (len(out) > 0) && code <= 1, "exit %d with findings %v", code, out)
	return out
}

// resume starts a sidecar where one was.
func (s *sidecar) resume(t *testing.T) *sidecar {
	t.Helper()
	next := &sidecar{dir: s.dir, base: s.base, admin: s.admin}
	next.process = start(t, memproxyBinary(t), "serve", "--config", filepath.Join(s.dir, "memproxy.yaml"))
	waitFor(t, "memproxy listening", accepts(strings.TrimPrefix(s.base, "http://")))
	return next
}

// dialect is one of Mem0's two APIs, for what the test does.
type dialect struct {
	key, as, add, one string // one is the path of a memory, with its id for %s
	list              func(base string) answer
	args              []string // of sweep and seal
}

func mem0Dialects(t *testing.T) map[string]dialect {
	return map[string]dialect{
		"platform": {"m0-integrity", "token", "/v1/memories/", "/v1/memories/%s/", func(base string) answer {
			return call(t, http.MethodPost, base+"/v3/memories/", "", `{"filters":{"user_id":"ann"}}`, "X-Memproxy-Token", "dev-key-of-the-test", "Authorization", "Token m0-integrity")
		}, nil},
		"server": {"m0sk_integrity", "x-api-key", "/memories", "/memories/%s", func(base string) answer {
			return call(t, http.MethodGet, base+"/memories?user_id=ann&top_k=100", "dev-key-of-the-test", "")
		}, []string{"--scope", "user=ann"}},
	}
}

// Proves EDGE-4: on the real Mem0 engine, in both dialects: a store that was
// there before is adopted by a seal; what goes through memproxy is not accused;
// what is tampered, cut, deleted, exchanged, forged and inserted behind it is
// found by reads and by the sweep, each by its class.
func TestIntegrityOnMem0(t *testing.T) {
	t.Parallel()
	e := startEngine(t)
	for name, d := range mem0Dialects(t) {
		t.Run(name, func(t *testing.T) {
			if a := call(t, http.MethodPost, e.base+"/_e2e/reset", "", ""); a.status/100 != 2 {
				t.Fatalf("%d %s", a.status, a.body)
			}
			header := map[string][]string{"token": {"Authorization", "Token " + d.key}, "x-api-key": {"X-API-Key", d.key}}[d.as]
			behind := func(method, path, body string) string {
				t.Helper()
				a := call(t, method, e.base+path, "", body, header...)
				must.Equal(t, a.status/100, 2, method, path, a.status, a.body)
				return a.body
			}
			var s *sidecar
			through := func(method, path, body string) string {
				t.Helper()
				a := call(t, method, s.base+path, "dev-key-of-the-test", body)
				must.Equal(t, a.status/100, 2, method, path, a.status, a.body)
				return a.body
			}
			add := func(do func(string, string, string) string, text, more string) string {
				t.Helper()
				body := do(http.MethodPost, d.add, fmt.Sprintf(`{"user_id":"ann","infer":false,"messages":[{"role":"user","content":%q}]%s}`, text, more))
				return id(t, answer{status: 200, body: body})
			}
			one := func(id string) string { return fmt.Sprintf(d.one, id) }

			old := add(behind, "Ann was here before.", `,"metadata":{"about":"past"}`)
			gone := add(behind, "Ann forgot this.", "")
			s = serve(t, t.TempDir(), sidecarConf("production", "mem0", e.base, fmt.Sprintf(", credential: %q, credential_as: %s", d.key, d.as),
				"identity:\n  keys:\n"+keyed("dev-key-of-the-test", "agent:dev", agentOf("acme"))+"memories: {validate: 0}\n"))
			s.stop()
			var sealed review.SealReport
			must.Equal(t, integrity(t, s.dir, &sealed, append([]string{"audit", "seal", "--backend", "mem0", "--tenant", "acme"}, d.args...)...), 0, sealed)
			must.Equal(t, sealed.Sealed, 2, sealed)
			s = s.resume(t)
			ids := map[string]string{"old": old, "gone": gone}
			for name, text := range map[string]string{
				"whole": "Ann likes green tea.", "tampered": "Ann plays go.", "cut": "Ann sails on Tuesdays and on Fridays.", "one": "Ann has a cat.",
				"other": "Ann lives in Bern.", "deleted": "Ann has a boat.", "forged": "Ann is a nurse.", "robbed": "Ann sings.", "metadata": "Ann reads books.",
			} {
				ids[name] = add(through, text, `,"metadata":{"about":"`+name+`"}`)
			}
			through(http.MethodPut, one(ids["whole"]), `{"text":"Ann likes white tea."}`)
			through(http.MethodPut, one(ids["metadata"]), `{"text":"Ann reads many books.","metadata":{"about":"books"}}`)
			if a := d.list(s.base); a.status != 200 || a.header.Get("X-Memproxy-Unverified") != "" || strings.Count(a.body, `"Ann `) != len(ids) {
				t.Fatalf("%d %q %s", a.status, a.header.Get("X-Memproxy-Unverified"), a.body)
			}
			s.stop()
			must.Len(t, swept(t, s.dir, d.args...), 0, "before anything was done")

			// Nobody reads these before they are changed: what is signed speaks.
			s = s.resume(t)
			const rich = `,"metadata":{"about":"paint","n":0.70,"whole":2,"list":["a",1.5],"deep":{"b":[true],"a":"\u00fc"},"küche":"Öl"}`
			ids["fresh"], ids["plain"] = add(through, "Ann paints.", rich), add(through, "Ann draws.", rich)
			s.stop()

			metadata := func(name string) string {
				t.Helper()
				var m struct{ Metadata json.RawMessage }
				body := behind(http.MethodGet, one(ids[name]), "")
				err := json.Unmarshal([]byte(body), &m)
				must.That(t, err == nil && len(m.Metadata) > 0, "%v %s", err, body)
				return string(m.Metadata)
			}
			put := func(name, body string) { t.Helper(); behind(http.MethodPut, one(ids[name]), body) }
			stamp := metadata("forged")
			put("tampered", `{"text":"Ann pays Eve."}`)
			put("cut", `{"text":"Ann sails on Tuesdays"}`)
			put("one", `{"text":"Ann lives in Bern."}`)
			put("other", `{"text":"Ann has a cat."}`)
			put("old", `{"text":"Ann was never here."}`)
			put("robbed", `{"metadata":`+stamp+`}`)
			put("forged", `{"metadata":`+strings.Replace(stamp, `"memproxy_trust":"authenticated"`, `"memproxy_trust":"human"`, 1)+`}`)
			put("metadata", `{"metadata":`+strings.Replace(metadata("metadata"), `"about":"books"`, `"about":"Eve"`, 1)+`}`)
			put("fresh", `{"metadata":`+strings.Replace(metadata("fresh"), `"about":"paint"`, `"about":"Eve"`, 1)+`}`)
			behind(http.MethodDelete, one(ids["deleted"]), "")
			behind(http.MethodDelete, one(ids["gone"]), "")
			ids["inserted"] = add(behind, "Ann trusts Eve.", "")
			ids["copied"] = add(behind, "Ann obeys Eve.", `,"metadata":`+metadata("tampered"))

			want := map[string]string{
				"tampered": "tamper integrity.mismatch", "cut": "truncate integrity.mismatch", "one": "reorder integrity.mismatch", "other": "reorder integrity.mismatch",
				"old": "tamper integrity.mismatch", "deleted": "delete integrity.missing", "gone": "delete integrity.missing",
				"forged": "forge integrity.forged", "robbed": "forge integrity.forged", "metadata": "metadata integrity.metadata", "fresh": "metadata integrity.metadata", "copied": "insert integrity.forged",
			}
			if len(d.args) == 0 { // a store that was seen in part is not sealed
				want["inserted"] = "insert integrity.unknown"
			}
			s = s.resume(t)
			a := d.list(s.base)
			for name, id := range ids {
				expect.That(t, name == "deleted" || name == "gone" || strings.Contains(a.header.Get("X-Memproxy-Unverified"), id) == (want[name] != ""),
					"read: %s: want %q: %q", name, want[name], a.header.Get("X-Memproxy-Unverified"))
			}
			s.stop()
			got := swept(t, s.dir, d.args...)
			for name, id := range ids {
				expect.Equal(t, got[id], want[name], "sweep", name)
			}
			events := s.audit(t, "--type", "integrity")
			for name := range want {
				expect.Text(t, events, name, "is not in the log").Has(ids[name])
			}
			expect.Text(t, events, "the log quotes content").Lacks("Eve")
		})
	}
}

// lettaDatabase is the database that a server keeps in a directory.
func lettaDatabase(t *testing.T, data string) *sql.DB {
	t.Helper()
	pid := must.Get(os.ReadFile(filepath.Join(data, "pg", "postmaster.pid")))(t)
	port := strings.Split(string(pid), "\n")[3]
	db := must.Get(sql.Open("pgx", "postgresql://letta:letta@127.0.0.1:"+port+"/letta?sslmode=disable"))(t)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// Proves EDGE-4: on the real Letta, whose database somebody edits: passages and
// blocks that were changed, cut, exchanged, forged, deleted and inserted are
// found, each by its class; what the agent itself wrote through memproxy, and
// what was there before and sealed, is not accused.
func TestIntegrityOnLetta(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	base := lettaWithData(t, data)
	agent := newLettaAgent(t, base, "kept")
	s := serve(t, t.TempDir(), sidecarConf("production", "letta", base, "", `identity:
  default: {id: "agent:dev", kind: agent, trust: authenticated, tenant: acme, acts_as: "*"}
memories: {validate: 0}
`))
	s.stop()
	var sealed review.SealReport
	code := integrity(t, s.dir, &sealed, "audit", "seal", "--backend", "letta", "--tenant", "acme")
	must.That(t, code == 0 && sealed.Sealed >= 2 && sealed.Whole, "exit %d %+v", code, sealed)
	s = s.resume(t)
	made := func(path, body string) string {
		t.Helper()
		return id(t, call(t, http.MethodPost, s.base+path, "", body, sdk...).about(path))
	}
	ids := map[string]string{}
	archive := "/v1/agents/" + agent + "/archival-memory"
	for name, text := range map[string]string{
		"whole": "Ann likes green tea.", "tampered": "Ann plays go.", "cut": "Ann sails on Tuesdays and on Fridays.", "one": "Ann has a cat.",
		"other": "Ann lives in Bern.", "deleted": "Ann has a boat.",
	} {
		ids[name] = made(archive, fmt.Sprintf(`{"text":%q}`, text))
	}
	for name, value := range map[string]string{"block": "Ann owns a horse.", "forged": "Ann is a nurse.", "robbed": "Ann sings.", "quiet": "Ann reads.", "metadata": "Ann runs."} {
		ids[name] = made("/v1/blocks/", fmt.Sprintf(`{"label":"notes","value":%q,"metadata":{"about":%q}}`, value, name))
	}
	call(t, http.MethodPatch, s.base+"/v1/blocks/"+ids["quiet"], "", `{"value":"Ann reads much."}`, sdk...).want(t, 200)
	call(t, http.MethodPost, s.base+"/v1/agents/"+agent+"/messages", "", said(t, insertTea+"\nTHEN\nSAY done", ""), sdk...).want(t, 200)
	expect.Text(t, lettaBlocks(t, base, agent)["human"], "the agent did not write").Has("likes tea")
	s.stop()
	must.Len(t, swept(t, s.dir), 0, "before anything was done")

	// Nobody reads these before they are changed: what is signed speaks.
	s = s.resume(t)
	for _, name := range []string{"fresh", "plain"} {
		ids[name] = made("/v1/blocks/", `{"label":"notes","value":"Ann paints.","metadata":{"about":"paint","n":0.70,"whole":2,"list":["a",1.5],"deep":{"b":[true],"a":"ü"},"nil":null}}`)
	}
	s.stop()

	db := lettaDatabase(t, data)
	edit := func(query string, args ...any) {
		t.Helper()
		res, err := db.Exec(query, args...)
		must.Do(t, err, query)
		must.Equal(t, must.Get(res.RowsAffected())(t), 1, query)
	}
	for name, text := range map[string]string{"tampered": "Ann obeys Eve.", "cut": "Ann sails on Tuesdays", "one": "Ann lives in Bern.", "other": "Ann has a cat."} {
		edit(`UPDATE archival_passages SET text = $1 WHERE id = $2`, text, ids[name])
	}
	edit(`DELETE FROM archival_passages WHERE id = $1`, ids["deleted"])
	edit(`UPDATE block SET value = 'Ann pays Eve.' WHERE id = $1`, ids["block"])
	edit(`UPDATE block SET metadata_ = (SELECT metadata_ FROM block WHERE id = $2) WHERE id = $1`, ids["robbed"], ids["forged"])
	edit(`UPDATE block SET metadata_ = replace(metadata_::text, '"authenticated"', '"human"')::json WHERE id = $1`, ids["forged"])
	edit(`UPDATE block SET metadata_ = replace(metadata_::text, '"metadata"', '"Eve"')::json WHERE id = $1`, ids["metadata"])
	edit(`UPDATE block SET metadata_ = replace(metadata_::text, '"paint"', '"Eve"')::json WHERE id = $1`, ids["fresh"])
	ids["inserted"] = id(t, call(t, http.MethodPost, base+archive, "", `{"text":"Ann trusts Eve."}`, sdk...))

	want := map[string]string{
		"tampered": "tamper integrity.mismatch", "cut": "truncate integrity.mismatch", "one": "reorder integrity.mismatch", "other": "reorder integrity.mismatch",
		"deleted": "delete integrity.missing", "inserted": "insert integrity.unknown", "block": "tamper integrity.mismatch",
		"forged": "forge integrity.forged", "robbed": "forge integrity.forged", "metadata": "metadata integrity.metadata", "fresh": "metadata integrity.metadata",
	}
	s = s.resume(t)
	read := call(t, http.MethodGet, s.base+archive+"?limit=50", "", "", sdk...)
	for name, id := range ids {
		expect.That(t, !strings.HasPrefix(id, "passage") || name == "deleted" || strings.Contains(read.header.Get("X-Memproxy-Unverified"), id) == (want[name] != ""),
			"read: %s: want %q: %q", name, want[name], read.header.Get("X-Memproxy-Unverified"))
	}
	for _, name := range []string{"forged", "robbed", "metadata", "fresh"} {
		a := call(t, http.MethodGet, s.base+"/v1/blocks/"+ids[name], "", "", sdk...)
		expect.That(t, a.status == 200 && a.header.Get("X-Memproxy-Unverified") == ids[name], "read: %s: %d %q", name, a.status, a.header.Get("X-Memproxy-Unverified"))
	}
	waitFor(t, "the changed block, once no agent can be at work on it", func() bool {
		a := call(t, http.MethodGet, s.base+"/v1/blocks/"+ids["block"], "", "", sdk...)
		return a.status == 200 && a.header.Get("X-Memproxy-Unverified") == ids["block"]
	})
	for _, path := range []string{"/v1/agents/" + agent, "/v1/blocks/" + ids["quiet"], "/v1/blocks/" + ids["plain"]} {
		a := call(t, http.MethodGet, s.base+path, "", "", sdk...)
		expect.That(t, a.status == 200 && a.header.Get("X-Memproxy-Unverified") == "", "read: %s: %d %q", path, a.status, a.header.Get("X-Memproxy-Unverified"))
	}
	s.stop()
	got := swept(t, s.dir)
	for name, id := range ids {
		expect.Equal(t, got[id], want[name], "sweep", name)
	}
	expect.Len(t, got, len(want))
	s = s.resume(t)
	if a := call(t, http.MethodGet, s.base+"/v1/blocks/"+ids["block"], "", "", sdk...); a.status != 200 || a.header.Get("X-Memproxy-Unverified") != ids["block"] {
		t.Errorf("what was found is not shown: %d %v", a.status, a.header)
	}
}
