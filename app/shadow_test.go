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
