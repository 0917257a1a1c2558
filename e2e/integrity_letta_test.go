//go:build e2e

package e2e

import (
	"database/sql"
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
