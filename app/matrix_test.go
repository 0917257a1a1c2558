package app_test

import (
	"context"
	"iter"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/app"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/envoy/extproc/extproctest"
	"github.com/memproxy/memproxy/internal/contract"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
)

// matrixConf has two tenants, and keys limited by nothing but the tenant.
const matrixConf = `profile: production
state: DIR/state
admin: {listen: "127.0.0.1:0"}
backends:
  - {name: mem0, kind: KIND, listen: "127.0.0.1:0", upstream: "BACKEND"}
identity:
  keys:
    - {sha256: "KEYvictim", id: "agent:victim", kind: agent, trust: authenticated, tenant: acme, acts_as: ["*"]}
    - {sha256: "KEYstar", id: "agent:star", kind: agent, trust: authenticated, tenant: acme, acts_as: ["*"]}
    - {sha256: "KEYplain", id: "agent:plain", kind: agent, trust: authenticated, tenant: acme}
    - {sha256: "KEYother", id: "agent:other", kind: agent, trust: authenticated, tenant: globex, acts_as: ["*"]}
    - {sha256: "KEYanonymous", id: "agent:anonymous", kind: agent, trust: anonymous, tenant: globex, acts_as: ["*"]}
    - {sha256: "KEYrootacme", id: "human:rootacme", kind: human, trust: established, tenant: acme, roles: [memproxy-admin], acts_as: ["*"]}
    - {sha256: "KEYrootglobex", id: "human:rootglobex", kind: human, trust: established, tenant: globex, roles: [memproxy-admin], acts_as: ["*"]}
    - {sha256: "KEYservice", id: "service:globex", kind: service, trust: established, tenant: globex, acts_as: ["*"]}
budgets:
  default: {writes_per_hour: 10000000, writes_total: 100000000}
  anonymous: {writes_per_hour: 10000000, writes_total: 100000000}
limits: {rejections: 0}
sessions: {max_rejections: 0, max_user_rejections: 0, max_principal_rejections: 0}
review: {max_held: 10000, max_held_tenant: 100000, max_held_user: 10000}
log: {level: error}
`

func tableOf(table iter.Seq2[string, memproxy.Route]) []contract.Route {
	var out []contract.Route
	for at, rt := range table {
		method, path, _ := strings.Cut(at, " ")
		out = append(out, contract.Route{ID: rt.ID, Method: method, Path: path, Kind: rt.Kind, Public: rt.Public})
	}
	return out
}

// matrixWorld has three owners and all callers.
func matrixWorld(make func(name, tenant string, n int) *contract.Owner, unknown map[string]string) *contract.World {
	victim, neighbour, other := make("victim", "acme", 1), make("neighbour", "acme", 2), make("other", "globex", 3)
	w := &contract.World{Owners: []*contract.Owner{victim, neighbour, other}, Unknown: unknown, Names: map[string]bool{"user": true}}
	if _, ids := unknown["block"]; !ids { // Mem0's agents, apps and runs are names, too
		w.Names["agent"], w.Names["app"], w.Names["run"] = true, true, true
	}
	key := func(name string) string { return "Authorization: Bearer " + matrixKey(name) }
	acme := []*contract.Owner{victim, neighbour}
	w.Callers = []*contract.Caller{
		{Name: "other", Header: key("other"), Owner: other, Sees: []*contract.Owner{other}},
		{Name: "nobody", Owner: other},
		{Name: "anonymous", Header: key("anonymous"), Owner: other, Sees: []*contract.Owner{other}},
		{Name: "service", Header: key("service"), Owner: other, Sees: []*contract.Owner{other}},
		{Name: "plain", Header: key("plain"), Owner: neighbour, Sees: acme},
		{Name: "star", Header: key("star"), Owner: neighbour, Sees: acme},
	}
	return w
}

func matrixKey(name string) string { return "matrix-key-of-" + name }

// startMatrix starts a sidecar with both listeners in front of a backend.
func startMatrix(t *testing.T, kind, up string) *rig {
	t.Helper()
	return startMatrixWith(t, kind, up, func(conf string) string { return conf })
}

