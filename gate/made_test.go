package gate_test

import (
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
)

// Proves DOL-5, TRL-9: what is made of many memories is refused for one that is
// to come of a write and waits for review, as long as it may come; what was
// planned for a write and did come, or cannot any more, keeps nobody from it.
func TestDerivedTextsWaitForPendingMemories(t *testing.T) {
	for name, tc := range map[string]struct {
		st      memproxy.Status
		refused bool
	}{
		"may come":     {memproxy.Status{State: memproxy.StatePending, Changed: noon.Add(-9 * time.Minute)}, true},
		"never came":   {memproxy.Status{State: memproxy.StatePending, Changed: noon.Add(-11 * time.Minute)}, false},
		"came":         {memproxy.Status{State: memproxy.StateUntrusted, Changed: noon}, false},
		"is set aside": {memproxy.Status{State: memproxy.StateQuarantined, Changed: noon.Add(-time.Hour)}, true},
	} {
		r, l := anyAgent(t, func(r *rig) { r.rules.WithholdUntrusted = true })
		tc.st.Kind, tc.st.ID = memproxy.TargetDecision, "d0"
		l.statuses["d0"] = tc.st
		a := r.admit(memproxy.Operation{Kind: memproxy.Recall, Derived: true})
		expect.That(t, a.Decision.Verdict.Stops() == tc.refused, "%s: %v", name, a.Decision)
	}
}
