package app_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
)

// An evaluation error of a shadow policy is reported in the record, the metric of
// decisions and the log, so that it is not mistaken for a policy that permits
// everything.
//
// Proves EDGE-15.
func TestFailingShadowPoliciesAreReported(t *testing.T) {
	t.Parallel()
	dir := policyDir(t, `@id("own.trial") @enforce("false")
forbid (principal, action == Action::"learn", resource) when { context.size + 9223372036854775807 > 0 };`)
	r := start(t, strings.Replace(screeningConf, "level: error", "level: warn", 1), "SCREENING", "policy: {dir: "+dir+"}")
	r.written("Ann likes green tea.", "") // shadow policies are not enforced
	expect.Text(t, r.audit("--reason", "policy.error", "--would", "deny"), "recorded").Has(`"own.trial"`, "could not be evaluated")
	expect.Text(t, r.get("/metrics").body, "no metric tells of it").Has(`policy.error`)
	expect.Text(t, r.log.String(), "the log").Has("a policy that is not enforced could not be evaluated")
}

// With enforce: false unreadable requests are forwarded as well, also under the profile
// in which newcomers' memories wait: no part of the decision needs a decoded request.
//
// Proves TRL-10, CARD-1.
func TestShadowModeForwardsUnreadableRequests(t *testing.T) {
	t.Parallel()
	r := start(t, plain, "profile: production", "profile: production\nenforce: false")
	for _, c := range [][3]string{
		{"POST", "/nosuch", `{"a":1}`}, {"GET", "/nosuch", ""}, {"PATCH", "/memories", `{}`},
		{"POST", "/memories", `{"user_id":"ann","user_id":"bob"}`}, {"POST", "/memories", "{"}, {"POST", "/v3/memories/add/", "[]"},
	} {
		before := r.back.count()
		a := r.do(c[0], c[1], c[2])
		got := a.header.Get("X-Memproxy-Decision")
		expect.Equal(t, strings.HasPrefix(got, "allow; ") && strings.HasSuffix(got, "; would=deny") && r.back.count() == before+1, true, c, a.status, got, r.back.count()-before, "requests at the backend")
	}
}

// What was held while memproxy enforced is its own: with enforce: false its receipts are
// still answered to callers who would be admitted, and an approved write is sent with its
// stamp, so that a crash does not make it two.
//
// Proves EDGE-11, MFW-7.
func TestShadowModeSendsHeldWritesOnce(t *testing.T) {
	t.Parallel()
	r := holding(t)
	held := func(text string) string {
		return heldID(t, r.do("POST", "/v3/memories/add/", fmt.Sprintf(`{"user_id":"bob","infer":false,"messages":[{"role":"user","content":%q}]}`, text)))
	}
	first, second, third, fourth := held("Bob sails."), held("Bob rows."), held("Bob swims."), held("Bob skis.")
	r.stop()
	r.conf += "enforce: false\n"
	r.run()
	receipt := func(id string, header ...string) got { return r.do("GET", "/v1/event/"+id+"/", "", header...) }
	receipt(first).want(t, 200).has(t, `"status":"PENDING"`)
	a := receipt(first, "X-API-Key", "unknown")
	expect.Equal(t, a.status != 200, true, "a caller who is not identified gets the receipt", a.body)
	r.review(first, true)
	r.review(third, false)
	ring.Until(t, "the end of the write", func() bool { return strings.Contains(receipt(first).body, `"status":"SUCCEEDED"`) })
	receipt(third).want(t, 200).has(t, `"status":"FAILED"`)

	ctx, own := context.Background(), r.car.client()
	h, content, err := r.car.Ledger.Holds.Content(ctx, second)
	must.Do(t, err)
	sent := own.Replay(ctx, h, content)
	must.Equal(t, sent.Outcome == memproxy.OutcomeDone && len(sent.Result.Memories) == 1, true, sent) // and then the process is gone
	if ids, known, err := own.FindWrite(ctx, h, content); len(ids) != 1 || !known || err != nil {
		t.Errorf("the backend is asked for the write: %v %v %v", ids, known, err)
	}
	list := r.do("GET", "/memories?user_id=bob", "").body
	expect.Text(t, list, "written").Times(1, "sails").Times(1, "rows").Lacks("swims")
	for _, id := range []string{first, second} {
		expect.Text(t, list, "no memory with the stamp of", id).Has(`"memproxy_id":"` + id + `"`)
	}

	// After the deletion of everything, nothing that waits brings it back.
	r.do("DELETE", "/memories?user_id=bob", "").want(t, 200)
	receipt(fourth).want(t, 200).has(t, `"status":"FAILED"`)
}
