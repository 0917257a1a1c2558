//go:build e2e

package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// apart serves two tenants, one caller each.
func apart(upstream string) string {
	return sidecarConf("production", "letta", upstream, "", "identity:\n  keys:\n"+keyed("dev", "agent:dev", agentOf("acme"))+keyed("rival", "agent:rival", agentOf("rival")))
}

// Proves EDGE-3, TRL-1, CARD-1: on the real server, with two tenants whose
// callers may name every agent, each has all that belongs to the agents that it
// made, and nothing of the other's, however it is named.
func TestLettaTenants(t *testing.T) {
	t.Parallel()
	direct := lettaServer(t)
	car := serve(t, t.TempDir(), apart(direct))
	as := func(key, method, path, body string) answer {
		t.Helper()
		return call(t, method, car.base+path, key, body, sdk...)
	}
	make := func(key, path, body, name string) string {
		t.Helper()
		a := as(key, http.MethodPost, path, body)
		id := firstOf(a.body, name)
		must.That(t, (a.status == 200 || a.status == 201) && id != "", "%s: %d %s", path, a.status, tail(a.body, 1000))
		return id
	}
	const secret = "CANARY-7f3a"
	agent := make("dev", "/v1/agents/", fmt.Sprintf(lettaAgent, "victim"), "id")
	own := make("rival", "/v1/agents/", fmt.Sprintf(lettaAgent, "attacker"), "id")
	archive := make("dev", "/v1/agents/"+agent+"/archival-memory", `{"text":"`+secret+`"}`, "archive_id")
	conv := make("dev", "/v1/conversations/?agent_id="+agent, `{"summary":"`+secret+`"}`, "id")
	run := make("dev", "/v1/agents/"+agent+"/messages", `{"input":"SAY `+secret+`"}`, "run_id")
	identity := make("dev", "/v1/identities/", `{"identifier_key":"`+secret+`","name":"`+secret+`","identity_type":"user"}`, "id")
	group := make("dev", "/v1/groups/", `{"agent_ids":["`+agent+`"],"description":"`+secret+`"}`, "id")
	message := firstOf(as("dev", "GET", "/v1/runs/"+run+"/messages", "").body, "id")
	steps := firstOf(as("dev", "GET", "/v1/runs/"+run+"/messages", "").body, "step_id")

	for path, want := range map[string]string{
		"/v1/agents/":                                          agent,
		"/v1/agents/" + agent:                                  agent,
		"/v1/agents/" + agent + "/messages":                    secret,
		"/v1/agents/" + agent + "/archival-memory":             secret,
		"/v1/agents/" + agent + "/core-memory/blocks":          "Ann",
		"/v1/conversations/?agent_id=" + agent:                 conv,
		"/v1/conversations/" + conv:                            secret,
		"/v1/conversations/" + agent + "/messages":             secret,
		"/v1/conversations/default/messages?agent_id=" + agent: secret,
		"/v1/runs/":                        run,
		"/v1/runs/" + run:                  agent,
		"/v1/runs/" + run + "/messages":    secret,
		"/v1/messages/":                    secret,
		"/v1/messages/" + message:          message,
		"/v1/steps/" + steps + "/messages": secret,
		"/v1/archives/":                    archive,
		"/v1/archives/" + archive:          archive,
		"/v1/identities/":                  identity,
		"/v1/identities/" + identity:       secret,
		"/v1/groups/" + group:              secret,
	} {
		a := as("dev", http.MethodGet, path, "")
		expect.That(t, a.status == 200 && strings.Contains(a.body, want), "own %s: %d %s", path, a.status, tail(a.body, 600))
	}
	says := `{"input":"SAY hello","streaming":false}`
	for _, path := range []string{"/v1/conversations/" + agent + "/messages", "/v1/conversations/" + conv + "/messages"} {
		a := as("dev", http.MethodPost, path, says)
		expect.That(t, a.status == 200 && strings.Contains(a.body, "hello"), "own %s: %d %s", path, a.status, tail(a.body, 600))
	}

	before := lettaBlocks(t, direct, agent)
	for _, c := range [][3]string{
		{"GET", "/v1/agents/" + agent},
		{"GET", "/v1/agents/" + agent + "/context"},
		{"GET", "/v1/agents/" + agent + "/export"},
		{"GET", "/v1/agents/" + agent + "/messages"},
		{"GET", "/v1/agents/" + agent + "/archival-memory"},
		{"GET", "/v1/agents/" + agent + "/core-memory/blocks"},
		{"POST", "/v1/agents/" + agent + "/messages", says},
		{"POST", "/v1/agents/" + agent + "/recompile", `{}`},
		{"POST", "/v1/agents/" + agent + "/summarize", `{}`},
		{"POST", "/v1/agents/" + agent + "/archival-memory", `{"text":"mine"}`},
		{"PATCH", "/v1/agents/" + agent + "/core-memory/blocks/human", `{"value":"mine"}`},
		{"POST", "/v1/agents/" + own + "/messages/cancel", `{"run_ids":["` + run + `"]}`},
		{"POST", "/v1/conversations/default/messages", `{"agent_id":"` + agent + `","input":"SAY x","streaming":false}`},
		{"POST", "/v1/conversations/" + agent + "/messages", says},
		{"POST", "/v1/conversations/" + conv + "/messages", says},
		{"POST", "/v1/conversations/?agent_id=" + agent, `{"isolated_block_labels":["human"]}`},
		{"GET", "/v1/conversations/default/messages?agent_id=" + agent},
		{"GET", "/v1/runs/" + run},
		{"GET", "/v1/runs/" + run + "/messages"},
		{"GET", "/v1/steps/" + steps + "/messages"},
		{"GET", "/v1/messages/" + message},
		{"GET", "/v1/archives/" + archive},
		{"POST", "/v1/archives/" + archive + "/passages", `{"text":"mine"}`},
		{"GET", "/v1/identities/" + identity},
		{"POST", "/v1/agents/", strings.Replace(fmt.Sprintf(lettaAgent, "x"), "{", `{"identity_ids":["`+identity+`"],`, 1)},
		{"GET", "/v1/groups/" + group},
		{"POST", "/v1/groups/", `{"agent_ids":["` + agent + `"],"description":"x"}`},
	} {
		a := as("rival", c[0], c[1], c[2])
		expect.That(t, (a.status == 404 || c[1] == "/v1/messages/"+message) && !strings.Contains(a.body, secret) && !strings.Contains(a.body, "Ann"),
			"another's %s %s %s: %d %s", c[0], c[1], c[2], a.status, tail(a.body, 600))
	}
	for _, path := range []string{"/v1/agents/", "/v1/blocks/", "/v1/conversations/", "/v1/runs/", "/v1/messages/", "/v1/archives/", "/v1/identities/", "/v1/groups/"} {
		a := as("rival", http.MethodGet, path, "")
		expect.That(t, a.status == 200 && !strings.Contains(a.body, secret) && !strings.Contains(a.body, agent), "another's list %s: %d %s", path, a.status, tail(a.body, 600))
	}
	after := lettaBlocks(t, direct, agent)
	expect.That(t, fmt.Sprint(after) == fmt.Sprint(before), "the other's blocks were %v and are %v", before, after)
}

