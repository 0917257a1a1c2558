package contract_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	mathrand "math/rand/v2"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/mem0"
	"github.com/memproxy/memproxy/adapters/mem0/embedded"
	"github.com/memproxy/memproxy/frontend/frontendtest"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/gate/access"
	"github.com/memproxy/memproxy/gate/backend"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/ledger"
	"github.com/memproxy/memproxy/ledger/keys"
)

// speaker is whoever the next request is from.
type speaker struct {
	frontendtest.Parts
	who memproxy.Principal
}

func (s *speaker) Identify(context.Context, memproxy.Credentials) (memproxy.Principal, error) {
	return s.who, nil
}

// direct is a backend that is asked within the process.
type direct struct {
	http.Handler
	backend.Fetcher // nil: nothing is sent with a body
}

func (d direct) Fetch(_ context.Context, q memproxy.Request) (memproxy.Reply, error) {
	return d.send(q, nil), nil
}

func (d direct) send(q memproxy.Request, body []byte) memproxy.Reply {
	r := httptest.NewRequest(q.Method, q.EscapedPath+"?"+q.Query, bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	return memproxy.Reply{Status: w.Code, Header: memproxy.Header(w.Header()), Body: w.Body.Bytes()}
}

// asked is a request of a sequence.
type asked struct {
	by                  memproxy.Principal
	method, path, query string
	body                string
	names               []string // whom it names, as OwnerID
	writes              bool     // a new memory, under these names
}

func (a *asked) String() string {
	return fmt.Sprintf("%s of %s: %s %s?%s %s", a.by.ID, a.by.Tenant, a.method, a.path, a.query, a.body)
}

// nameCallers are of two tenants and of none. Those of whom names is set are in
// the configuration, which lists them; the limits of the others are known only
// when they come.
func nameCallers() (all []memproxy.Principal, listed map[string]string) {
	everybody := memproxy.Limit{All: true}
	only := func(v ...string) memproxy.Limit { return memproxy.Limit{Values: v} }
	caller := func(id, tenant string, users, agents memproxy.Limit) memproxy.Principal {
		return memproxy.Principal{ID: id, Kind: memproxy.KindService, Trust: memproxy.TrustAuthenticated, Tenant: tenant, Users: users, ActsAs: agents, Apps: everybody, Runs: everybody}
	}
	return []memproxy.Principal{
		caller("open", "acme", everybody, everybody), caller("open", "globex", everybody, everybody), caller("open", "", everybody, everybody),
		caller("key", "acme", only("ann"), everybody), caller("key", "globex", only("bob"), only("bot")),
		caller("token", "acme", only("carol", "ann"), everybody), caller("token", "globex", only("carol", "dan", "bob"), only("dev")),
	}, map[string]string{"user:ann": "acme", "user:bob": "globex", "agent:bot": "globex"}
}

// nameRequest is one request in a random form. Known are ids of memories.
func nameRequest(r *mathrand.Rand, by memproxy.Principal, known []string, text string) asked {
	user := []string{"ann", "bob", "carol", "dan", "erin"}[r.IntN(5)]
	agent := []string{"", "", "bot", "dev"}[r.IntN(4)]
	q := asked{by: by, method: "POST", names: []string{"user:" + user}}
	named := fmt.Sprintf(`"user_id":%q`, user)
	add := func(path, more string) {
		q.path, q.writes = path, true
		q.body = fmt.Sprintf(`{"messages":[{"role":"user","content":%q}],"infer":false,%s%s`, text, named, more)
		if agent != "" {
			q.names = append(q.names, "agent:"+agent)
			q.body += fmt.Sprintf(`,"agent_id":%q`, agent)
		}
		q.body += "}"
	}
	get := func(method, path, query string) { q.method, q.path, q.query = method, path, query }
	post := func(path, body string) { q.path, q.body = path, body }
	if len(known) > 0 && r.IntN(5) == 0 {
		id := known[r.IntN(len(known))]
		q.names = nil
		switch r.IntN(4) {
		case 0:
			get("GET", "/memories/"+id, "")
		case 1:
			get("GET", "/v1/memories/"+id+"/history/", "")
		case 2:
			get("DELETE", "/memories/"+id, "")
		case 3:
			get("PUT", "/memories/"+id, "")
			q.body = fmt.Sprintf(`{"text":%q}`, text)
		}
		return q
	}
	switch r.IntN(14) {
	case 0, 1:
		add("/memories", "")
	case 2, 3:
		add("/v1/memories/", `,"async_mode":false`)
	case 4:
		add("/v3/memories/add/", "")
	case 5, 6:
		post("/v1/summary/", `{"filters":{`+named+`}}`)
	case 7:
		get("GET", "/v2/entities/user/"+user+"/profile/", "")
	case 8:
		get("GET", "/memories", "user_id="+user)
	case 9:
		post("/v3/memories/", `{"filters":{`+named+`}}`)
	case 10:
		post("/search", `{"query":"canary",`+named+`}`)
	case 11:
		post("/v3/memories/search/", `{"query":"canary","filters":{"OR":[{`+named+`}]}}`)
	case 12:
		get("DELETE", "/memories", "user_id="+user)
	case 13:
		get("DELETE", "/v2/entities/user/"+user+"/", "")
	}
	return q
}

// nameWorld is a gate in front of a Mem0, with what its ledger must say.
type nameWorld struct {
	t       *testing.T
	gate    *gate.Gate
	backend gate.Backend
	back    direct
	ledger  *ledger.Ledger
	caller  *speaker
	owner   map[string]string // the tenant of each name
	known   []string
	log     []string
}

// admit asks the gate, and holds what it said to the laws.
func (w *nameWorld) admit(q asked) *gate.Admission {
	w.log = append(w.log, q.String())
	w.caller.who = q.by
	req := memproxy.Request{Method: q.method, EscapedPath: q.path, Query: q.query, Header: memproxy.Header{"Content-Type": {"application/json"}}}
	rt, known := w.backend.Adapter.Route(req)
	if !known {
		w.t.Fatalf("no route: %s", &q)
	}
	a := w.gate.Admit(context.Background(), &gate.Call{Backend: w.backend, Request: req, Route: rt, Known: true, Body: []byte(q.body)})
	rows := must.Get(ledger.ByID(context.Background(), w.ledger, w.backend.Name, memproxy.TargetEntity, append(slices.Collect(maps.Keys(w.owner)), q.names...)...))(w.t)
	own := len(q.names) > 0
	for _, name := range q.names {
		rec, bound := rows[name]
		if q.writes && a.Reply == nil {
			if !bound || rec.Owner.Scope.Tenant != q.by.Tenant {
				w.fail("an admitted write names %s, of which the ledger has %v %+v", name, bound, rec.Owner)
			} else if _, had := w.owner[name]; !had {
				w.owner[name] = q.by.Tenant
			}
		}
		whose, had := w.owner[name]
		dim, value, _ := strings.Cut(name, ":")
		own = own && had && whose == q.by.Tenant && q.by.LimitIn(memproxy.Dimension(dim)).Allows(value)
	}
	for name, tenant := range w.owner {
		if rec := rows[name]; rec.Owner.Scope.Tenant != tenant {
			w.fail("%s was tenant %q's and is %q's", name, tenant, rec.Owner.Scope.Tenant)
		}
	}
	if own && a.Reply != nil && (a.Decision.Status == 404 || slices.ContainsFunc(a.Decision.Reasons, func(r memproxy.Reason) bool { return strings.HasPrefix(string(r.Code), "owner.") })) {
		w.fail("its own is not there for it: %+v", a.Decision)
	}
	return a
}

// finish sends what was admitted, and holds the answer to the laws.
func (w *nameWorld) finish(q asked, a *gate.Admission) {
	reply := a.Reply
	if reply == nil {
		w.caller.who = q.by
		got := w.gate.Return(context.Background(), a, w.back.send(memproxy.Request{Method: q.method, EscapedPath: q.path, Query: a.Query}, a.Body))
		reply = &got
	}
	for _, tenant := range canaryOf.FindAllSubmatch(reply.Body, -1) {
		if string(tenant[1]) != "of"+q.by.Tenant {
			w.fail("is shown a text of tenant %q: %s", tenant[1], reply.Body)
		}
	}
	var added struct {
		Results []struct{ ID string }
	}
	if q.writes && json.Unmarshal(reply.Body, &added) == nil { // what answers otherwise has no ids
		for _, m := range added.Results {
			w.known = append(w.known, m.ID)
		}
	}
}

var canaryOf = regexp.MustCompile(`canary (of[a-z]*) `)

func (w *nameWorld) fail(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf(format+"\n%s", append(args, strings.Join(w.log, "\n"))...)
}

// Proves EDGE-3, EDGE-13 and TRL-1: whatever several callers of several tenants
// ask for, one after the other and at once: after an admitted write each name
// that it claims has a row of the writer's tenant in the ledger; a name stays
// whose it is; no answer shows what another tenant wrote; and a tenant is refused
// nothing of its own for being another's.
func TestNamesStayWhoseTheyAre(t *testing.T) {
	// Changes of one memory wait for one another, for seconds.
	synctest.Test(t, namesStay)
}

func namesStay(t *testing.T) {
	const sequences, length = 4800, 24
	key := must.Get(keys.New(bytes.Repeat([]byte{7}, keys.Size)))(t)
	vault := must.Get(keys.NewVault(keys.Set{Signing: key}))(t)
	l := must.Get(ledger.Open(ledger.Options{Vault: vault, Clock: time.Now, Timeout: time.Minute}))(t)
	defer l.Close()
	adapter := must.Get(mem0.New(mem0.Options{}))(t)
	callers, listed := nameCallers()
	caller := &speaker{}
	rules := frontendtest.Rules(caller)
	rules.Unattributed = access.Named
	g := frontendtest.NewGate(t, caller, &rules, func(o *gate.Options) { o.Ledger = l })
	admitted := 0
	for seed := range uint64(sequences / ring.Share(48, 96)) {
		r := mathrand.New(mathrand.NewPCG(seed, 20))
		b := must.Get(embedded.New(embedded.Options{}))(t)
		w := &nameWorld{
			t: t, gate: g, ledger: l, caller: caller, owner: maps.Clone(listed), back: direct{Handler: b},
			backend: gate.Backend{Name: fmt.Sprint("mem0-", seed), Adapter: adapter, Fetch: direct{Handler: b}}, log: []string{fmt.Sprint("seed ", seed)},
		}
		for id, tenant := range listed { // as a start does
			must.Get(l.Assign(t.Context(), memproxy.Ownership{Backend: w.backend.Name, Kind: memproxy.TargetEntity, ID: id, Scope: memproxy.Scope{Tenant: tenant}}))(t)
		}
		for i := 0; i < length; {
			var together []asked
			var rulings []*gate.Admission
			for range 1 + r.IntN(3) { // all are ruled on before the first is sent
				by := callers[r.IntN(len(callers))]
				q := nameRequest(r, by, w.known, fmt.Sprintf("canary of%s %d likes tea", by.Tenant, i))
				together, rulings = append(together, q), append(rulings, w.admit(q))
				i++
			}
			for j, q := range together {
				if rulings[j].Reply == nil && q.writes {
					admitted++
				}
				w.finish(q, rulings[j])
			}
		}
	}
	expect.Equal(t, admitted >= sequences/ring.Share(48, 96), true, admitted, "writes were admitted: too few to show anything")
}