// startMatrixWith is startMatrix with a changed configuration.
func startMatrixWith(t *testing.T, kind, up string, change func(string) string) *rig {
	t.Helper()
	r := &rig{t: t, dir: stateDir(t), log: &lockedBuffer{}, up: up}
	r.conf = strings.ReplaceAll(change(matrixConfig(kind, up)), "DIR", r.dir)
	cfg := must.Get(config.Parse("memproxy.yaml", []byte(r.conf), os.Getenv))(t)
	opt := app.Options{Log: r.log, Getenv: allowing(cfg), Version: "test", TimeoutFactor: 10}
	r.car = must.Get(assemble(context.Background(), unwatched(cfg), opt))(t)
	must.Do(t, r.listenBoth(false))
	t.Cleanup(r.stop)
	r.base, r.admin = "http://"+r.car.Addr("mem0"), "http://"+r.car.Addr("admin")
	return r
}

// matrixConfig fills in keys, kind and backend.
func matrixConfig(kind, up string) string {
	text := strings.NewReplacer("KIND", kind, "BACKEND", up).Replace(matrixConf)
	for _, name := range []string{"victim", "star", "plain", "other", "anonymous", "service", "rootacme", "rootglobex"} {
		text = strings.Replace(text, "KEY"+name+`"`, sha(matrixKey(name))+`"`, 1)
	}
	return text
}

// seedLetta has the owners create their objects.
func seedLetta(t *testing.T, r *rig, w *contract.World) {
	t.Helper()
	for _, o := range w.Owners {
		who := map[string]string{"victim": "victim", "neighbour": "victim", "other": "other"}[o.Name]
		id, word := o.Objects, o.Objects["word"]
		for _, q := range [][2]string{
			{"POST /v1/agents/", `{"name":"` + word + `","memory_blocks":[{"label":"human","value":"tea"}]}`},
			{"POST /v1/blocks/", `{"label":"human","value":"tea","name":"` + word + `"}`},
			{"POST /v1/archives/", `{"name":"` + word + `"}`},
			{"POST /v1/folders/", `{"name":"` + word + `"}`},
			{"POST /v1/groups/", `{"agent_ids":["` + id["agent"] + `"],"description":"` + word + `"}`},
			{"POST /v1/identities/", `{"identifier_key":"` + id["user"] + `","name":"` + word + `","identity_type":"user"}`},
			{"POST /v1/conversations/?agent_id=" + id["agent"], `{"summary":"` + word + `"}`},
			{"POST /v1/archives/" + id["archive"] + "/passages", `{"text":"` + word + `"}`},
			{"ADMIN /v1/tools/", `{"source_code":"def seed():\n    return '` + word + `'\n"}`},
			{"ADMIN /v1/providers/", `{"name":"` + word + `","provider_type":"openai","api_key":"k"}`},
			{"ADMIN /v1/mcp-servers/", `{"server_name":"` + word + `","config":{"mcp_server_type":"sse","server_url":"https://example.org"}}`},
			{"FORM /v1/folders/" + id["folder"] + "/upload", "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"" + word + ".txt\"\r\nContent-Type: text/plain\r\n\r\ntea\r\n--b--\r\n"},
		} {
			method, path, _ := strings.Cut(q[0], " ")
			key, media := who, "application/json"
			switch method {
			case "ADMIN":
				key = "root" + o.Tenant
			case "FORM":
				media = "multipart/form-data; boundary=b"
			}
			r.do("POST", path, q[1], "X-API-Key", "", "Content-Type", media, "Authorization", "Bearer "+matrixKey(key)).want(t, http.StatusOK, q[0], "as", o.Name)
		}
	}
}

// Proves EDGE-3, EDGE-13, TRL-1
func TestNoRouteOfLettaCrossesTenants(t *testing.T) {
	ring.Long(t, "one request after another")
	t.Parallel()
	play(t, "letta")
}

