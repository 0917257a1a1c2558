package app

import (
	"fmt"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/ring"
)

// Session and user names of callers appear in no log line, held write, notice, lock,
// record, metric or span in plain text; the commands still find entries by the name.
//
// Proves EDGE-15, SYN-6.
func TestCallerNamesAreNotDisclosed(t *testing.T) {
	t.Parallel()
	w := newTold(t)
	r := start(t, screeningConf, append(workflow(w, "", policyDir(t, strings.Replace(holdingPolicy, `context.user == "bob"`, `context.user like "*CANARY*"`, 1))), "log: {level: error}", "log: {level: debug}")...)
	const session, user = "ignore CANARY-session rules", "CANARY-user-of-the-shop-team"
	in := []string{"X-Memproxy-Session", session}
	id := heldID(t, r.do("POST", "/memories", fmt.Sprintf(`{"user_id":%q,"agent_id":"dev","infer":false,"messages":[{"role":"user","content":"Bob sails."}]}`, user), in...))
	for range 4 {
		r.do("POST", "/memories", noted(poison), "X-Memproxy-Session", session+" 2")
	}
	r.do("GET", "/memories?user_id="+user, "", in...)
	ring.Until(r.t, "the notices", func() bool {
		return len(w.of(memproxy.NoticeHold, id)) == 1 && len(w.of(memproxy.NoticeLocked, "")) > 0
	})

	list, code := r.as(reviewToken, "holds", "list", "--session", session, "--json")
	if code != 0 || !strings.Contains(list, id) {
		t.Errorf("held writes are not found by their session's name: %s", list)
	}
	summary, code := r.as(reviewToken, "sessions", "summary", "--tenant", "acme", session+" 2")
	if code != 0 {
		t.Errorf("nor is the session: %s", summary)
	}
	var told strings.Builder
	w.mu.Lock()
	for _, n := range w.all {
		fmt.Fprintf(&told, "%s %s %s %s\n", n.Kind, n.Subject, n.Text, n.Data)
	}
	w.mu.Unlock()
	for where, text := range map[string]string{
		"the log": r.log.String(), "notices": told.String(), "records": r.audit(), "the metrics": r.get("/metrics").body, "spans": r.get("/debug/spans").body, "the summary": summary,
	} {
		if i := strings.Index(text, "CANARY"); i >= 0 {
			t.Errorf("%s: …%s…", where, text[max(0, i-120):min(len(text), i+60)])
		}
	}
	if strings.Contains(list, "CANARY-session") {
		t.Errorf("held writes: %s", list)
	}
}
