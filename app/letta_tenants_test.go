package app_test

import (
	"fmt"
	"io"
	"net/http"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// twoTenants has callers of two tenants without limits on names: only the tenant
// separates them.
const twoTenants = withLetta + `    - {sha256: "KEY", id: "agent:dev", kind: agent, trust: authenticated, tenant: acme, acts_as: "*"}
    - {sha256: "OTHER", id: "agent:rival", kind: agent, trust: authenticated, tenant: rival, acts_as: "*"}
    - {sha256: "NARROW", id: "agent:narrow", kind: agent, trust: authenticated, tenant: acme, acts_as: ["agent-00000000-0000-4000-8000-000000009999"]}
log: {level: error}
`

const canary = "CANARY-7f3a"

// tenantsRig is a tenant's agent with its objects, created through memproxy.
type tenantsRig struct {
	*lettaRig
	agent, block, passage, archive, conv, run, message, identity, group, folder string
}

func startTenants(t *testing.T) *tenantsRig {
	t.Helper()
	r := &tenantsRig{lettaRig: startLettaWith(t, someAgent, twoTenants, plainly, "OTHER", sha("other-key"), "NARROW", sha("narrow-key"))}
	r.agent = r.made("/v1/agents/", `{"name":"`+canary+`","memory_blocks":[{"label":"human","value":"`+canary+`"}]}`, "id")
	r.block = r.letta.BlockID(r.agent, "human")
	r.passage = r.made("/v1/agents/"+r.agent+"/archival-memory", `{"text":"`+canary+`"}`, "id")
	r.archive = r.field("GET", "/v1/agents/"+r.agent+"/archival-memory", "", "archive_id")
	r.conv = r.made("/v1/conversations/?agent_id="+r.agent, `{"summary":"`+canary+`"}`, "id")
	r.run = r.field("POST", "/v1/agents/"+r.agent+"/messages", `{"input":"SAY `+canary+`","streaming":false}`, "run_id")
	r.message = r.field("GET", "/v1/agents/"+r.agent+"/messages", "", "id")
	r.identity = r.made("/v1/identities/", `{"identifier_key":"`+canary+`","name":"Ann","identity_type":"user"}`, "id")
	r.group = r.made("/v1/groups/", `{"agent_ids":["`+r.agent+`"],"description":"`+canary+`"}`, "id")
	r.folder = r.made("/v1/folders/", `{"name":"`+canary+`"}`, "id")
	return r
}

func (r *tenantsRig) as(key, method, path, body string) got {
	r.t.Helper()
	return r.do(method, path, body, "X-API-Key", key, "X-Stainless-Package-Version", "1.12.1")
}

func (r *tenantsRig) made(path, body, name string) string {
	r.t.Helper()
	return r.field("POST", path, body, name)
}

// field reads a member of an answer to the agent's caller, or of its first element that
// has it.
func (r *tenantsRig) field(method, path, body, name string) string {
	r.t.Helper()
	a := r.as(devToken, method, path, body).want(r.t, 200, method, path)
	found := find(decoded[any](r.t, a.body), name)
	must.Equal(r.t, found != "", true, method, path, "no", name, "in", a.body)
	return found
}

func find(v any, name string) string {
	switch v := v.(type) {
	case map[string]any:
		if s, ok := v[name].(string); ok {
			return s
		}
		for _, in := range v {
			if s := find(in, name); s != "" {
				return s
			}
		}
	case []any:
		for _, in := range v {
			if s := find(in, name); s != "" {
				return s
			}
		}
	}
	return ""
}

// Proves EDGE-3, TRL-1, EDGE-13: a caller of another tenant without limits on names, and one
// of the tenant who is limited to some agents, neither read nor change objects of an agent
// that is not theirs by naming them anywhere, nor attach them to an agent, group or identity
// of their own or something to them, and get the answer for objects that do not exist. What a
// permitted caller shares with the limited one's agent is available.
func TestNoLettaObjectCrossesTenants(t *testing.T) {
	t.Parallel()
	r := startTenants(t)
	before := r.state()
	for _, path := range []string{"/v1/blocks/" + r.block, "/v1/groups/" + r.group} { // what the callers below are not shown
		r.as(devToken, "GET", path, "").want(t, 200, path).has(t, canary)
	}
	says := `{"input":"SAY hello","streaming":false}`
	of := [][3]string{ // an agent of the tenant
		{"GET", "/v1/blocks/{block}"},
		{"GET", "/v1/blocks/{block}/agents"},
		{"PATCH", "/v1/blocks/{block}", `{"value":"mine"}`},
		{"PATCH", "/v1/blocks/{block}", `{"label":"renamed"}`},
		{"DELETE", "/v1/blocks/{block}"},
		{"PATCH", "/v1/agents/{own}/core-memory/blocks/attach/{block}"},
		{"PATCH", "/v1/agents/{own}", `{"block_ids":["{block}"]}`},
		{"POST", "/v1/agents/", `{"name":"x","block_ids":["{block}"]}`},
		{"POST", "/v1/_internal_templates/agents", `{"name":"x","block_ids":["{block}"]}`},
		{"POST", "/v1/agents/import", `{"agents":[{"name":"x","block_ids":["{block}"]}]}`},
		{"PATCH", "/v1/blocks/{block}/identities/attach/{identity}"},
		{"POST", "/v1/identities/", `{"identifier_key":"k","name":"x","identity_type":"user","block_ids":["{block}"]}`},
		{"GET", "/v1/groups/{group}"},
		{"GET", "/v1/groups/{group}/messages"},
		{"PATCH", "/v1/groups/{group}", `{"description":"mine"}`},
		{"PATCH", "/v1/groups/{group}/blocks/attach/{mine}"},
		{"PATCH", "/v1/groups/{ours}/blocks/attach/{block}"},
		{"PATCH", "/v1/groups/{ours}", `{"shared_block_ids":["{block}"]}`},
		{"POST", "/v1/groups/", `{"agent_ids":["{own}"],"description":"x","shared_block_ids":["{block}"]}`},
		{"PATCH", "/v1/agents/{own}/archives/attach/{archive}"},
		{"POST", "/v1/archives/{archive}/passages", `{"text":"mine"}`},
		{"DELETE", "/v1/agents/{own}/archival-memory/{passage}"},
		{"POST", "/v1/conversations/{conv}/fork?agent_id={own}", `{}`},
		{"PATCH", "/v1/conversations/{conv}", `{"summary":"mine"}`},
	}
	for key, rows := range map[string][][3]string{"narrow-key": of, "other-key": slices.Concat(of, [][3]string{
		{"GET", "/v1/agents/{agent}"},
		{"GET", "/v1/agents/{agent}?include_relationships=memory"},
		{"GET", "/v1/agents/{agent}/context"},
		{"GET", "/v1/agents/{agent}/export"},
		{"GET", "/v1/agents/{agent}/messages"},
		{"GET", "/v1/agents/{agent}/archival-memory"},
		{"GET", "/v1/agents/{agent}/core-memory/blocks"},
		{"GET", "/v1/agents/{agent}/core-memory/blocks/human"},
		{"PATCH", "/v1/agents/{agent}/core-memory/blocks/human", `{"value":"mine"}`},
		{"PATCH", "/v1/agents/{agent}", `{"name":"mine"}`},
		{"DELETE", "/v1/agents/{agent}"},
		{"POST", "/v1/agents/{agent}/recompile", `{}`},
		{"POST", "/v1/agents/{agent}/system-prompt/recompile", `{}`},
		{"POST", "/v1/agents/{agent}/messages/preview-raw-payload", says},
		{"POST", "/v1/agents/{agent}/summarize", `{}`},
		{"POST", "/v1/agents/{agent}/messages", says},
		{"POST", "/v1/agents/{agent}/messages/stream", says},
		{"POST", "/v1/agents/{agent}/messages/async", says},
		{"POST", "/v1/agents/{agent}/messages/capture", `{"provider":"openai","request_messages":[{"role":"user","content":"x"}]}`},
		{"POST", "/v1/agents/{agent}/messages/cancel", `{"run_ids":["{run}"]}`},
		{"POST", "/v1/agents/{agent}/tools/archival_memory_search/run", `{"args":{"query":"CANARY"}}`},
		{"POST", "/v1/agents/{agent}/archival-memory", `{"text":"mine"}`},
		{"POST", "/v1/agents/{own}/messages/cancel", `{"run_ids":["{run}"]}`},
		{"POST", "/v1/agents/{own}/tools/mine/run", `{"args":{"of":"{agent}"}}`},
		{"POST", "/v1/agents/", `{"name":"x","identity_ids":["{identity}"]}`},
		{"POST", "/v1/conversations/default/messages", `{"agent_id":"{agent}","input":"SAY hello","streaming":false}`},
		{"POST", "/v1/conversations/{agent}/messages", says},
		{"POST", "/v1/conversations/{conv}/messages", says},
		{"POST", "/v1/conversations/?agent_id={agent}", `{"summary":"x"}`},
		{"POST", "/v1/conversations/?agent_id={agent}", `{"isolated_block_labels":["human"]}`},
		{"GET", "/v1/conversations/{conv}"},
		{"GET", "/v1/conversations/{conv}/messages"},
		{"GET", "/v1/conversations/default/messages?agent_id={agent}"},
		{"GET", "/v1/conversations/{agent}/messages"},
		{"POST", "/v1/conversations/default/stream", `{"agent_id":"{own}","run_id":"{run}"}`},
		{"GET", "/v1/runs/{run}"},
		{"GET", "/v1/runs/{run}/messages"},
		{"GET", "/v1/runs/{run}/steps"},
		{"GET", "/v1/runs/{run}/trace"},
		{"POST", "/v1/runs/{run}/stream", `{}`},
		{"DELETE", "/v1/runs/{run}"},
		{"GET", "/v1/messages/{message}"},
		{"GET", "/v1/archives/{archive}"},
		{"DELETE", "/v1/archives/{archive}"},
		{"POST", "/v1/groups/", `{"agent_ids":["{agent}"],"description":"x"}`},
		{"POST", "/v1/groups/", `{"agent_ids":["{own}"],"manager_config":{"manager_type":"supervisor","manager_agent_id":"{agent}"},"description":"x"}`},
		{"GET", "/v1/identities/{identity}"},
		{"PATCH", "/v1/identities/{identity}", `{"name":"mine"}`},
		{"POST", "/v1/identities/", `{"identifier_key":"k","name":"x","identity_type":"user","agent_ids":["{agent}"]}`},
		{"POST", "/v1/agents/import", `{"agents":[{"name":"x","identifier_keys":["` + canary + `"]}]}`},
		{"GET", "/v1/folders/{folder}"},
		{"PATCH", "/v1/agents/{own}/folders/attach/{folder}"},
	})} {
		own := r.agentOf(key)
		group := r.as(key, "POST", "/v1/groups/", `{"agent_ids":["`+own+`"],"description":"x"}`).want(t, 200).id(t)
		name := strings.NewReplacer(
			"{agent}", r.agent, "{own}", own, "{block}", r.block, "{mine}", r.letta.BlockID(own, "human"), "{conv}", r.conv, "{run}", r.run, "{message}", r.message,
			"{archive}", r.archive, "{passage}", r.passage, "{group}", r.group, "{ours}", group, "{identity}", r.identity, "{folder}", r.folder)
		for _, c := range rows {
			a := r.as(key, c[0], name.Replace(c[1]), name.Replace(c[2])).about(key, c[0], c[1], c[2])
			a.want(t, http.StatusNotFound).has(t, "memproxy_denied").lacks(t, canary) // a 404 of the server would mean that it was asked
			expect.Text(t, fmt.Sprint(a.header), key, c[0], c[1], c[2], "shows").Lacks(canary)
		}
		lists := []string{"/v1/agents/", "/v1/blocks/", "/v1/conversations/", "/v1/messages/", "/v1/archives/", "/v1/groups/"}
		if key == "other-key" { // identities, folders and runs are the tenant's
			lists = append(lists, "/v1/runs/", "/v1/identities/", "/v1/folders/")
		}
		for _, path := range lists {
			r.as(key, "GET", path, "").want(t, 200, key, path).lacks(t, canary, r.agent)
		}
		expect.Equal(t, r.state(), before, key, "changed the victim")
		if key == "narrow-key" {
			r.as(devToken, "PATCH", "/v1/agents/"+own+"/core-memory/blocks/attach/"+r.block, "").want(t, 200)
			r.as(key, "GET", "/v1/agents/"+own, "").want(t, 200).has(t, canary)
		}
	}
}

// state is the victim's state in the server.
func (r *tenantsRig) state() string {
	r.t.Helper()
	var out strings.Builder
	for _, path := range []string{
		"/v1/agents/" + r.agent, "/v1/agents/" + r.agent + "/messages", "/v1/agents/" + r.agent + "/archival-memory", "/v1/conversations/" + r.conv,
		"/v1/groups/" + r.group, "/v1/identities/" + r.identity, "/v1/folders/" + r.folder, "/v1/archives/" + r.archive, "/v1/runs/?agent_id=" + r.agent,
	} {
		resp := must.Get(http.Get(r.up + path))(r.t)
		fmt.Fprintln(&out, path, resp.StatusCode)
		must.Get(io.Copy(&out, resp.Body))(r.t)
		resp.Body.Close()
	}
	return out.String()
}

// agentOf creates an agent for a caller.
func (r *tenantsRig) agentOf(key string) string {
	r.t.Helper()
	return r.as(key, "POST", "/v1/agents/", `{"name":"own","memory_blocks":[{"label":"human","value":"v"}]}`).want(r.t, 200, "create").id(r.t)
}

// Proves EDGE-3, CARD-1: with several tenants, an agent's caller gets all of its
// objects, as with one tenant.
func TestCreatorsKeepTheirLettaObjects(t *testing.T) {
	t.Parallel()
	r := startTenants(t)
	for path, want := range map[string]string{
		"/v1/agents/":                                            r.agent,
		"/v1/agents/" + r.agent:                                  canary,
		"/v1/agents/" + r.agent + "/messages":                    canary,
		"/v1/agents/" + r.agent + "/archival-memory":             canary,
		"/v1/agents/" + r.agent + "/core-memory/blocks/human":    canary,
		"/v1/blocks/" + r.block:                                  canary,
		"/v1/conversations/":                                     r.conv,
		"/v1/conversations/" + r.conv:                            canary,
		"/v1/conversations/default/messages?agent_id=" + r.agent: canary,
		"/v1/conversations/" + r.agent + "/messages":             canary,
		"/v1/runs/":                                r.run,
		"/v1/runs/" + r.run:                        r.agent,
		"/v1/runs/" + r.run + "/messages":          canary,
		"/v1/messages/":                            canary,
		"/v1/messages/" + r.message:                canary,
		"/v1/archives/?agent_id=" + r.agent:        r.archive,
		"/v1/archives/":                            r.archive,
		"/v1/archives/" + r.archive:                r.archive,
		"/v1/groups/":                              r.group,
		"/v1/groups/" + r.group:                    canary,
		"/v1/identities/":                          r.identity,
		"/v1/identities/?identifier_key=" + canary: r.identity,
		"/v1/identities/" + r.identity:             canary,
		"/v1/folders/":                             r.folder,
		"/v1/folders/" + r.folder:                  canary,
	} {
		r.as(devToken, "GET", path, "").want(t, 200, path).has(t, want)
	}
	for path, body := range map[string]string{ // the embedded server has no archive passages
		"/v1/agents/" + r.agent + "/messages/stream": `{"input":"SAY hello"}`,
		"/v1/conversations/" + r.agent + "/messages": `{"input":"SAY hello","streaming":false}`,
		"/v1/conversations/default/messages":         `{"agent_id":"` + r.agent + `","input":"SAY hello","streaming":false}`,
		"/v1/conversations/" + r.conv + "/messages":  `{"input":"SAY hello","streaming":false}`,
		"/v1/archives/" + r.archive + "/passages":    `{"text":"more"}`,
		"/v1/agents/" + r.agent + "/archival-memory": `{"text":"more"}`,
	} {
		if a := r.as(devToken, "POST", path, body); strings.HasPrefix(a.header.Get("X-Memproxy-Decision"), "deny") || a.status != 200 && !strings.Contains(path, "/archives/") {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		} else if strings.HasSuffix(path, "/stream") && !strings.HasSuffix(a.body, "data: [DONE]\n\n") {
			t.Errorf("%s: the stream has no end: %s", path, a.body)
		}
	}
}

// Proves TRL-1, EDGE-3: a caller limited to some agents may use the agent that it just
// created, and no other agent of its tenant.
func TestLimitedCallersUseTheAgentsTheyMade(t *testing.T) {
	t.Parallel()
	r := startTenants(t)
	mine := r.agentOf("narrow-key")
	for _, c := range [][3]string{
		{"GET", "/v1/agents/" + mine},
		{"GET", "/v1/agents/" + mine + "/messages"},
		{"GET", "/v1/agents/" + mine + "/core-memory/blocks/human"},
		{"PATCH", "/v1/agents/" + mine + "/core-memory/blocks/human", `{"value":"new"}`},
		{"POST", "/v1/agents/" + mine + "/messages", `{"input":"SAY hello","streaming":false}`},
		{"POST", "/v1/conversations/?agent_id=" + mine, `{"summary":"s"}`},
		{"POST", "/v1/agents/" + mine + "/archival-memory", `{"text":"t"}`},
		{"GET", "/v1/agents/" + mine + "/archival-memory"},
		{"GET", "/v1/runs/?agent_id=" + mine},
	} {
		r.as("narrow-key", c[0], c[1], c[2]).want(t, 200, c[0], c[1])
		theirs := strings.Replace(c[1], mine, r.agent, 1)
		if a := r.as("narrow-key", c[0], theirs, c[2]); a.status != 403 && a.status != 404 || strings.Contains(a.body, canary) {
			t.Errorf("%s %s: %d %s", c[0], theirs, a.status, a.body)
		}
	}
}

// Proves TRL-1, EDGE-3: a caller limited to the agent that leads a group reads the messages of
// that agent there, and not those of the other members or of runs that nobody tells.
func TestGroupMessagesBelongToTheirAgents(t *testing.T) {
	t.Parallel()
	var messages string
	inGroup := func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			if strings.HasPrefix(q.URL.Path, "/v1/groups/") && strings.HasSuffix(q.URL.Path, "/messages") {
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprint(w, "["+messages+"]")
				return
			}
			h.ServeHTTP(w, q)
		})
	}
	r := &tenantsRig{lettaRig: startLettaWith(t, someAgent, twoTenants, inGroup, "OTHER", sha("other-key"), "NARROW", sha("narrow-key"))}
	own, others := r.agentOf("narrow-key"), r.agentOf(devToken)
	said := func(key, agent, n string) string {
		a := r.as(key, "POST", "/v1/agents/"+agent+"/messages", `{"input":"SAY hello","streaming":false}`).want(t, 200)
		return `{"id":"message-0000000` + n + `-0000-4000-8000-000000000000","message_type":"assistant_message","content":"said by ` + n + `","run_id":"` + find(decoded[any](t, a.body), "run_id") + `"},`
	}
	messages = said("narrow-key", own, "1") + said(devToken, others, "2") +
		`{"id":"message-00000003-0000-4000-8000-000000000000","message_type":"assistant_message","content":"said by 3"}`
	group := r.made("/v1/groups/", `{"agent_ids":["`+own+`","`+others+`"],"description":"g"}`, "id")
	r.as("narrow-key", "GET", "/v1/groups/"+group+"/messages", "").want(t, 200).has(t, "said by 1").lacks(t, "said by 2", "said by 3")
	r.as(devToken, "GET", "/v1/groups/"+group+"/messages", "").want(t, 200).has(t, "said by 1", "said by 2", "said by 3")
}

