package app

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
)

// objectHistory lists the versions of an object, oldest first.
func (r *rig) objectHistory(id string) (texts []string, all []memproxy.Version) {
	r.t.Helper()
	k := memproxy.MemoryKey{Backend: "mem0", Kind: memproxy.TargetObject, ID: id}
	list := must.Get(r.car.ledger.History(r.t.Context(), k, 0, 0))(r.t)
	for i := len(list) - 1; i >= 0; i-- {
		v := must.Get(r.car.ledger.Version(r.t.Context(), k, list[i].Number))(r.t)
		texts, all = append(texts, string(v.Op)+" "+v.Text), append(all, v)
	}
	return texts, all
}

// Proves SYN-5, SYN-6, CARD-2: a change of an object other than a block (an agent's
// name, instructions, tags) is a version with the previous value in history, audit log
// and commands. A rollback uses the backend's own route and is subject to the rules in
// force.
func TestObjectsHaveVersions(t *testing.T) {
	t.Parallel()
	conf := strings.Replace(lettaConf, `policy: {dir: "DIR/policies"}`, fmt.Sprintf(`policy: {dir: %q}
review: {reviewers: [{id: eve, sha256: "%s", roles: [view, review, content], tenants: "*"}]}`, policyDir(t, `@id("own.system") @reason("field.forbidden") @detail("nobody changes what agents are told")
forbid (principal, action in Action::"write", resource) when { context.member == "agent.system" };`), sha(reviewToken)), 1)
	l := startLettaWith(t, writingAgent, conf, func(h http.Handler) http.Handler { return h })
	change := func(body string) {
		t.Helper()
		l.do("PATCH", "/v1/agents/"+l.agent, body, "Authorization", "Bearer "+devToken).want(t, 200)
	}
	change(`{"name":"second","tags":["one","two"]}`)
	change(`{"description":"helps Ann"}`)
	change(`{"description":"helps Ann"}`) // nothing changes
	var texts []string
	var all []memproxy.Version
	ring.Until(l.t, "three versions", func() bool { texts, all = l.objectHistory(l.agent); return len(texts) == 3 })
	if !strings.HasPrefix(texts[0], "seal ") || !strings.Contains(texts[0], `"name":"t"`) ||
		!strings.HasPrefix(texts[1], "update ") || !strings.Contains(texts[1], `"name":"second"`) || !strings.Contains(texts[1], `"tags":["one","two"]`) ||
		!strings.Contains(texts[2], `"description":"helps Ann"`) || all[1].Before != all[0].SHA256 || all[2].Before != all[1].SHA256 || all[1].Actor != "agent:dev" {
		t.Errorf("%q %+v", texts, all)
	}
	out, errs, code := l.command("memory", "history", "--backend", "mem0", l.agent)
	if code != 0 || strings.Count(out, "update") != 2 || !strings.Contains(out, all[1].SHA256) {
		t.Errorf("%d %s %s", code, out, errs)
	}
	ring.Until(l.t, "both versions on record", func() bool {
		out := l.audit("--memory", l.agent, "--json")
		return strings.Contains(out, all[1].SHA256) && strings.Contains(out, all[0].SHA256)
	})
	if out, errs, code := l.command("memory", "rollback", "--backend", "mem0", "--version", "1", "--reason", "it was right", l.agent); code != 0 {
		t.Fatalf("%d %s %s", code, out, errs)
	}
	if a := l.do("GET", "/v1/agents/"+l.agent, "", "Authorization", "Bearer "+devToken); !strings.Contains(a.body, `"name":"t"`) || strings.Contains(a.body, "helps Ann") || strings.Contains(a.body, `"two"`) {
		t.Errorf("%s", a.body)
	}
	texts, all = l.objectHistory(l.agent)
	if last := all[len(all)-1]; last.Op != memproxy.OpRollback || last.Actor != "eve" || !strings.Contains(texts[len(texts)-1], `"name":"t"`) {
		t.Errorf("%q", texts)
	}
	// A change behind the proxy is kept as a version, and not restored if the rules
	// refuse it.
	q := must.Get(http.NewRequest("PATCH", l.up+"/v1/agents/"+l.agent, strings.NewReader(fmt.Sprintf(`{"system":%q}`, poison))))(t)
	if a, err := http.DefaultClient.Do(q); err != nil || a.StatusCode != 200 {
		t.Fatal(err)
	}
	change(`{"name":"be kind"}`)
	ring.Until(l.t, "what was found", func() bool {
		texts, all = l.objectHistory(l.agent)
		return strings.Contains(texts[len(texts)-1], "be kind")
	})
	if found := texts[len(texts)-2]; !strings.Contains(found, "billing@evil.example") {
		t.Fatalf("%q", texts)
	}
	n := fmt.Sprint(all[len(all)-2].Number)
	q = must.Get(http.NewRequest("PATCH", l.up+"/v1/agents/"+l.agent, strings.NewReader(`{"system":"be kind"}`)))(t)
	if a, err := http.DefaultClient.Do(q); err != nil || a.StatusCode != 200 {
		t.Fatal(err)
	}
	if out, errs, code := l.command("memory", "rollback", "--backend", "mem0", "--version", n, "--reason", "x", l.agent); code == 0 || !strings.Contains(out+errs, "nobody changes what agents are told") {
		t.Errorf("it was put back: %s %s", out, errs)
	}
	if a := l.do("GET", "/v1/agents/"+l.agent, "", "Authorization", "Bearer "+devToken); strings.Contains(a.body, "evil.example") {
		t.Errorf("%s", a.body)
	}
}

