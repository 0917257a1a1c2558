//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/letta"
	"github.com/memproxy/memproxy/adapters/mem0"
	"github.com/memproxy/memproxy/internal/contract"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// matrixConfig has two tenants, and keys without any limit but the tenant's.
// More is said of the backend.
func matrixConfig(kind, upstream, more string) string {
	keys := ""
	for _, k := range [][3]string{
		{"agent:victim", "acme", "authenticated"}, {"agent:star", "acme", "authenticated"}, {"agent:plain", "acme", "authenticated, acts_as: []"},
		{"agent:other", "globex", "authenticated"}, {"agent:anonymous", "globex", "anonymous"}, {"service:service", "globex", "established"},
	} {
		_, name, _ := strings.Cut(k[0], ":")
		keys += keyed(matrixKey(name), k[0], ", tenant: "+k[1]+", trust: "+k[2])
	}
	return sidecarConf("production", kind, upstream, more, "identity:\n  keys:\n"+keys+`budgets:
  default: {writes_per_hour: 10000000, writes_total: 100000000}
  anonymous: {writes_per_hour: 10000000, writes_total: 100000000}
limits: {rejections: 0}
sessions: {max_rejections: 0, max_user_rejections: 0, max_principal_rejections: 0}
`)
}

func matrixKey(name string) string { return "m0-matrix-" + name }

// matrixWorld has the callers; its owners' objects are made on the server.
func matrixWorld(unknown map[string]string, objects func(name, tenant string, n int) *contract.Owner) *contract.World {
	w := &contract.World{Unknown: unknown, Names: map[string]bool{"user": true}}
	if _, ids := unknown["block"]; !ids { // Mem0's agents, apps and runs are names, too
		w.Names["agent"], w.Names["app"], w.Names["run"] = true, true, true
	}
	for i, o := range [][2]string{{"victim", "acme"}, {"neighbour", "acme"}, {"other", "globex"}} {
		w.Owners = append(w.Owners, objects(o[0], o[1], i+1))
		w.Owners[len(w.Owners)-1].Objects["user"] = "user-of-" + o[0]
		w.Owners[len(w.Owners)-1].Objects["word"] = "canary" + o[0]
	}
	neighbour, other := w.Owners[1], w.Owners[2]
	key := func(name string) string { return "Authorization: Bearer " + matrixKey(name) }
	w.Callers = []*contract.Caller{
		{Name: "other", Header: key("other"), Owner: other, Sees: []*contract.Owner{other}},
		{Name: "nobody", Owner: other},
		{Name: "anonymous", Header: key("anonymous"), Owner: other, Sees: []*contract.Owner{other}},
		{Name: "service", Header: key("service"), Owner: other, Sees: []*contract.Owner{other}},
		{Name: "plain", Header: key("plain"), Owner: neighbour, Sees: w.Owners[:2]},
		{Name: "star", Header: key("star"), Owner: neighbour, Sees: w.Owners[:2]},
	}
	return w
}

func tableOf(table iter.Seq2[string, memproxy.Route]) []contract.Route {
	var out []contract.Route
	for at, rt := range table {
		method, path, _ := strings.Cut(at, " ")
		out = append(out, contract.Route{ID: rt.ID, Method: method, Path: path, Kind: rt.Kind, Public: rt.Public})
	}
	return out
}

// state is what the victim has on the server, asked for past the proxy.
func state(t *testing.T, base string, paths []string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, p := range paths {
		a := call(t, http.MethodGet, base+p, "m0sk_e2e", "", append([]string{"Authorization", "Token m0-e2e"}, sdk...)...)
		out[p] = fmt.Sprint(a.status, " ", a.body)
	}
	return out
}