// Proves EDGE-3, EDGE-13: objects of another tenant that were attached to one's agent
// behind memproxy appear in no answer.
func TestForeignRelationsAreLeftOut(t *testing.T) {
	t.Parallel()
	conf := twoTenants
	var extra string
	attach := func(h http.Handler) http.Handler { // attached directly in the server
		return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			relay(w, q, h, func(body string) string {
				if extra == "" || q.Method != http.MethodGet || !strings.HasPrefix(q.URL.Path, "/v1/agents/agent-") {
					return body
				}
				return strings.Replace(body, `{"id":`, extra+`"id":`, 1)
			})
		})
	}
	r := &tenantsRig{lettaRig: startLettaWith(t, someAgent, conf, attach, "OTHER", sha("other-key"), "NARROW", sha("narrow-key"))}
	r.identity = r.made("/v1/identities/", `{"identifier_key":"k","name":"`+canary+`","identity_type":"user"}`, "id")
	r.folder = r.made("/v1/folders/", `{"name":"`+canary+`"}`, "id")
	own := r.agentOf("other-key")
	extra = `{"identities":[{"id":"` + r.identity + `","name":"` + canary + `"}],"identity_ids":["` + r.identity + `"],"brand_new":{"id":"` + r.folder + `","name":"` + canary + `"},`
	r.as("other-key", "GET", "/v1/agents/"+own, "").want(t, 200).has(t, own).lacks(t, canary, r.identity, r.folder)
	mine := r.agentOf(devToken)
	r.as(devToken, "GET", "/v1/agents/"+mine, "").want(t, 200).has(t, r.identity, canary)
}

