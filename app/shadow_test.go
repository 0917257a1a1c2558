package app

import (
	"strings"
	"testing"
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
	if out := r.audit("--reason", "policy.error", "--would", "deny"); !strings.Contains(out, `"own.trial"`) || !strings.Contains(out, "could not be evaluated") {
		t.Errorf("recorded %s", out)
	}
	if out := r.get("/metrics").body; !strings.Contains(out, `policy.error`) {
		t.Error("no metric tells of it")
	}
	if log := r.log.String(); !strings.Contains(log, "a policy that is not enforced could not be evaluated") {
		t.Errorf("the log: %s", log)
	}
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
		if got := a.header.Get("X-Memproxy-Decision"); !strings.HasPrefix(got, "allow; ") || !strings.HasSuffix(got, "; would=deny") || r.back.count() != before+1 {
			t.Errorf("%s: %d %q, %d requests at the backend", c, a.status, got, r.back.count()-before)
		}
	}
}