// playMatrix plays a share of the matrix on a real server: one case in so many,
// always the same. MATRIX_SHARE=1 plays all of it; MATRIX_SEED from 0 to the
// share less one plays the other parts, so that a search can take them in turn.
//
// What may be asked twice is asked again through the real Envoy, one case in
// four: what reads, and what is refused.
func playMatrix(t *testing.T, s processed, w *contract.World, f *contract.Format, routes []contract.Route, share uint32, upstream tapped, victims []string) {
	t.Helper()
	before := state(t, upstream.server, victims)
	p := &contract.Matrix{
		Format: f, World: w, Routes: routes, Base: s.base, Share: share,
		Fail: t.Errorf, Tap: upstream.tap, Workers: 4, CheckEvery: 200, AltBase: s.envoy,
	}
	var asked, compared atomic.Int64
	p.AltCases = func(c *contract.Case, a *contract.Answer) bool {
		verdict, _ := a.Decision()
		again := (c.Method == http.MethodGet || verdict == "deny") && asked.Add(1)%4 == 0
		if again {
			compared.Add(1)
		}
		return again
	}
	for name, at := range map[string]*uint32{"MATRIX_SHARE": &p.Share, "MATRIX_SEED": &p.Seed} {
		if n, err := strconv.ParseUint(os.Getenv(name), 10, 32); err == nil {
			*at = uint32(n)
		}
	}
	t.Logf("MATRIX_SHARE=%d MATRIX_SEED=%d plays the same cases", p.Share, p.Seed)
	p.Check = func(what string) {
		after := state(t, upstream.server, victims)
		for _, path := range slices.Sorted(maps.Keys(before)) {
			expect.Equal(t, after[path], before[path], what, path, "is another")
		}
		before = after
	}
	begin := time.Now()
	must.Do(t, p.Run())
	must.That(t, p.Cases != 0 && p.Forwarded != 0, "%d cases were played, and %d reached the server", p.Cases, p.Forwarded)
	must.That(t, compared.Load() != 0, "no case was compared with Envoy's")
	t.Logf("%d cases in %v, of %d something reached the server, %d requests; %d were compared with Envoy's", p.Cases, time.Since(begin).Round(time.Second), p.Forwarded, p.Arrived, compared.Load())
	s.recorded(t, p.Decisions)
}

// tapped is a real server, and the tap before it.
type tapped struct {
	server, base string
	tap          *contract.Tap
}

func tap(t *testing.T, server string) tapped {
	t.Helper()
	tap := must.Get(contract.NewTap(server))(t)
	srv := httptest.NewServer(tap)
	t.Cleanup(srv.Close)
	return tapped{server, srv.URL, tap}
}

// maker makes objects through the proxy, as their owner.
type maker struct {
	t    *testing.T
	base string
	key  string
}

func (m maker) make(method, path, body string) any {
	m.t.Helper()
	a := call(m.t, method, m.base+path, "", body, append([]string{"Authorization", "Bearer " + m.key}, sdk...)...)
	if a.status > 299 {
		m.t.Fatalf("%s %s: %d %s", method, path, a.status, tail(a.body, 600))
	}
	var v any
	must.Do(m.t, json.Unmarshal([]byte(a.body), &v), method, path)
	return v
}

// Proves EDGE-3, EDGE-13, TRL-1: on the real Letta no route, wherever an id or
// a name stands, shows or changes what is another tenant's.
func TestMatrixOnLetta(t *testing.T) {
	t.Parallel()
	upstream := tap(t, startLetta(t)) // everything on it is asked for, changed and deleted
	s := serveProcessor(t, "letta", upstream.tap, matrixConfig("letta", upstream.base, ""))
	w := matrixWorld(contract.LettaUnknown(), contract.LettaOwner)
	for _, o := range w.Owners {
		who := "victim"
		if o.Name == "other" {
			who = "other"
		}
		lettaObjects(maker{t, s.base, matrixKey(who)}, o)
	}
	a := must.Get(letta.New(letta.Options{}))(t)
	id := w.Owners[0].Objects
	agent := "/v1/agents/" + id["agent"]
	playMatrix(t, s, w, contract.Letta(), tableOf(a.Routes()), 80, upstream, []string{
		agent, agent + "/core-memory/blocks", agent + "/archival-memory", agent + "/messages", agent + "/tools", agent + "/folders",
		"/v1/blocks/" + id["block"], "/v1/archives/" + id["archive"], "/v1/groups/" + id["group"], "/v1/identities/" + id["identity"],
		"/v1/conversations/" + id["conversation"], "/v1/folders/" + id["folder"], "/v1/folders/" + id["folder"] + "/files",
		"/v1/runs/?agent_id=" + id["agent"],
	})
}

