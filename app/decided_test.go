package app_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/screen"
)

// A memory that its author deleted is not shown by any route or version, to any role,
// although the backend keeps its history. After the configured time its content is
// destroyed, which is recorded.
//
// Proves EDGE-15, EDGE-8, SYN-9.
func TestDeletedMemoriesAreNotShown(t *testing.T) {
	t.Parallel()
	r := start(t, screeningConf, "SCREENING", fmt.Sprintf(`review: {reviewers: [{id: eve, sha256: "%s", roles: [view, review, content], tenants: "*"}]}`, sha(reviewToken)))
	id, kept := r.written("Ann fears spiders.", ""), r.written("Ann likes green tea.", "")
	r.do("PUT", "/memories/"+id, `{"text":"Ann fears wasps."}`).want(t, 200)
	key := memproxy.MemoryKey{Backend: "mem0", Kind: memproxy.TargetMemory, ID: id}
	versions := func() int { return len(must.Get(r.car.Ledger.History(context.Background(), key, 0, 10))(t)) }
	ring.Until(r.t, "its history", func() bool { return versions() == 2 })
	read := func() (all string) {
		t.Helper()
		for _, path := range []string{"/memories/" + id, "/memories/" + id + "/history", "/memories?user_id=ann"} {
			all += r.do("GET", path, "").body
		}
		all += r.do("POST", "/search", `{"query":"spiders wasps","filters":{"user_id":"ann"}}`).body
		for _, n := range []string{"1", "2"} {
			out, errs, _ := r.command("memory", "history", "--backend", "mem0", "--version", n, "--full", id)
			all += out + errs
		}
		for n := int64(1); n <= 2; n++ {
			v, _ := r.car.Ledger.Version(context.Background(), key, n)
			all += v.Text
		}
		return all
	}
	expect.Text(t, read(), "not to be read before").Has("spiders", "wasps")
	r.do("DELETE", "/memories/"+id, "").want(t, 200)
	expect.Text(t, read(), "read after it was deleted").Lacks("fears")
	ring.Until(r.t, "its end", func() bool { return versions() == 3 })
	expect.Text(t, read(), "read after it was deleted").Lacks("fears")
	_, errs, code := r.command("memory", "rollback", "--backend", "mem0", "--version", "1", "--reason", "back", id)
	expect.Equal(t, code != 0, true, "rolled back", errs)
	r.once("upkeep", time.Now().Add(29*24*time.Hour))
	expect.Equal(t, versions(), 3, "after 29 days")
	r.once("upkeep", time.Now().Add(31*24*time.Hour))
	list, err := r.car.Ledger.History(context.Background(), key, 0, 10)
	expect.Equal(t, err == nil && len(list) == 4 && list[0].Op == memproxy.OpPurge && list[2].Compacted && list[3].Compacted, true, "after the grace", list, err)
	ring.Until(r.t, "the record", func() bool { return strings.Contains(r.audit("--type", "purge", "--memory", id), `"op":"purge"`) })
	r.do("GET", "/memories/"+kept, "").want(t, 200).has(t, "green tea")
}

// enacts edits a policy or pack file, waits until it is in force, and re-evaluates held
// writes.
func (r *rig) enacts(file, text string) {
	r.t.Helper()
	before := r.rules()
	writeFile(r.t, file+".tmp", text)
	must.Do(r.t, os.Rename(file+".tmp", file))
	ring.Until(r.t, "other rules", func() bool { return r.rules() != before })
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
		h := r.heldWrite(id)
		expect.Equal(t, h.CurrentVerdict == want && h.State == memproxy.HoldPending && len(h.Reasons) != 0, true, h, "want that the current rules say", want)
	}
	own := filepath.Join(dir, "own.cedar")
	today("allow", own, harmless)
	for words, says := range map[string]string{"list": "allow", "show " + id: "current rules"} {
		out, code := r.as(reviewToken, append([]string{"holds"}, strings.Fields(words)...)...)
		expect.Equal(t, code, 0, out)
		expect.Text(t, out, words).Has(says)
	}
	today("deny", own, closed)
	today("", own, holdingPolicy)
	today("allow", own, harmless)
	lexicon := must.Get(os.ReadFile(filepath.Join(pack, "lexicon.txt")))(t)
	today("deny", filepath.Join(pack, "lexicon.txt"), string(lexicon)+"\n\ntest.lake critical 950 overrides\n  \\blake number\\b\n")
	r.once("webhooks", time.Now())
	must.Equal(t, len(w.of(memproxy.NoticeRuled, id)), 5)
	n := w.of(memproxy.NoticeRuled, id)[0]
	expect.Equal(t, strings.Contains(n.Text, "current rules say allow") && !strings.Contains(string(n.Data), "sails") && w.wrong() == 0, true, "told", n.Text, "of", n.Data)
	r.does("holds", "approve", "--reason", "harmless", id)
	expect.Equal(t, r.heldWrite(id).Reviewer, "eve")
	expect.Equal(t, r.heldWrite(id).State, memproxy.HoldDone)
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
			event := r.do("GET", "/v1/event/"+id+"/", "").body
			expect.Equal(t, len(w.of(memproxy.NoticeRuled, id)) != 0 && r.heldWrite(id).State == tc.want && strings.Contains(event, tc.event), true, tc.how, tc.want, "event", event)
			list := r.do("GET", "/memories?user_id=bob", "").body
			expect.Equal(t, strings.Contains(list, "sails") == (tc.want == memproxy.HoldDone) && !strings.Contains(list, string(memproxy.HumanConfirmed)), true, tc.how, tc.want, list)
			expect.Equal(t, strings.Contains(r.audit("--type", "review"), "rules:"), tc.want != memproxy.HoldPending, tc.how, tc.want, "is recorded as the rules'")
		})
	}
}

// Proves EDGE-11: rules settle no held write if the audit record fails.
func TestRulesSettleOnlyWhatIsRecorded(t *testing.T) {
	t.Parallel()
	r := start(t, screeningConf, "SCREENING", "review: {reevaluate: release}")
	h := memproxy.HeldWrite{Backend: "mem0", Route: "mem0.server.add", Method: "POST", EscapedPath: "/memories", Principal: "agent:dev", Tenant: "acme", Trust: memproxy.TrustAuthenticated}
	content := memproxy.HoldContent{Body: []byte(noted("Ann likes tea.")), Header: memproxy.Header{"Content-Type": {"application/json"}}}
	// settled reports whether rules settle a write that other rules held.
	settled := func(id string) bool {
		t.Helper()
		h.ID = id
		must.Get(r.car.Ledger.Holds.Put(t.Context(), h, content))(t)
		_ = r.car.Once(t.Context(), "reconsider", time.Now()) // without a record it fails
		return r.heldWrite(id).State != memproxy.HoldPending
	}
	must.Equal(t, settled("h1"), true, "settled")
	expect.Text(t, r.audit("--type", "review")).Has("hold.approve")
	must.Do(t, r.car.Audit.Close(t.Context()))
	expect.Equal(t, settled("h2"), false, "settled without a record")
	_ = r.car.Close(t.Context()) // a closed log refuses the end of a chain that has moved
	r.car = nil
}
