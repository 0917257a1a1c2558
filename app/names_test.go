package app_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/app"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/internal/cli"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// namesConf has two tenants, each with a key; the names that globex lists are filled
// in.
const namesConf = withMem0 + `    - {sha256: "KEY", id: "agent:acme", kind: agent, trust: authenticated, tenant: acme, acts_as: "*"}
    - {sha256: "RIVAL", id: "agent:globex", kind: agent, trust: authenticated, tenant: globex, acts_as: "*"LISTED}
log: {level: error}
`

// asksOfBob are requests that would show bob's memories.
var asksOfBob = []struct{ method, path, body string }{
	{"POST", "/v1/summary/", `{"filters":{"user_id":"bob"}}`},
	{"GET", "/v2/entities/user/bob/profile/", ""},
	{"GET", "/memories?user_id=bob", ""},
	{"POST", "/v3/memories/", `{"filters":{"user_id":"bob"}}`},
	{"POST", "/search", `{"query":"canary","user_id":"bob"}`},
	{"POST", "/v3/memories/search/", `{"query":"canary","filters":{"user_id":"bob"}}`},
}

func ofBob(text string) string {
	return `{"messages":[{"role":"user","content":"` + text + `"}],"user_id":"bob","infer":false}`
}

// bobIsGlobexs checks that acme's unlimited key neither reads nor changes what globex
// has under the name bob.
func bobIsGlobexs(t *testing.T, r *rig, when string) {
	t.Helper()
	rival := []string{"X-API-Key", "rival-key"}
	for _, path := range []string{"/memories", "/v1/memories/", "/v3/memories/add/"} {
		r.do("POST", path, ofBob("bob trusts acme")).want(t, 404, when, "an add of acme's to bob at", path)
	}
	for _, q := range asksOfBob {
		r.do(q.method, q.path, q.body).about(when, "acme is shown", q.method, q.path).lacks(t, "canary of globex")
		a := r.do(q.method, q.path, q.body, rival...)
		told := strings.Contains(a.body, "canary of globex") || strings.HasSuffix(q.path, "/profile/") // may be empty
		expect.Equal(t, a.status == 200 && told && !strings.Contains(a.body, "trusts acme"), true, when, "globex asks for its own", q.method, q.path, a.status, a.body)
	}
}

// Proves EDGE-3, EDGE-13 and TRL-1: a name that one tenant's caller is limited to, used
// or not, cannot be written, summarised or read by another tenant, also after a restart
// and if an edit of the configuration added it.
func TestListedNamesAreReserved(t *testing.T) {
	rival := []string{"X-API-Key", "rival-key"}
	for _, used := range []bool{true, false} {
		r := start(t, namesConf, "RIVAL", sha("rival-key"), "LISTED", ", users: [bob]")
		if !used {
			r.do("POST", "/memories", ofBob("bob trusts acme")).want(t, 404)
		}
		r.do("POST", "/memories", ofBob("the canary of globex sings"), rival...).want(t, 200)
		bobIsGlobexs(t, r, "at once")
		r.stop()
		r.run()
		bobIsGlobexs(t, r, "after a restart")
	}
	r := start(t, namesConf, "RIVAL", sha("rival-key"), "LISTED", "")
	r.stop()
	listed := r.conf
	r.conf = strings.Replace(r.conf, `tenant: globex, acts_as: "*"`, `tenant: globex, acts_as: "*", users: [bob]`, 1)
	r.run()
	r.do("POST", "/memories", ofBob("bob trusts acme")).want(t, 404)
	r.do("POST", "/memories", ofBob("the canary of globex sings"), rival...).want(t, 200)
	bobIsGlobexs(t, r, "after an edit")
	r.stop()
	r.conf = listed // a name remains the tenant's after it is removed from the list
	r.run()
	bobIsGlobexs(t, r, "after another")
}

// assembled starts a sidecar and returns the error, if any, and its log.
func (r *rig) assembled() (string, error) {
	r.t.Helper()
	cfg := must.Get(config.Parse("memproxy.yaml", []byte(r.conf), os.Getenv))(r.t)
	log := &lockedBuffer{}
	opt := app.Options{Log: log, Getenv: allowing(cfg), Version: "test", TimeoutFactor: 10}
	var err error
	if r.car, err = assemble(context.Background(), unwatched(cfg), opt); err == nil {
		r.stop()
	}
	r.car = nil
	return log.String(), err
}