// Agents that were there before memproxy: callers whose limits name one have its messages on every
// route, with one tenant and with two whose backend is not declared, and no message of another
// agent.
//
// Proves EDGE-3, TRL-1.
func TestLettaAgentsFromBefore(t *testing.T) {
	t.Parallel()
	direct := startLetta(t) // lists everything
	made := map[string]string{}
	for _, name := range []string{"mine", "theirs", "nobodys"} {
		agent := firstOf(call(t, "POST", direct+"/v1/agents/", "", fmt.Sprintf(lettaAgent, name), sdk...).body, "id")
		a := call(t, "POST", direct+"/v1/agents/"+agent+"/messages", "", `{"input":"SAY CANARY-`+name+`"}`, sdk...)
		must.That(t, a.status == 200, "%s: %d %s", name, a.status, tail(a.body, 1000))
		made[name] = agent
	}
	limited := strings.NewReplacer(`"agent:dev", kind: agent, trust: authenticated, tenant: acme, acts_as: "*"`, `"agent:dev", kind: agent, trust: authenticated, tenant: acme, acts_as: [`+made["mine"]+`]`,
		`tenant: rival, acts_as: "*"`, `tenant: rival, acts_as: [`+made["theirs"]+`]`).Replace(apart(direct))
	for tenants, config := range map[string]string{"one": strings.ReplaceAll(limited, "tenant: rival", "tenant: acme"), "two": limited} {
		car := serve(t, t.TempDir(), config)
		for key, own := range map[string]string{"dev": "mine", "rival": "theirs"} {
			messages := call(t, "GET", car.base+"/v1/agents/"+made[own]+"/messages", key, "", sdk...).body
			run, step := firstOf(messages, "run_id"), firstOf(messages, "step_id")
			message := firstOf(call(t, "GET", direct+"/v1/runs/"+run+"/messages", "", "", sdk...).body, "id")
			for path, want := range map[string]string{
				"/v1/messages/": "CANARY-" + own,
				"/v1/conversations/default/messages?agent_id=" + made[own]: "CANARY-" + own,
				"/v1/messages/" + message:                                  message,
				"/v1/runs/" + run + "/messages":                            "CANARY-" + own,
				"/v1/steps/" + step + "/messages":                          step,
			} {
				a := call(t, "GET", car.base+path, key, "", sdk...)
				expect.Equal(t, a.status == 200 && strings.Contains(a.body, want), true, tenants, key, path, a.status, tail(a.body, 600))
				for name, agent := range made {
					if name != own {
						expect.Text(t, a.body, tenants, key, path).Lacks("CANARY-"+name, agent)
					}
				}
			}
			for name, agent := range made {
				if name == own {
					continue
				}
				of := call(t, "GET", direct+"/v1/agents/"+agent+"/messages", "", "", sdk...).body
				for _, path := range []string{"/v1/conversations/default/messages?agent_id=" + agent, "/v1/messages/" + firstOf(of, "id"), "/v1/runs/" + firstOf(of, "run_id") + "/messages"} {
					a := call(t, "GET", car.base+path, key, "", sdk...)
					expect.Text(t, a.body, tenants, key, path, a.status).Lacks("CANARY-"+name, "Ann")
				}
			}
		}
	}
}

