package auditcmd_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
)

// Each dimension of a record can be queried on its own, names in their original
// spelling even if the record has a hash. A value that no record can have is an error,
// not an empty result.
//
// Proves SYN-6, MFW-9.
func TestQueryByEveryDimension(t *testing.T) {
	dir := filepath.Join(ring.Dir(t), "audit")
	at := time.Now().Add(-10 * 24 * time.Hour)
	l := openLog(t, dir, &at)
	for _, ev := range []memproxy.Event{
		{Type: memproxy.EventDecision, Decision: "other", Principal: memproxy.Principal{ID: "agent:x", Tenant: "nobody"}, Kind: memproxy.Recall, Backend: "letta"},
		{
			Type: memproxy.EventDecision, Decision: "wanted", Session: "tuesday's session", Kind: memproxy.Learn, Backend: "mem0",
			Principal: memproxy.Principal{ID: "agent:dev", Tenant: "acme"}, Scope: memproxy.Scope{User: "Ann Smith", Agent: "dev"},
			Fields: []string{"gotchas"}, Verdict: memproxy.Allow, ShadowVerdict: memproxy.Deny, Reasons: []memproxy.Reason{{Code: memproxy.PolicyError}},
			Facts: &memproxy.Facts{Source: memproxy.SourceHostile}, Targets: []string{"m-target"},
		},
		{Type: memproxy.EventReview, Decision: "other", Principal: memproxy.Principal{ID: "eve"}, Verdict: memproxy.Deny, ShadowVerdict: memproxy.Deny, Memories: []string{"m-shown"}, Act: &memproxy.Act{Action: "hold.approve", Stage: memproxy.ActRefused, Have: 1, Need: 2}},
		{Type: memproxy.EventVersion, Decision: "other", Claimed: -1, Confidence: -1, Versions: []memproxy.VersionChange{
			{Memory: "m-changed", Field: "decisions", Op: memproxy.OpUpdate, Before: 1, After: 2}, {Memory: "m-changed", Kind: memproxy.TargetObject, Op: memproxy.OpUpdate, Before: 4, After: 5},
		}},
	} {
		must.Do(t, l.RecordAsync(ev))
	}
	must.Do(t, l.Flush(context.Background()))
	at = time.Now()
	must.Do(t, l.RecordAsync(memproxy.Event{Type: memproxy.EventStart}))
	must.Do(t, l.Close(context.Background()))
	says(t, 0, " version=m-changed:update:1>2 object=m-changed:update:4>5 ", "query", "--dir", dir, "--memory", "m-changed")
	says(t, 0, " votes=1/2 ", "query", "--dir", dir, "--stage", "refused")
	for _, c := range []struct{ flag, value, want string }{
		{"principal", "agent:dev", "wanted"}, {"agent", "dev", "wanted"}, {"user", "Ann Smith", "wanted"}, {"tenant", "acme", "wanted"},
		{"session", "tuesday's session", "wanted"}, {"session", memproxy.InertSession("tuesday's session"), "wanted"}, {"backend", "mem0", "wanted"},
		{"memory", "m-target", "wanted"}, {"memory", "m-shown", "refused"}, {"memory", "m-changed", `"before":1`}, {"field", "gotchas", "wanted"}, {"field", "decisions", "m-changed"},
		{"source", "hostile", "wanted"}, {"action", "learn", "wanted"}, {"shadow-verdict", "deny", "wanted"}, {"would", "deny", "wanted"}, {"type", "version", "m-changed"},
		{"reason", "policy.error", "wanted"}, {"stage", "refused", "eve"}, {"verdict", "deny", "eve"}, {"decision", "wanted", "Ann"}, {"since", "7d", `"start"`}, {"since", "1w", `"start"`},
	} {
		want := strings.Replace(c.want, "Ann", "wanted", 1)
		code, out, errs := run(t, "query", "--dir", dir, "--"+c.flag, c.value, "--json")
		expect.Equal(t, code, 0, c.flag, c.value, errs)
		expect.Text(t, out, "-", c.flag, c.value, errs).Times(1, "\n").Has(want)
		expect.Text(t, out, "the record holds what the caller wrote").Lacks("Smith", "tuesday")
	}
	expect.Text(t, says(t, 0, "", "query", "--dir", dir, "--since", "11d")).Times(5, "\n")
	says(t, 0, " target=m-target ", "query", "--dir", dir, "--memory", "m-target")
	for _, c := range []struct{ line, want string }{
		{"query --principal agent:dav", `no record names the principal "agent:dav"; they name: agent:dev, agent:x, eve`},
		{"query --field gotcha", `no record names the field "gotcha"; they name: decisions, gotchas`},
		{"tail --tenant acmee", `no record names the tenant "acmee"; they name: acme, nobody`},
		{"query --principal agent:dev --verdict deny", ""}, // both exist, but not together
		{"query --memory none", ""}, // ids are no names
		{"query --since 1h --until 2h", "--since is not before --until"},
	} {
		code, out, errs := run(t, append(strings.Fields(c.line), "--dir", dir)...)
		if code != map[bool]int{true: 2}[c.want != ""] || out != "" || !strings.Contains(errs, c.want) {
			t.Errorf("%s: exit %d: %s%s", c.line, code, out, errs)
		}
	}
	for _, c := range [][2]string{
		{"action", "write"}, {"verdict", "maybe"}, {"shadow-verdict", "block"}, {"type", "decisions"}, {"reason", "policy"}, {"source", "email"}, {"stage", "over"}, {"backend", "mem9"}, {"principal", "agent:dav"}, {"agent", "dav"}, {"tenant", "acmee"}, {"user", "Ann"}, {"session", "monday's session"}, {"field", "gotcha"}, {"since", "7days"}, {"until", "-7d"},
	} {
		if code, out, errs := run(t, "query", "--dir", dir, "--"+c[0], c[1]); code != 2 || out != "" || !strings.Contains(errs, c[0]) {
			t.Errorf("-%s %s: exit %d: %s%s", c[0], c[1], code, out, errs)
		}
	}
}