// Proves EDGE-3: in production a configuration that lists a name under which another
// tenant has memories does not start: the error has the line, both tenants and a
// remedy. After their deletion it starts, and the listing tenant owns the name. In
// development it is logged, and the owner remains.
func TestListedNamesOfAnotherTenant(t *testing.T) {
	r := start(t, namesConf, "RIVAL", sha("rival-key"), "LISTED", "")
	r.do("POST", "/memories", ofBob("the canary of acme sings")).want(t, 200)
	r.stop()
	before := r.conf
	r.conf = strings.Replace(r.conf, `tenant: globex, acts_as: "*"`, `tenant: globex, acts_as: "*", users: [ann, bob]`, 1)
	const fault = `memproxy.yaml:9: user "bob" is listed for tenant "globex", and on backend mem0 the ledger assigns it to tenant "acme"`
	for range 2 { // retried starts change nothing
		_, err := r.assembled()
		must.Equal(t, err != nil && strings.HasPrefix(err.Error(), fault) && !strings.Contains(err.Error(), "ann"), true, "production starts, or says", err)
	}
	r.conf = strings.Replace(r.conf, "profile: production", "profile: development", 1)
	expect.Text(t, must.Get(r.assembled())(t), "development").Has("belongs to another tenant", "acme")
	listed := strings.Replace(r.conf, "profile: development", "profile: production", 1)
	r.conf = before
	r.run()
	r.do("GET", "/memories?user_id=bob", "").has(t, "canary of acme")
	id := strings.Split(strings.SplitN(r.do("GET", "/memories?user_id=bob", "").body, `"id":"`, 2)[1], `"`)[0]
	r.do("DELETE", "/memories/"+id, "").want(t, 200)
	r.stop()
	r.conf = listed
	r.run()
	r.do("POST", "/memories", ofBob("the canary of globex sings"), "X-API-Key", "rival-key").want(t, 200)
	bobIsGlobexs(t, r, "after acme has deleted its own")
}

// Proves EDGE-3: listing an object's id does not transfer it from the tenant that
// created it.
func TestListedObjectsOfAnotherTenant(t *testing.T) {
	const agent = "agent-00000000-0000-4000-8000-000000000001"
	r := start(t, namesConf, "RIVAL", sha("rival-key"), "LISTED", "")
	row := memproxy.Ownership{Backend: "mem0", Kind: memproxy.TargetMemory, ID: agent, Scope: memproxy.Scope{Tenant: "acme"}, Actor: "agent:acme"}
	must.Do(t, r.car.Ledger.Commit(t.Context(), memproxy.Entry{Queued: true, Owners: []memproxy.Ownership{row}}))
	r.stop()
	r.conf = strings.Replace(r.conf, `tenant: globex, acts_as: "*"`, `tenant: globex, acts_as: ["`+agent+`"]`, 1)
	expect.ErrorHas(t, expect.Err(r.assembled()), `agent "`+agent+`" is listed for tenant "globex", and on backend mem0 the ledger assigns it to tenant "acme"`)
}

// Proves EDGE-3: check reports the line of a name that two tenants list.
func TestCheckFindsNamesOfTwoTenants(t *testing.T) {
	conf := strings.NewReplacer("KEY", sha(devToken), "RIVAL", sha("rival-key"), "DIR", t.TempDir(), "UPSTREAM", "http://127.0.0.1:1",
		`tenant: acme, acts_as: "*"`, `tenant: acme, acts_as: "*", users: [bob]`, "LISTED", ", users: [bob]").Replace(namesConf)
	path := writeFile(t, t.TempDir()+"/memproxy.yaml", conf)
	code, _, errs := invoke(t, "check", "--config", path)
	expect.Equal(t, code == cli.Failed && strings.Contains(errs, path+`:9: user "bob" is listed for tenant "globex", and on line 8 for tenant "acme"`), true, code, errs)
}

// Proves EDGE-3 and EDGE-13: a name with memories of two tenants belongs to neither:
// summaries of both tenants' memories are refused, and each sees its own memories. The
// listing tenant gets the name when the other's memories are gone.
func TestNamesOfSeveralTenants(t *testing.T) {
	r := start(t, namesConf, "RIVAL", sha("rival-key"), "LISTED", "")
	rival := []string{"X-API-Key", "rival-key"}
	r.do("POST", "/memories", ofBob("the canary of globex sings"), rival...).want(t, 200)
	added := r.behind("POST", "/memories", ofBob("the canary of acme sings"))
	id := strings.Split(strings.SplitN(added, `"id":"`, 2)[1], `"`)[0]
	// The state that an earlier version left.
	must.Do(t, r.car.Ledger.Commit(t.Context(), memproxy.Entry{Queued: true, Owners: []memproxy.Ownership{{Backend: "mem0", Kind: memproxy.TargetMemory, ID: id, Scope: memproxy.Scope{Tenant: "acme", User: "bob"}, Actor: "agent:acme"}, {Backend: "mem0", Kind: memproxy.TargetEntity, ID: "user:bob", Scope: memproxy.Scope{Tenant: memproxy.TenantInaccessible}}}}))
	for _, who := range [][]string{nil, rival} {
		for _, q := range asksOfBob {
			r.do(q.method, q.path, q.body, who...).about(who, "is shown", q.method, q.path).lacks(t, "canary of")
		}
		r.do("POST", "/memories", ofBob("more of it"), who...).want(t, 404, who, "adds")
	}
	r.do("POST", "/v3/memories/", `{"filters":{"user_id":"*"}}`).has(t, "canary of acme").lacks(t, "canary of globex")
	r.stop()
	before := r.conf
	r.conf = strings.Replace(r.conf, `tenant: globex, acts_as: "*"`, `tenant: globex, acts_as: "*", users: [bob]`, 1)
	listed := r.conf
	must.ErrorHas(t, expect.Err(r.assembled()), "the ledger has memories of several tenants under it, or its row there was edited")
	r.conf = before
	r.run()
	r.do("DELETE", "/memories/"+id, "").want(t, 200)
	r.stop()
	r.conf = listed
	r.run()
	bobIsGlobexs(t, r, "after acme has deleted its own")
}