// Proves SYN-5, CARD-2: a block's members besides its text, and an agent's attachments,
// have versions, too. Text and other members are rolled back separately.
func TestBlockMetadataAndAttachmentsHaveVersions(t *testing.T) {
	t.Parallel()
	l := lettaReviewed(t, writingAgent)
	human := l.letta.BlockID(l.agent, "human")
	dev := []string{"Authorization", "Bearer " + devToken}
	l.do("PATCH", "/v1/blocks/"+human, `{"description":"about Ann","metadata":{"team":"blue"}}`, dev...).want(t, 200)
	var texts []string
	ring.Until(l.t, "its versions", func() bool { texts, _ = l.objectHistory(human); return len(texts) == 2 })
	if want := `update {"description":"about Ann","label":"human","metadata":{"team":"blue"}}`; texts[1] != want {
		t.Errorf("%q, want %q", texts[1], want)
	}
	l.do("PATCH", "/v1/blocks/"+human, `{"value":"Ann sails"}`, dev...).want(t, 200)
	if out, errs, code := l.command("memory", "rollback", "--backend", "mem0", "--kind", "object", "--version", "1", "--reason", "it was right", human); code != 0 {
		t.Fatalf("%d %s %s", code, out, errs)
	}
	a := l.do("GET", "/v1/blocks/"+human, "", dev...)
	if a.status != 200 || strings.Contains(a.body, "about Ann") || strings.Contains(a.body, "blue") || !strings.Contains(a.body, "Ann sails") {
		t.Errorf("%d %s", a.status, a.body)
	}
	if out, _, code := l.command("memory", "history", "--backend", "mem0", human); code != 0 || !strings.Contains(out, "--kind object") {
		t.Errorf("%d %s", code, out)
	}
	l.do("PATCH", "/v1/agents/"+l.agent+"/core-memory/blocks/detach/"+human, "", dev...).want(t, 200)
	ring.Until(l.t, "the agent's references", func() bool {
		texts, _ = l.objectHistory(l.agent)
		return len(texts) == 2 && strings.Contains(texts[0], human) && !strings.Contains(texts[1], human)
	})
}

// Proves SYN-5, SYN-6: a self-edit of a block's label or description is a version with
// the previous value, like a PATCH. The unchanged text gets no version. A rollback
// restores it.
func TestSelfEditsOfLabelsHaveVersions(t *testing.T) {
	t.Parallel()
	l := lettaReviewed(t, writingAgent)
	human := l.letta.BlockID(l.agent, "human")
	if a := l.say(`CALL memory {"command":"rename","path":"/memories/human","description":"about Ann"}
THEN
CALL memory {"command":"rename","old_path":"/memories/human","new_path":"/memories/notes"}
THEN
SAY done`, ""); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	var texts []string
	var all []memproxy.Version
	ring.Until(l.t, "its versions", func() bool { texts, all = l.objectHistory(human); return len(texts) == 3 })
	want := []string{`seal {"description":"","label":"human"}`, `self_edit {"description":"about Ann","label":"human"}`, `self_edit {"description":"about Ann","label":"notes"}`}
	if !slices.Equal(texts, want) || all[1].Actor != "agent:dev" || all[2].Before != all[1].SHA256 {
		t.Errorf("%q %+v", texts, all)
	}
	if got := l.history(human); len(got) > 0 {
		t.Errorf("versions of a text that stayed: %q", got)
	}
	if out, errs, code := l.command("memory", "rollback", "--backend", "mem0", "--kind", "object", "--version", "1", "--reason", "it was right", human); code != 0 {
		t.Fatalf("%d %s %s", code, out, errs)
	}
	a := l.do("GET", "/v1/blocks/"+human, "", "Authorization", "Bearer "+devToken)
	if strings.Contains(a.body, "about Ann") || !strings.Contains(a.body, `"label":"human"`) {
		t.Errorf("%s", a.body)
	}
}

// Proves SYN-5: on Mem0, a metadata change is a version with the previous value, and a
// rollback restores it; the text is unchanged.
func TestMetadataHasVersions(t *testing.T) {
	t.Parallel()
	for _, hosted := range []bool{false, true} {
		r := start(t, screeningConf, "SCREENING", fmt.Sprintf(`review: {reviewers: [{id: eve, sha256: "%s", roles: [view, review, content], tenants: "*"}]}`, sha(reviewToken)))
		dev := []string{"Authorization", "Bearer " + devToken}
		add, one := "/memories", "/memories/"
		if hosted {
			add, one = "/v1/memories/", "/v1/memories/"
		}
		made := r.do("POST", add, `{"user_id":"ann","infer":false,"messages":[{"role":"user","content":"Ann sails."}],"metadata":{"team":"blue"}}`, dev...)
		_, rest, _ := strings.Cut(made.body, `"id":"`)
		id, _, _ := strings.Cut(rest, `"`)
		at := one + id
		if hosted {
			at += "/"
		}
		r.do("PUT", at, `{"text":"Ann sails.","metadata":{"team":"red"}}`, dev...).want(t, 200)
		var texts []string
		ring.Until(r.t, "its versions", func() bool { texts, _ = r.objectHistory(id); return len(texts) == 2 })
		if !strings.Contains(texts[0], `"team":"blue"`) || !strings.Contains(texts[1], `"team":"red"`) {
			t.Errorf("%q", texts)
		}
		r.does("memory", "rollback", "--backend", "mem0", "--kind", "object", "--version", "1", "--reason", "it was right", id)
		r.do("GET", at, "", dev...).want(t, 200).has(t, "blue", "Ann sails.")
	}
}
