//go:build e2e

package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/internal/expect"
)

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