// Proves EDGE-3, TRL-1: tools are looked up by name among all tenants', so where
// tenants share a server only the server's built-in tools can be named; by id each
// tenant has its own tools.
func TestToolsByNameAreTheServersOwn(t *testing.T) {
	t.Parallel()
	r := startTenants(t)
	for tools, want := range map[string]int{`["web_search"]`: 200, `["somebodys_tool"]`: 404, `["web_search","somebodys_tool"]`: 404} {
		r.as("other-key", "POST", "/v1/agents/", `{"name":"a","memory_blocks":[],"tools":`+tools+`}`).want(t, want, tools)
	}
	one := startLetta(t, someAgent)
	one.do("POST", "/v1/agents/", `{"name":"a","memory_blocks":[],"tools":["my_tool"]}`).want(t, 200)
}

// Proves EDGE-3: where tenants share a server, another tenant's file in the caller's own
// folder reads like one that nobody has, which the server (0.16.8) answers with 500.
func TestFilesOfOtherTenantsReadAsUnknown(t *testing.T) {
	t.Parallel()
	const foreign, owned, unknown = "file-00000000-0000-4000-8000-0000000000f1", "file-00000000-0000-4000-8000-0000000000f2", "file-00000000-0000-4000-8000-0000000000f3"
	l := startLettaWith(t, someAgent, twoTenants, answering(func(w http.ResponseWriter, r *http.Request) bool {
		switch id := path.Base(r.URL.Path); id {
		case unknown:
			return replies(w, 500, `{"detail":"An unknown error occurred"}`)
		case foreign, owned:
			return replies(w, 404, fmt.Sprintf(`{"detail":"File with id=%s not found in folder %s"}`, id, lettaFolder))
		}
		return false
	}), "OTHER", sha("rival-key"), "NARROW", sha("narrow-key"))
	l.own(lettaFolder, "acme")
	l.own(owned, "rival")
	for _, at := range []string{"/v1/folders/", "/v1/sources/"} {
		var said []string
		for _, id := range []string{foreign, owned, unknown} {
			a := l.do("GET", at+lettaFolder+"/files/"+id, "", "X-API-Key", devToken)
			_, decision, _ := strings.Cut(a.header.Get("X-Memproxy-Decision"), "; id=")
			said = append(said, fmt.Sprint(a.status, " ", strings.NewReplacer(id, "ID", decision, "D").Replace(a.body)))
		}
		expect.Equal(t, said[0] == said[1] && said[1] == said[2] && strings.HasPrefix(said[0], "404 "), true, at, said)
	}
}
