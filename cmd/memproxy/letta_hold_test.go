package main

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
)

// Proves EDGE-1, MFW-7: a self-edit that is held is refused to the agent, which
// reads that it waits, and is made once it is approved; the turn goes on.
func TestHeldSelfEdits(t *testing.T) {
	l := startLettaWith(t, someAgent, strings.Replace(lettaConf, `policy: {dir: "DIR/policies"}`, `policy: {dir: "OWN"}`, 1),
		func(h http.Handler) http.Handler { return h }, "OWN", policyDir(t, `@id("own.hold") @reason("policy.forbid") @verdict("hold") @detail("what an agent notes waits for review")
forbid (principal, action in Action::"write", resource) when { context.field == "human" };`))
	a := l.say(poisoned, "")
	if a.status != 200 || !strings.Contains(a.body, "what an agent notes waits for review") || !strings.Contains(a.body, "done") {
		t.Fatalf("%d %s", a.status, a.body)
	}
	l.blocks("Ann", "spy") // the persona is not held by this policy
	ctx := context.Background()
	page, err := l.car.ledger.Holds(ctx, memproxy.HoldFilter{State: memproxy.HoldPending})
	if err != nil || len(page.Holds) != 2 || page.Holds[0].Route != "letta.run_tool_for_agent" || !strings.HasSuffix(page.Holds[0].EscapedPath, "/tools/memory_insert/run") {
		t.Fatalf("%+v %v", page, err)
	}
	l.review(page.Holds[0].ID, true)
	l.review(page.Holds[1].ID, false)
	l.eventually("the approved edit", func() bool { return l.letta.Value(l.agent, "human") == "Ann\nlikes tea" })
	l.eventually("the end of the hold", func() bool {
		h, err := l.car.ledger.Hold(ctx, page.Holds[0].ID)
		return err == nil && h.State == memproxy.HoldDone
	})
}