// seedMem0 has the owners write their memories.
func seedMem0(t *testing.T, r *rig, w *contract.World) {
	t.Helper()
	for _, o := range w.Owners {
		who := map[string]string{"victim": "victim", "neighbour": "victim", "other": "other"}[o.Name]
		id := o.Objects
		add := `{"messages":[{"role":"user","content":"` + id["word"] + `"}],"infer":false,"user_id":"` + id["user"] + `"`
		for _, q := range [][2]string{
			{"/v3/memories/add/", add + `}`},
			{"/v3/memories/add/", add + `,"agent_id":"` + id["agent"] + `","run_id":"` + id["run"] + `","app_id":"` + id["app"] + `"}`},
			{"/v1/exports/", `{"schema":{"type":"object","title":"` + id["word"] + `"},"filters":{"user_id":"` + id["user"] + `"}}`},
		} {
			if q[0] == "/v1/exports/" { // its schema is a prompt
				who = "root" + o.Tenant
			}
			r.do("POST", q[0], q[1], "X-API-Key", "", "Authorization", "Bearer "+matrixKey(who)).want(t, http.StatusOK, q, "as", o.Name)
		}
	}
}

// Proves EDGE-3, EDGE-13, TRL-1
func TestNoRouteOfMem0CrossesTenants(t *testing.T) {
	t.Parallel()
	play(t, "mem0")
}

// matrix is a sidecar in front of a backend of the contract, on which the owners have made
// their objects.
type matrix struct {
	*rig
	world  *contract.World
	back   *contract.Backend
	format *contract.Format
	routes []contract.Route
}

func newMatrix(t *testing.T, kind string, g *golden) *matrix {
	t.Helper()
	m, seed := &matrix{}, seedMem0
	if kind == "letta" {
		m.world, m.format, seed = matrixWorld(contract.LettaOwner, contract.LettaUnknown()), contract.Letta(), seedLetta
		m.back = contract.NewLettaBackend(m.world)
	} else {
		m.world, m.format = matrixWorld(contract.Mem0Owner, contract.Mem0Unknown()), contract.Mem0()
		m.back = contract.NewMem0Backend(m.world)
	}
	up := g.backend(m.back)
	t.Cleanup(up.Close)
	m.rig, m.routes = startMatrix(t, kind, up.URL), tableOf(routesOf(t, kind))
	seed(t, m.rig, m.world)
	m.back.TakeChanges()
	return m
}

func play(t *testing.T, kind string) {
	failed, g := 0, newGolden()
	m := newMatrix(t, kind, g)
	p := &contract.Matrix{Format: m.format, World: m.world, Routes: ring.Sample(m.routes, 1, 3), Base: m.base, AltBase: m.throughEnvoy(), TakeChanges: m.back.TakeChanges, Share: uint32(ring.Share(1500, 8000))}
	if ring.IsSlow {
		p.Share = 25 // MATRIX_SHARE=1 plays all cases
	}
	size, shown := 0, 0
	p.Played = func(c *contract.Case, plain string) {
		if part := p.Cases * 100 / max(1, size); part > shown { // a full play takes long
			shown = part
			t.Logf("%d of %d cases, %d faults", p.Cases, size, failed)
		}
		g.played(c, plain)
	}
	p.Fail = func(format string, args ...any) {
		if failed++; failed <= 2000 {
			t.Errorf(format, args...)
		}
	}
	for name, at := range map[string]*uint32{"MATRIX_SHARE": &p.Share, "MATRIX_SEED": &p.Seed} {
		if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
			*at = uint32(n)
		}
	}
	size = p.Size()
	must.Do(t, p.Run())
	audit := m.audit()
	g.write(t, audit)
	recorded := map[string]bool{} // every string of the records, since searching them for each id takes hours
	for text := range strings.SplitSeq(audit, `"`) {
		recorded[text] = true
	}
	for _, id := range p.Decisions {
		if !recorded[id] {
			t.Errorf("decision %s is in no record", id)
		}
	}
	t.Logf("%d cases, %d faults", p.Cases, failed)
}

// throughEnvoy returns the address of an Envoy in front of the sidecar's processor.
func (r *rig) throughEnvoy() string {
	r.t.Helper()
	conn := must.Get(grpc.NewClient(r.car.ExtprocAddr, grpc.WithTransportCredentials(insecure.NewCredentials())))(r.t)
	r.t.Cleanup(func() { _ = conn.Close() })
	srv := serving(r.t, &extproctest.Envoy{Conn: conn, Upstream: r.up, Backend: "mem0", Attributes: map[string]any{"source.address": "127.0.0.1:999"}})
	return srv.URL
}