// lettaObjects makes one object of each kind that callers can make.
func lettaObjects(m maker, o *contract.Owner) {
	m.t.Helper()
	c, id := o.Canary, o.Objects
	get := func(v any, names ...string) string {
		s := member(v, names...)
		if s == "" {
			m.t.Fatalf("no %v in %v", names, v)
		}
		return s
	}
	id["agent"] = get(m.make("POST", "/v1/agents/", `{"name":"`+c+`","agent_type":"letta_v1_agent","model":"openai-proxy/gpt-4o-mini","embedding":"openai/text-embedding-3-small",`+
		`"description":"`+c+`","tags":["`+c+`"],"metadata":{"note":"`+c+`"},"memory_blocks":[{"label":"human","value":"`+c+`"},{"label":"persona","value":"`+c+`"}]}`), "id")
	id["block"] = get(m.make("POST", "/v1/blocks/", `{"label":"human","value":"`+c+`","description":"`+c+`","tags":["`+c+`"],"metadata":{"note":"`+c+`"}}`), "id")
	id["archive"] = get(m.make("POST", "/v1/archives/", `{"name":"`+c+`","description":"`+c+`","embedding":"openai/text-embedding-3-small"}`), "id")
	id["passage"] = get(m.make("POST", "/v1/agents/"+id["agent"]+"/archival-memory", `{"text":"`+c+`","tags":["`+c+`"]}`), "id")
	id["folder"] = get(m.make("POST", "/v1/folders/", `{"name":"`+c+`","description":"`+c+`","metadata":{"note":"`+c+`"},"embedding":"openai/text-embedding-3-small"}`), "id")
	id["identity"] = get(m.make("POST", "/v1/identities/", `{"identifier_key":"`+id["user"]+`","name":"`+c+`","identity_type":"user","properties":[{"key":"`+c+`","value":"`+c+`","type":"string"}]}`), "id")
	id["group"] = get(m.make("POST", "/v1/groups/", `{"agent_ids":["`+id["agent"]+`"],"description":"`+c+`"}`), "id")
	id["conversation"] = get(m.make("POST", "/v1/conversations/?agent_id="+id["agent"], `{"summary":"`+c+`"}`), "id")
	said := m.make("POST", "/v1/agents/"+id["agent"]+"/messages", `{"messages":[{"role":"user","content":"SAY `+c+`"}]}`)
	messages, _ := said.(map[string]any)["messages"].([]any)
	for _, v := range messages {
		one, _ := v.(map[string]any)
		for kind, name := range map[string]string{"message": "id", "run": "run_id", "step": "step_id"} {
			if s, ok := one[name].(string); ok && s != "" {
				id[kind] = s
			}
		}
	}
}

// Proves EDGE-3, EDGE-13, TRL-1: the same on the real Mem0 engine, by the
// platform's API and by the self-hosted server's.
func TestMatrixOnMem0(t *testing.T) {
	t.Parallel()
	a := must.Get(mem0.New(mem0.Options{}))(t)
	hosted := func(r contract.Route) bool { return strings.HasPrefix(r.Path, "/v") }
	for name, tc := range map[string]struct {
		credential, add, list string
		takes                 func(contract.Route) bool
		victims               []string
	}{
		"platform": {`, credential: "m0-e2e"`, "/v1/memories/", "/v1/memories/?user_id=", hosted,
			[]string{"/v1/memories/?user_id={user}", "/v1/memories/?agent_id={agent}", "/v1/memories/{memory}/", "/v1/memories/{memory}/history/"}},
		"self-hosted": {`, credential: "m0sk_e2e", credential_as: x-api-key`, "/memories", "/memories?user_id=", func(r contract.Route) bool { return !hosted(r) },
			[]string{"/memories?user_id={user}", "/memories?agent_id={agent}", "/memories/{memory}", "/memories/{memory}/history"}},
	} {
		t.Run(name, func(t *testing.T) {
			upstream := tap(t, startEngine(t).base)
			s := serveProcessor(t, "mem0", upstream.tap, matrixConfig("mem0", upstream.base, tc.credential))
			w := matrixWorld(contract.Mem0Unknown(), contract.Mem0Owner)
			for _, o := range w.Owners {
				mem0Objects(maker{t, s.base, matrixKey(map[bool]string{false: "victim", true: "other"}[o.Name == "other"])}, o, tc.add, tc.list)
			}
			victims := slices.Clone(tc.victims)
			for i, path := range victims {
				for kind, id := range w.Owners[0].Objects {
					path = strings.ReplaceAll(path, "{"+kind+"}", id)
				}
				victims[i] = path
			}
			routes := slices.DeleteFunc(tableOf(a.Routes()), func(r contract.Route) bool { return !tc.takes(r) })
			playMatrix(t, s, w, contract.Mem0(), routes, 20, upstream, victims)
		})
	}
}

// mem0Objects makes memories of each kind of owner.
func mem0Objects(m maker, o *contract.Owner, add, list string) {
	m.t.Helper()
	id := o.Objects
	for _, kind := range []string{"agent", "app", "run"} {
		id[kind] = kind + "-of-" + o.Name
	}
	more := `"infer":false,"metadata":{"note":"` + o.Canary + `","tags":["` + o.Canary + `"]}}`
	m.make("POST", add, `{"messages":[{"role":"user","content":"`+o.Canary+`"}],"user_id":"`+id["user"]+`",`+more)
	m.make("POST", add, `{"messages":[{"role":"user","content":"`+o.Canary+` too"}],"agent_id":"`+id["agent"]+`","run_id":"`+id["run"]+`",`+more)
	// The self-hosted server knows no apps; their names are the tenant's all the same.
	m.make("POST", add, `{"messages":[{"role":"user","content":"`+o.Canary+` as well"}],"user_id":"`+id["user"]+`","app_id":"`+id["app"]+`",`+more)
	waitFor(m.t, "the memories of "+o.Name, func() bool {
		id["memory"] = member(m.make("GET", list+id["user"], ""), "id")
		return id["memory"] != ""
	})
}