// What Letta finds by a key, a name or a label of the caller's choice, and what is made
// with an id of the caller's choice: another tenant that says those of a victim neither
// changes what is there, nor reads it, nor gets it as its own; nor what somebody made
// around memproxy, which is nobody's.
//
// Proves EDGE-3, EDGE-13, TRL-1.
func TestLettaKeysOfOthers(t *testing.T) {
	t.Parallel()
	direct := lettaServer(t)
	car := serve(t, t.TempDir(), apart(direct))
	make := func(base, path, body string) string {
		t.Helper()
		return id(t, call(t, http.MethodPost, base+path, "dev", body, sdk...).about(path))
	}
	const secret, key, around = "CANARY-7f3a", "key-of-the-victim", "key-around-memproxy"
	person := func(key, name string) string {
		return fmt.Sprintf(`{"identifier_key":%q,"name":%q,"identity_type":"user","properties":[{"key":"p","value":%q,"type":"string"}]}`, key, name, name)
	}
	agent := make(car.base, "/v1/agents/", fmt.Sprintf(lettaAgent, "victim-of-keys"))
	block := firstOf(call(t, "GET", direct+"/v1/agents/"+agent+"/core-memory/blocks", "", "").body, "id")
	own := firstOf(call(t, "POST", car.base+"/v1/agents/", "rival", fmt.Sprintf(lettaAgent, "attacker-by-keys"), sdk...).body, "id")
	objects := map[string]string{
		"identity": make(car.base, "/v1/identities/", person(key, secret)),
		"around":   make(direct, "/v1/identities/", person(around, secret)),
		"group":    make(car.base, "/v1/groups/", `{"agent_ids":["`+agent+`"],"description":"`+secret+`"}`),
		"archive":  make(car.base, "/v1/archives/", `{"name":"`+secret+`"}`),
		"folder":   make(car.base, "/v1/folders/", `{"name":"`+secret+`","embedding":"letta/letta-free"}`),
		"block":    block,
	}
	paths := map[string]string{"identity": "/v1/identities/", "around": "/v1/identities/", "group": "/v1/groups/", "archive": "/v1/archives/", "folder": "/v1/folders/", "block": "/v1/blocks/"}
	state := func() map[string]string {
		all := map[string]string{"blocks of the agent": call(t, "GET", direct+"/v1/agents/"+agent+"/core-memory/blocks", "", "").body}
		for name, id := range objects {
			a := call(t, "GET", direct+paths[name]+id, "", "")
			all[name] = a.body
			expect.That(t, a.status == 200, "the victim's %s: %d %s", name, a.status, a.body)
		}
		return all
	}
	before := state()
	for _, c := range [][3]string{
		{"PUT", "/v1/identities/", person(key, "mine")},
		{"PUT", "/v1/identities/", person(around, "mine")},
		{"POST", "/v1/identities/", person(key, "mine")},
		{"PUT", "/v1/identities/", person(" "+key, "mine")},
		{"PUT", "/v1/identities/", strings.Replace(person(key, "mine"), "{", `{"identifier_key":"own",`, 1)},
		{"PUT", "/v1/identities/", strings.Replace(person(key, "mine"), "{", `{"id":"`+objects["identity"]+`",`, 1)},
		{"PUT", "/v1/identities/", strings.Replace(person("own-1", "mine"), "{", `{"agent_ids":["`+agent+`"],`, 1)},
		{"PUT", "/v1/identities/", strings.Replace(person("own-2", "mine"), "{", `{"block_ids":["`+block+`"],`, 1)},
		{"PUT", "/v1/identities/" + objects["identity"] + "/properties", `[{"key":"p","value":"mine","type":"string"}]`},
		{"PATCH", "/v1/identities/" + objects["identity"], `{"identifier_key":"own-3"}`},
		{"POST", "/v1/blocks/", `{"id":"` + block + `","label":"human","value":"mine"}`},
		{"POST", "/v1/blocks/", `{"label":"` + block + `","value":"mine"}`},
		{"PATCH", "/v1/agents/" + own + "/core-memory/blocks/" + block, `{"value":"mine"}`},
		{"PATCH", "/v1/agents/" + own + "/core-memory/blocks/attach/" + block, ``},
		{"POST", "/v1/archives/", `{"id":"` + objects["archive"] + `","name":"mine"}`},
		{"PATCH", "/v1/archives/" + objects["archive"], `{"name":"mine"}`},
		{"PATCH", "/v1/agents/" + own + "/archives/attach/" + objects["archive"], ``},
		{"POST", "/v1/groups/", `{"id":"` + objects["group"] + `","agent_ids":["` + own + `"],"description":"mine"}`},
		{"POST", "/v1/groups/", `{"agent_ids":["` + own + `"],"description":"mine","shared_block_ids":["` + block + `"]}`},
		{"PATCH", "/v1/groups/" + objects["group"], `{"description":"mine"}`},
		{"POST", "/v1/folders/", `{"id":"` + objects["folder"] + `","name":"mine","embedding":"letta/letta-free"}`},
		{"GET", "/v1/folders/name/" + secret, ``},
		{"GET", "/v1/identities/?identifier_key=" + key, ``},
		{"GET", "/v1/identities/?name=" + secret, ``},
		{"GET", "/v1/agents/?identifier_keys=" + key, ``},
		{"GET", "/v1/archives/?name=" + secret, ``},
	} {
		a := call(t, c[0], car.base+c[1], "rival", c[2], sdk...)
		expect.That(t, !strings.Contains(a.body, secret) && a.status < 500, "%s %s %s: %d %s", c[0], c[1], c[2], a.status, tail(a.body, 600))
	}
	for name, was := range before {
		expect.Equal(t, state()[name], was, "the victim's", name)
	}
	for i, name := range []string{"first", "second"} { // one's own (this server makes none by PUT)
		call(t, []string{"POST", "PUT"}[i], car.base+"/v1/identities/", "rival", person("rival-4711", name), sdk...).want(t, 200, "an upsert of one's own").has(t, name)
	}
}
