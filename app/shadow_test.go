package app

import (
	"strings"
	"testing"
)

// A policy that is tried out and fails says so, in the record, in the metric of
// decisions and in the log: nobody takes it for one that has nothing against
// anything.
//
// Proves EDGE-15.
func TestShadowPoliciesThatFailSaySo(t *testing.T) {
	t.Parallel()
	dir := policyDir(t, `@id("own.trial") @enforce("false")
forbid (principal, action == Action::"learn", resource) when { context.size + 9223372036854775807 > 0 };`)
	r := start(t, strings.Replace(screeningConf, "level: error", "level: warn", 1), "SCREENING", "policy: {dir: "+dir+"}")
	r.written("Ann likes green tea.", "") // it is not enforced
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

// With enforce: false what cannot be read is forwarded as well, under the profile in
// which memories of newcomers wait: nothing of a decision relies on a decoded request.
//
// Proves TRL-10, CARD-1.
func TestShadowModeForwardsWhatIsNotRead(t *testing.T) {
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
