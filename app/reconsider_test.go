package app

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/screen"
)

// enacts edits a policy or pack file, waits until it is in force, and re-evaluates held
// writes.
func (r *rig) enacts(file, text string) {
	r.t.Helper()
	before := r.car.rules.current().Version
	writeFile(r.t, file+".tmp", text)
	must.Do(r.t, os.Rename(file+".tmp", file))
	ring.Until(r.t, "other rules", func() bool { return r.car.rules.current().Version != before })
	r.once("reconsider", r.car.clock())
}

// Proves EDGE-11, MFW-10: when policies or the pack change, held writes are evaluated
// again; the verdict is recorded, shown to reviewers and sent in a signed notice. By
// default it settles nothing, and the reviewer decides.
func TestRuleChangesReevaluateHolds(t *testing.T) {
	t.Parallel()
	pack := t.TempDir()
	must.Do(t, os.CopyFS(pack, screen.Files()))
	w, dir := newTold(t), policyDir(t, holdingPolicy)
	r := start(t, screeningConf, workflow(w, fmt.Sprintf("screening: {pack: %q}", pack), dir)...)
	id := heldID(t, r.do("POST", "/v3/memories/add/", sailing(1)))
	today := func(want string, file, text string) {
		t.Helper()
		r.enacts(file, text)
		if h := r.heldWrite(id); h.Today != want || h.State != memproxy.HoldPending || len(h.Reasons) == 0 {
			t.Errorf("%+v, want that the current rules say %q", h, want)
		}
	}
	own := filepath.Join(dir, "own.cedar")
	today("allow", own, harmless)
	if out, code := r.as(reviewToken, "holds", "list"); code != 0 || !strings.Contains(out, "allow") {
		t.Errorf("%d %s", code, out)
	}
	if out, code := r.as(reviewToken, "holds", "show", id); code != 0 || !strings.Contains(out, "current rules") {
		t.Errorf("%d %s", code, out)
	}
	today("deny", own, closed)
	today("", own, holdingPolicy)
	today("allow", own, harmless)
	lexicon := must.Get(os.ReadFile(filepath.Join(pack, "lexicon.txt")))(t)
	today("deny", filepath.Join(pack, "lexicon.txt"), string(lexicon)+"\n\ntest.lake critical 950 overrides\n  \\blake number\\b\n")
	r.once("webhooks", time.Now())
	if n := len(w.of(memproxy.NoticeRuled, id)); n != 5 {
		t.Fatalf("%d notices", n)
	}
	if n := w.of(memproxy.NoticeRuled, id)[0]; !strings.Contains(n.Text, "current rules say allow") || strings.Contains(string(n.Data), "sails") || w.wrong() > 0 {
		t.Errorf("told %q of %s, %d badly signed", n.Text, n.Data, w.wrong())
	}
	r.does("holds", "approve", "--reason", "harmless", id)
	if h := r.heldWrite(id); h.Reviewer != "eve" || h.State != memproxy.HoldDone {
		t.Errorf("%+v", h)
	}
}

// Proves EDGE-11: with that setting changed rules settle held writes; those admitted do
// not count as confirmed by a person.
func TestRulesSettleHolds(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		how, policy string
		want        memproxy.HoldState
		event       string
	}{
		{"reject", closed, memproxy.HoldRejected, "FAILED"},
		{"reject", harmless, memproxy.HoldPending, "PENDING"},
		{"release", closed, memproxy.HoldRejected, "FAILED"},
		{"release", harmless, memproxy.HoldDone, "SUCCEEDED"},
	} {
		t.Run(tc.how+" "+tc.event, func(t *testing.T) {
			t.Parallel()
			w, dir := newTold(t), policyDir(t, holdingPolicy)
			conf := workflow(w, "", dir)
			conf[1] = strings.Replace(conf[1], "review:\n", "review:\n  reevaluate: "+tc.how+"\n", 1)
			r := start(t, screeningConf, conf...)
			id := heldID(t, r.do("POST", "/v3/memories/add/", sailing(1)))
			r.enacts(filepath.Join(dir, "own.cedar"), tc.policy)
			r.once("replays", time.Now())
			r.once("webhooks", time.Now())
			if event := r.do("GET", "/v1/event/"+id+"/", "").body; len(w.of(memproxy.NoticeRuled, id)) == 0 || r.heldWrite(id).State != tc.want || !strings.Contains(event, tc.event) {
				t.Errorf("%s, %s: %+v, event %s", tc.how, tc.want, r.heldWrite(id), event)
			}
			list := r.do("GET", "/memories?user_id=bob", "").body
			if strings.Contains(list, "sails") != (tc.want == memproxy.HoldDone) || strings.Contains(list, string(memproxy.HumanConfirmed)) {
				t.Errorf("%s, %s: %s", tc.how, tc.want, list)
			}
			if rec := r.audit("--type", "review"); strings.Contains(rec, "rules:") != (tc.want != memproxy.HoldPending) {
				t.Errorf("%s, %s: recorded %s", tc.how, tc.want, rec)
			}
		})
	}
}

// Proves EDGE-11: rules settle no held write if the audit record fails.
func TestRulesSettleOnlyWhatIsRecorded(t *testing.T) {
	t.Parallel()
	r := start(t, screeningConf, "SCREENING", "review: {reevaluate: release}")
	held := r.car.holdKeeper()
	h := memproxy.HeldWrite{ID: "h1", Backend: "mem0", Route: "mem0.server.add", Method: "POST", EscapedPath: "/memories", Principal: "agent:dev", Tenant: "acme", Trust: memproxy.TrustAuthenticated}
	content := memproxy.HoldContent{Body: []byte(noted("Ann likes tea.")), Header: memproxy.Header{"Content-Type": {"application/json"}}}
	if v := held.Rule(t.Context(), h, content); v.Policy == "" || !v.Release || v.Verdict.Stops() || !strings.Contains(r.audit("--type", "review"), "hold.approve") {
		t.Fatalf("%+v", v)
	}
	// The chain ends are anchored at the start, or otherwise by Close, which a closed
	// log refuses.
	must.Do(t, cmp.Or(r.car.checker.Anchor(t.Context()), r.car.audit.Close(t.Context())))
	if v := held.Rule(t.Context(), h, content); v.Policy != "" {
		t.Errorf("without a record: %+v", v)
	}
}
