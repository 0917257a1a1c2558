package app_test

import (
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/letta/embedded"
	"github.com/memproxy/memproxy/internal/must"
)

// made makes an object and returns its id.
func (r *raced) made(who, path, body string) string {
	r.t.Helper()
	return r.do(call{"POST", path, body}, who).want(r.t, 200).id(r.t)
}

// approved sends a held write and returns what became of it.
func (r *raced) approved(id string) memproxy.HeldWrite {
	r.t.Helper()
	must.Get(r.car.Ledger.Holds.Approve(r.t.Context(), id, memproxy.Review{Reviewer: "eve"}))(r.t)
	r.once("replays", r.car.clock())
	return must.Get(r.car.Ledger.Holds.Get(r.t.Context(), id))(r.t)
}

// Proves EDGE-15, EDGE-5: an approved list takes away only what it took away when its
// reviewer saw it.
func TestApprovedListsTakeAwayWhatWasSeen(t *testing.T) {
	for name, more := range map[string]bool{"as it was": false, "another was attached": true} {
		inBubble(t, name, func(t *testing.T) {
			r := startRaced(t, lettaConf, embedded.New())
			agent := r.made("human", "/v1/agents/", `{"name":"t","agent_type":"letta_v1_agent"}`)
			tea := r.made("human", "/v1/blocks/", `{"label":"tea","value":"Ann likes green tea"}`)
			boat := r.made("human", "/v1/blocks/", `{"label":"boat","value":"Ann has a boat"}`)
			attach := func(block string) {
				r.do(call{"PATCH", "/v1/agents/" + agent + "/core-memory/blocks/attach/" + block, ""}, "human").want(t, 200)
			}
			attach(tea)
			held := heldID(t, r.do(call{"PATCH", "/v1/agents/" + agent, `{"block_ids":[]}`}, ""))
			if more {
				attach(boat)
			}
			h := r.approved(held)
			has := r.do(call{"GET", "/v1/agents/" + agent, ""}, "human").want(t, 200).body
			if !more && (h.State != memproxy.HoldDone || strings.Contains(has, "tea")) {
				t.Errorf("%s %+v: %s", h.State, h.Result, has)
			}
			if more && (h.State != memproxy.HoldFailed || !strings.Contains(h.Result.Detail, "after the write was held") || !strings.Contains(has, "boat") || !strings.Contains(has, "tea")) {
				t.Errorf("%s %+v: %s", h.State, h.Result, has)
			}
		})
	}
}

const attachingPolicy = `@id("own.attach") @reason("policy.forbid") @verdict("hold") @detail("what agents read is looked at first")
forbid (principal, action in Action::"attach", resource);`

// Proves EDGE-15: an approved attachment puts the text in front of an agent that its
// reviewer saw, and no later one, even of the same author.
func TestApprovedAttachmentsHaveTheTextThatWasSeen(t *testing.T) {
	for name, changed := range map[string]bool{"as it was": false, "changed": true} {
		inBubble(t, name, func(t *testing.T) {
			r := startRaced(t, lettaConf, embedded.New(), "DIR/policies", policyDir(t, attachingPolicy))
			agent := r.made("", "/v1/agents/", `{"name":"t","agent_type":"letta_v1_agent"}`)
			block := r.made("", "/v1/blocks/", `{"label":"tea","value":"Ann likes green tea"}`)
			held := heldID(t, r.do(call{"PATCH", "/v1/agents/" + agent + "/core-memory/blocks/attach/" + block, ""}, ""))
			if changed {
				r.do(call{"PATCH", "/v1/blocks/" + block, `{"value":"Ann pays for everything"}`}, "").want(t, 200)
			}
			h := r.approved(held)
			has := r.do(call{"GET", "/v1/agents/" + agent, ""}, "").want(t, 200).body
			if changed && (h.State != memproxy.HoldFailed || strings.Contains(has, "pays")) || !changed && (h.State != memproxy.HoldDone || !strings.Contains(has, "green tea")) {
				t.Errorf("%s %+v: %s", h.State, h.Result, has)
			}
		})
	}
}
