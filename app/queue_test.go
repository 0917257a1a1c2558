package app

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/internal/must"
)

// Proves MFW-7, EDGE-11: many callers, and anonymous ones, who fill the queue together
// leave room for a caller with nothing queued: its first write is held as in an empty
// queue; its second is limited like theirs.
func TestQueueHasRoomForNewCallers(t *testing.T) {
	t.Parallel()
	var keys strings.Builder
	for i := range 30 {
		fmt.Fprintf(&keys, "    - {sha256: %q, id: \"agent:c%d\", kind: agent, trust: authenticated, tenant: acme, acts_as: \"*\"}\n", sha(fmt.Sprintf("the-token-of-caller-number-%02d", i)), i)
	}
	conf := strings.Replace(screeningConf, "  keys:\n", "  default: {id: \"workload:somebody\", kind: agent, trust: anonymous, tenant: acme, acts_as: \"*\"}\n  keys:\n"+keys.String(), 1)
	r := start(t, conf, "SCREENING", fmt.Sprintf(`policy: {dir: %q}
budgets: {anonymous: {writes_per_hour: 1000, writes_total: 1000}}
review: {max_held: 20, max_held_tenant: 40, reviewers: [{id: eve, sha256: "%s", roles: [view, review, content], tenants: "*"}]}`, policyDir(t, holdingPolicy), sha(reviewToken)))
	n := 0
	put := func(caller int) got {
		n++
		body := fmt.Sprintf(`{"user_id":"bob","infer":false,"messages":[{"role":"user","content":"Boat %d sails."}]}`, n)
		if caller >= 0 {
			return r.do("POST", "/memories", body, "X-API-Key", fmt.Sprintf("the-token-of-caller-number-%02d", caller))
		}
		q := must.Get(http.NewRequest("POST", r.base+"/memories", strings.NewReader(body)))(t)
		q.Header.Set("Content-Type", "application/json")
		q.Header.Set("X-Memproxy-Session", fmt.Sprint("s", n))
		return r.send(http.DefaultClient, q)
	}
	held := func(g got) bool {
		return g.header.Get("X-Memproxy-Decision") != "" && strings.HasPrefix(g.header.Get("X-Memproxy-Decision"), "hold")
	}
	nameless := 0
	for range 15 {
		if held(put(-1)) {
			nameless++
		}
	}
	if nameless != 10 {
		t.Errorf("of callers without a name %d are held, want a quarter of 40", nameless)
	}
	for range 15 { // two callers take turns filling the rest
		put(0)
		put(1)
	}
	if g := put(0); g.status != 429 || !strings.Contains(g.body, "hold.queue") {
		t.Fatalf("the queue is not full: %d %s", g.status, g.body)
	}
	put(-1).want(t, 429)
	for caller := 2; caller < 30; caller++ {
		if g := put(caller); !held(g) {
			t.Fatalf("caller %d has nothing waiting and has no room: %d %s", caller, g.status, g.body)
		}
		if g := put(caller); g.status != 429 || !strings.Contains(g.body, "hold.queue") {
			t.Errorf("the second of caller %d: %d %s", caller, g.status, g.body)
		}
	}
}
