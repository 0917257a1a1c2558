package cedar

import (
	"strings"
	"testing"

	"github.com/cedar-policy/cedar-go"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/policy"
)

// Proves EDGE-18: the detail of every built-in denial ends with what allows the
// operation: a role, a setting, or the rule's id to disable; a hold waits for review.
func TestDenialsSayWhatAllowsThem(t *testing.T) {
	t.Parallel()
	p := must.Get(Compile(policy.Builtin()))(t)
	n := 0
	for id, r := range p.rules {
		_, by, opens := strings.Cut(r.detail, "; ")
		switch {
		case r.policy.Effect() == cedar.Permit || r.mark:
		case r.verdict == memproxy.Hold && !strings.Contains(r.detail, "wait"):
			t.Errorf("%s holds and says %q", id, r.detail)
		case r.verdict != memproxy.Deny:
		case !opens || !strings.HasSuffix(by, " allows it"):
			t.Errorf("%s denies and says %q", id, r.detail)
		case strings.Contains(by, "disable: [") && !strings.Contains(by, string(id)):
			t.Errorf("%s names another rule: %q", id, r.detail)
		default:
			n++
		}
	}
	if n < 15 {
		t.Errorf("%d denials: the test does not find them", n)
	}
}
