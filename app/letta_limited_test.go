package app

import (
	"net/http"
	"strings"
	"testing"
)

// Proves EDGE-3, TRL-1: a caller limited to some agents cannot reach objects of another
// agent of its tenant: not by id, nor by attaching them to an agent, group or identity
// of its own, nor by attaching something to them. Objects that a permitted caller
// shares with its agent are available.
func TestLimitedCallersCannotReachOtherAgents(t *testing.T) {
	t.Parallel()
	r := startTenants(t)
	own := r.agentOf("narrow-key")
	block := r.letta.BlockID(own, "human")
	made := r.as("narrow-key", "POST", "/v1/groups/", `{"agent_ids":["`+own+`"],"description":"x"}`)
	_, group, _ := strings.Cut(made.body, `"id":"`)
	group, _, _ = strings.Cut(group, `"`)
	if made.status != 200 || group == "" {
		t.Fatalf("%d %s", made.status, made.body)
	}
	before := r.state()
	name := strings.NewReplacer("{agent}", r.agent, "{own}", own, "{block}", r.block, "{mine}", block, "{group}", r.group, "{ours}", group,
		"{archive}", r.archive, "{passage}", r.passage, "{conv}", r.conv, "{message}", r.message, "{identity}", r.identity)
	for _, c := range [][3]string{
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
	} {
		a := r.as("narrow-key", c[0], name.Replace(c[1]), name.Replace(c[2]))
		if a.status != http.StatusNotFound || !strings.Contains(a.body, "memproxy_denied") || strings.Contains(a.body, canary) {
			t.Errorf("%s %s %s: %d %s", c[0], c[1], c[2], a.status, a.body)
		}
	}
	for _, path := range []string{"/v1/blocks/", "/v1/groups/", "/v1/agents/", "/v1/archives/", "/v1/conversations/", "/v1/messages/"} {
		if a := r.as("narrow-key", "GET", path, ""); a.status != 200 || strings.Contains(a.body, canary) {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	if after := r.state(); after != before {
		t.Errorf("it was %s and is %s", before, after)
	}
	for _, path := range []string{"/v1/blocks/" + r.block, "/v1/groups/" + r.group} { // a caller that may act for every agent
		if a := r.as(devToken, "GET", path, ""); a.status != 200 || !strings.Contains(a.body, canary) {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	r.as(devToken, "PATCH", "/v1/agents/"+own+"/core-memory/blocks/attach/"+r.block, "").want(t, 200)
	r.as("narrow-key", "GET", "/v1/agents/"+own, "").want(t, 200).has(t, canary)
}
