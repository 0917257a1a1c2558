package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// reviewers is a configuration with one who may do everything.
func reviewers() string {
	return fmt.Sprintf("\nreview: {reviewers: [{id: eve, sha256: %q, roles: [view, review, content], tenants: \"*\"}]}", sha(reviewToken))
}

func isLocked(a got) bool { return a.status == 403 && strings.Contains(a.body, `"session.locked"`) }

// Proves SYN-7: a session is known by what the caller names it by: a header or
// the run on Mem0, a header, the conversation or the agent on Letta. Three
// rejections lock its writes, whichever way they came, and no other's.
func TestSessionsAreKnownByName(t *testing.T) {
	add := func(run, text string) string {
		return fmt.Sprintf(`{"user_id":"ann","run_id":%q,"infer":false,"messages":[{"role":"user","content":%q}]}`, run, text)
	}
	for name, tc := range map[string]struct {
		same, other func(r *rig, text string) got
	}{
		"header": {
			func(r *rig, text string) got {
				return r.do("POST", "/memories", noted(text), "X-Memproxy-Session", "s1")
			},
			func(r *rig, text string) got {
				return r.do("POST", "/memories", noted(text), "X-Memproxy-Session", "s2")
			},
		},
		"run, on the server": {
			func(r *rig, text string) got { return r.do("POST", "/memories", add("r1", text)) },
			func(r *rig, text string) got { return r.do("POST", "/memories", add("r2", text)) },
		},
		"run, on the platform": {
			func(r *rig, text string) got { return r.do("POST", "/v3/memories/add/", add("r1", text)) },
			func(r *rig, text string) got { return r.do("POST", "/v3/memories/add/", add("r2", text)) },
		},
	} {
		r := start(t, screeningConf, "SCREENING", "")
		for i := range 3 {
			if a := tc.same(r, poison); a.status != 403 || isLocked(a) {
				t.Fatalf("%s, rejection %d: %d %s", name, i, a.status, a.body)
			}
		}
		if a := tc.same(r, "Ann likes tea."); !isLocked(a) {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
		if a := tc.other(r, "Ann likes tea."); a.status != 200 {
			t.Errorf("%s, another: %d %s", name, a.status, a.body)
		}
		r.stop()
	}
}

// Proves SYN-7: the same on Letta.
func TestLettaSessions(t *testing.T) {
	l := startLetta(t, someAgent)
	other := l.made("/v1/agents/", `{"name":"other","model":"letta/letta-free","embedding":"letta/letta-free","include_base_tools":false}`)
	passage := func(agent, text string, header ...string) got {
		return l.do("POST", "/v1/agents/"+agent+"/archival-memory", fmt.Sprintf(`{"text":%q}`, text), header...)
	}
	for range 3 {
		if a := passage(l.agent, poison); a.status != 403 || isLocked(a) {
			t.Fatalf("%d %s", a.status, a.body)
		}
	}
	if a := passage(l.agent, "Ann likes tea."); !isLocked(a) {
		t.Errorf("the agent's: %d %s", a.status, a.body)
	}
	if a := passage(other, "Ann likes tea."); a.status != 200 {
		t.Errorf("another agent's: %d %s", a.status, a.body)
	}
	if a := passage(l.agent, "Ann likes tea.", "X-Memproxy-Session", "s9"); a.status != 200 {
		t.Errorf("a session with a name of its own: %d %s", a.status, a.body)
	}
}

// Proves SYN-7: who names another session at every try, or none, or one that
// looks like memproxy's own, is locked all the same: by the hour's rejections
// of the caller, over both backends' routes. A reviewer unlocks the caller;
// others are not touched, and neither is who was refused by the operator's own
// rules only.
func TestChangingSessionsIsNoWayOut(t *testing.T) {
	conf := strings.Replace(screeningConf, "identity:\n  keys:\n", `identity:
  keys:
    - {sha256: "PEER", id: "agent:peer", kind: agent, trust: authenticated, tenant: acme, acts_as: "*"}
`, 1)
	for name, header := range map[string]func(i int) []string{
		"another each time": func(i int) []string { return []string{"X-Memproxy-Session", fmt.Sprint("s", i)} },
		"none":              func(int) []string { return nil },
		"memproxy's own":    func(int) []string { return []string{"X-Memproxy-Session", "caller:agent:peer"} },
	} {
		r := start(t, conf, "SCREENING", fmt.Sprintf("sessions: {principal_strikes: 5}\npolicy: {dir: %q}", policyDir(t, closedFor("bob")))+reviewers(), "PEER", sha("peer-key"))
		write := func(i int, text string) got { return r.do("POST", "/memories", noted(text), header(i)...) }
		// Closed by the operator, and not on account of what would be lowered and taken out.
		closed := strings.NewReplacer("ann", "bob", `"infer":false`, `"infer":false,"metadata":{"confidence":0.99,"memproxy_actor":"me"}`).Replace(noted("Bob sails."))
		for i := range 20 {
			if a := r.do("POST", "/memories", closed, header(i)...); a.status != 403 || isLocked(a) {
				t.Fatalf("%s: %d %s", name, a.status, a.body)
			}
		}
		for i := range 5 {
			if a := write(i, poison); a.status != 403 || isLocked(a) {
				t.Fatalf("%s, rejection %d: %d %s", name, i, a.status, a.body)
			}
		}
		for i := range 3 {
			if a := write(100+i, "Ann likes tea."); !isLocked(a) {
				t.Errorf("%s: %d %s", name, a.status, a.body)
			}
		}
		if a := r.do("POST", "/memories", noted("Ann likes tea."), append([]string{"X-API-Key", "peer-key"}, header(1)...)...); a.status != 200 {
			t.Errorf("%s, another caller: %d %s", name, a.status, a.body)
		}
		if a := r.do("GET", "/memories?user_id=ann", "", header(1)...); a.status != http.StatusOK {
			t.Errorf("%s, reads: %d %s", name, a.status, a.body)
		}
		if out, errs, code := r.command("sessions", "unlock", "-tenant", "acme", "-reason", "mended", "caller:agent:dev"); code != 0 {
			t.Errorf("%s: %d %s %s", name, code, out, errs)
		}
		if a := write(200, "Ann likes tea."); a.status != 200 {
			t.Errorf("%s, unlocked: %d %s", name, a.status, a.body)
		}
		r.stop()
	}
}

// closedFor is a policy of the operator's own.
func closedFor(user string) string {
	return fmt.Sprintf(`@id("own.closed") @detail("closed today") forbid (principal, action == Action::"learn", resource) when { context.user == %q };`, user)
}
