package app

import (
	"context"
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

// A memory that a reviewer approved or promoted stays visible whatever background
// validation, changed rules or packs, or a restart would decide; a different verdict is
// recorded and reported for another review. Once its text changes it is judged again.
// Settings are production defaults.
//
// Proves EDGE-15, MFW-10, DOL-3.
func TestReviewDecisionsPersist(t *testing.T) {
	t.Parallel()
	pack := t.TempDir()
	must.Do(t, os.CopyFS(pack, screen.Files()))
	w, dir := newTold(t), policyDir(t, holdingPolicy)
	r := start(t, screeningConf, workflow(w, fmt.Sprintf("screening: {pack: %q}", pack), dir)...)
	rule := func(name, words string) {
		t.Helper()
		path := filepath.Join(pack, "lexicon.txt")
		b := must.Get(os.ReadFile(path))(t)
		r.enacts(path, string(b)+fmt.Sprintf("\n\ntest.%s critical 950 overrides\n  \\b%s\\b\n", name, words))
	}
	later := func() {
		t.Helper()
		for range 3 {
			r.once("upkeep", time.Now())
		}
	}
	shown := func(what, user, text string, want bool) {
		t.Helper()
		if a := r.do("GET", "/memories?user_id="+user, ""); a.status != 200 || strings.Contains(a.body, text) != want {
			t.Errorf("%s: %d %s", what, a.status, a.body)
		}
	}

	// Bob's write is held and approved.
	id := heldID(t, r.do("POST", "/memories", `{"user_id":"bob","infer":false,"messages":[{"role":"user","content":"Bob sails on lake number 7."}]}`))
	r.does("holds", "approve", "--reason", "harmless", id)
	bobs := r.heldWrite(id).Result.Memories[0]
	ring.Until(r.t, "its state", func() bool { return r.stands(bobs).State == memproxy.StateValidated })
	// Ann's memory is quarantined by a later rule, which is reported, and promoted.
	cat := r.written("Ann keeps a tabby cat.", "")
	ring.Until(r.t, "its state", func() bool { return r.stands(cat).State == memproxy.StateUntrusted })
	later()
	rule("cat", "tabby cat")
	later()
	if st := r.stands(cat); st.State != memproxy.StateQuarantined {
		t.Fatalf("%+v", st)
	}
	shown("quarantined", "ann", "tabby", false)
	r.once("webhooks", time.Now())
	if n := len(w.of(memproxy.NoticeQuarantined, cat)); n != 1 {
		t.Fatalf("told %d times", n)
	}
	if n := w.of(memproxy.NoticeQuarantined, cat)[0]; strings.Contains(n.Text+string(n.Data), "tabby") || !strings.Contains(n.Text, "quarantined") {
		t.Errorf("told %q of %s", n.Text, n.Data)
	}
	r.does("memory", "promote", "--backend", "mem0", "--reason", "it is a cat", cat)
	stay := func(when string) {
		t.Helper()
		later()
		shown(when, "bob", "lake number 7", true)
		shown(when, "ann", "tabby", true)
		for _, id := range []string{bobs, cat} {
			if st := r.stands(id); st.State != memproxy.StateValidated || st.Attestation != memproxy.HumanConfirmed {
				t.Errorf("%s: %+v", when, st)
			}
		}
	}
	stay("in the background")
	rule("lake", "lake number")
	stay("under a new rule")
	r.enacts(filepath.Join(dir, "own.cedar"), harmless)
	if a := r.do("POST", "/memories", noted("Ann rows.")); strings.Contains(a.header.Get("X-Memproxy-Decision"), "hold") {
		t.Errorf("the bundle is not in force: %+v", a)
	}
	stay("under other policies")
	r.stop()
	r.run()
	stay("after a restart")
	if st := r.stands(bobs); st.CurrentRules != memproxy.StateQuarantined {
		t.Errorf("what the rules say is not noted: %+v", st)
	}
	if r.once("webhooks", time.Now()); len(w.of(memproxy.NoticeMemoryRuled, bobs)) == 0 {
		t.Error("what the rules say is not told")
	}
	if out, code := r.as(reviewToken, "memory", "trace", "--backend", "mem0", bobs); code != 0 || !strings.Contains(out, "current rules") {
		t.Errorf("%d %s", code, out)
	}
	// The decision does not apply to another text.
	r.do("PUT", "/memories/"+cat, `{"text":"Ann keeps a dog."}`).want(t, 200)
	ring.Until(r.t, "it is judged anew", func() bool { st := r.stands(cat); return st.State == memproxy.StateUntrusted && st.Reviewed == "" })
}

// A memory that its author deleted is not shown by any route or version, to any role,
// although the backend keeps its history. After the configured time its content is
// destroyed, which is recorded.
//
// Proves EDGE-15, EDGE-8.
func TestDeletedMemoriesAreNotShown(t *testing.T) {
	t.Parallel()
	r := start(t, screeningConf, "SCREENING", fmt.Sprintf(`review: {reviewers: [{id: eve, sha256: "%s", roles: [view, review, content], tenants: "*"}]}`, sha(reviewToken)))
	id, kept := r.written("Ann fears spiders.", ""), r.written("Ann likes green tea.", "")
	r.do("PUT", "/memories/"+id, `{"text":"Ann fears wasps."}`).want(t, 200)
	key := memproxy.MemoryKey{Backend: "mem0", Kind: memproxy.TargetMemory, ID: id}
	versions := func() (n int) {
		list := must.Get(r.car.ledger.History(context.Background(), key, 0, 10))(t)
		return len(list)
	}
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
			v, _ := r.car.ledger.Version(context.Background(), key, n)
			all += v.Text
		}
		return all
	}
	if all := read(); !strings.Contains(all, "spiders") || !strings.Contains(all, "wasps") {
		t.Fatalf("not to be read before: %s", all)
	}
	r.do("DELETE", "/memories/"+id, "").want(t, 200)
	if all := read(); strings.Contains(all, "fears") {
		t.Errorf("read after it was deleted: %s", all)
	}
	ring.Until(r.t, "its end", func() bool { return versions() == 3 })
	if all := read(); strings.Contains(all, "fears") {
		t.Errorf("read after it was deleted: %s", all)
	}
	if _, errs, code := r.command("memory", "rollback", "--backend", "mem0", "--version", "1", "--reason", "back", id); code == 0 {
		t.Errorf("rolled back: %s", errs)
	}
	for days, want := range map[int]int{29: 3} {
		if r.once("upkeep", time.Now().Add(time.Duration(days)*24*time.Hour)); versions() != want {
			t.Errorf("after %d days: %d versions", days, versions())
		}
	}
	r.once("upkeep", time.Now().Add(31*24*time.Hour))
	list, err := r.car.ledger.History(context.Background(), key, 0, 10)
	if err != nil || len(list) != 4 || list[0].Op != memproxy.OpPurge || !list[2].Compacted || !list[3].Compacted {
		t.Errorf("after the grace: %+v, %v", list, err)
	}
	ring.Until(r.t, "the record", func() bool { return strings.Contains(r.audit("--type", "purge", "--memory", id), `"op":"purge"`) })
	r.do("GET", "/memories/"+kept, "").want(t, 200).has(t, "green tea")
}
