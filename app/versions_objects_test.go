package app_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/letta"
	"github.com/memproxy/memproxy/adapters/mem0"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
)

// objectHistory lists the versions of an object, oldest first.
func (r *rig) objectHistory(id string) (texts []string, all []memproxy.Version) {
	r.t.Helper()
	k := memproxy.MemoryKey{Backend: "mem0", Kind: memproxy.TargetObject, ID: id}
	list := must.Get(r.car.Ledger.History(r.t.Context(), k, 0, 0))(r.t)
	for i := len(list) - 1; i >= 0; i-- {
		v := must.Get(r.car.Ledger.Version(r.t.Context(), k, list[i].Number))(r.t)
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
	l := startLettaWith(t, writingAgent, conf, plainly)
	change := func(body string) {
		t.Helper()
		l.do("PATCH", "/v1/agents/"+l.agent, body).want(t, 200)
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
	expect.Equal(t, code == 0 && strings.Count(out, "update") == 2 && strings.Contains(out, all[1].SHA256), true, code, out, errs)
	ring.Until(l.t, "both versions on record", func() bool {
		out := l.audit("--memory", l.agent)
		return strings.Contains(out, all[1].SHA256) && strings.Contains(out, all[0].SHA256)
	})
	l.does("memory", "rollback", "--backend", "mem0", "--version", "1", "--reason", "it was right", l.agent)
	l.do("GET", "/v1/agents/"+l.agent, "").has(t, `"name":"t"`).lacks(t, "helps Ann", `"two"`)
	texts, all = l.objectHistory(l.agent)
	last := all[len(all)-1]
	expect.Equal(t, last.Op == memproxy.OpRollback && last.Actor == "eve" && strings.Contains(texts[len(texts)-1], `"name":"t"`), true, texts)
	// A change behind the proxy is kept as a version, and not restored if the rules
	// refuse it.
	q := must.Get(http.NewRequest("PATCH", l.up+"/v1/agents/"+l.agent, strings.NewReader(fmt.Sprintf(`{"system":%q}`, poison))))(t)
	must.Equal(t, must.Get(http.DefaultClient.Do(q))(t).StatusCode, 200)
	change(`{"name":"be kind"}`)
	ring.Until(l.t, "what was found", func() bool {
		texts, all = l.objectHistory(l.agent)
		return strings.Contains(texts[len(texts)-1], "be kind")
	})
	expect.Text(t, texts[len(texts)-2], texts).Has("billing@evil.example")
	n := fmt.Sprint(all[len(all)-2].Number)
	q = must.Get(http.NewRequest("PATCH", l.up+"/v1/agents/"+l.agent, strings.NewReader(`{"system":"be kind"}`)))(t)
	must.Equal(t, must.Get(http.DefaultClient.Do(q))(t).StatusCode, 200)
	if out, errs, code := l.command("memory", "rollback", "--backend", "mem0", "--version", n, "--reason", "x", l.agent); code == 0 || !strings.Contains(out+errs, "nobody changes what agents are told") {
		t.Errorf("it was put back: %s %s", out, errs)
	}
	l.do("GET", "/v1/agents/"+l.agent, "").lacks(t, "evil.example")
}

// Proves SYN-5, CARD-2: a block's members besides its text, and an agent's attachments,
// have versions, too. Text and other members are rolled back separately.
func TestBlockMetadataAndAttachmentsHaveVersions(t *testing.T) {
	t.Parallel()
	l := lettaReviewed(t, writingAgent)
	human := l.letta.BlockID(l.agent, "human")
	l.do("PATCH", "/v1/blocks/"+human, `{"description":"about Ann","metadata":{"team":"blue"}}`).want(t, 200)
	var texts []string
	ring.Until(l.t, "its versions", func() bool { texts, _ = l.objectHistory(human); return len(texts) == 2 })
	expect.Equal(t, texts[1], `update {"description":"about Ann","label":"human","metadata":{"team":"blue"}}`)
	l.do("PATCH", "/v1/blocks/"+human, `{"value":"Ann sails"}`).want(t, 200)
	l.does("memory", "rollback", "--backend", "mem0", "--kind", "object", "--version", "1", "--reason", "it was right", human)
	l.do("GET", "/v1/blocks/"+human, "").want(t, 200).lacks(t, "about Ann", "blue").has(t, "Ann sails")
	l.does("memory", "history", "--backend", "mem0", human).has(t, "--kind object")
	l.do("PATCH", "/v1/agents/"+l.agent+"/core-memory/blocks/detach/"+human, "").want(t, 200)
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
	l.say(`CALL memory {"command":"rename","path":"/memories/human","description":"about Ann"}
THEN
CALL memory {"command":"rename","old_path":"/memories/human","new_path":"/memories/notes"}
THEN
SAY done`, "").want(t, 200)
	var texts []string
	var all []memproxy.Version
	ring.Until(l.t, "its versions", func() bool { texts, all = l.objectHistory(human); return len(texts) == 3 })
	want := []string{`seal {"description":"","label":"human"}`, `self_edit {"description":"about Ann","label":"human"}`, `self_edit {"description":"about Ann","label":"notes"}`}
	expect.Equal(t, slices.Equal(texts, want) && all[1].Actor == "agent:dev" && all[2].Before == all[1].SHA256, true, texts, all)
	expect.Len(t, l.history(human), 0, "versions of a text that stayed")
	l.does("memory", "rollback", "--backend", "mem0", "--kind", "object", "--version", "1", "--reason", "it was right", human)
	l.do("GET", "/v1/blocks/"+human, "").lacks(t, "about Ann").has(t, `"label":"human"`)
}

// Proves SYN-5: on Mem0, a metadata change is a version with the previous value, and a
// rollback restores it; the text is unchanged.
func TestMetadataHasVersions(t *testing.T) {
	t.Parallel()
	for _, hosted := range []bool{false, true} {
		r := start(t, screeningConf, "SCREENING", reviewers())
		add, one := "/memories", "/memories/"
		if hosted {
			add, one = "/v1/memories/", "/v1/memories/"
		}
		made := r.do("POST", add, `{"user_id":"ann","infer":false,"messages":[{"role":"user","content":"Ann sails."}],"metadata":{"team":"blue"}}`)
		id := field(made.body, `"id":"`)
		at := one + id
		if hosted {
			at += "/"
		}
		r.do("PUT", at, `{"text":"Ann sails.","metadata":{"team":"red"}}`).want(t, 200)
		var texts []string
		ring.Until(r.t, "its versions", func() bool { texts, _ = r.objectHistory(id); return len(texts) == 2 })
		expect.Text(t, texts[0], texts).Has(`"team":"blue"`)
		expect.Text(t, texts[1], texts).Has(`"team":"red"`)
		r.does("memory", "rollback", "--backend", "mem0", "--kind", "object", "--version", "1", "--reason", "it was right", id)
		r.do("GET", at, "").want(t, 200).has(t, "blue", "Ann sails.")
	}
}

// Reasons why a write route makes no version of a memory.
const (
	notRemembered = "what it writes is no text that an agent is shown as a memory of its own"
	untold        = "its answer does not name what came of it; a read that shows it binds it to its owner"
	notDecoded    = "it is refused"
	inLog         = "messages are the log of a conversation, not memories"
	wholeStore    = "it removes what holds memories, of which the backend does not tell which they were"
	olderOnly     = "a server of this kind has no such route any more, and its answer tells nothing"
)

// unversioned lists the write routes without versions, with the reason.
var unversioned = map[string]string{
	"mem0.v1.user.create": notRemembered, "mem0.v1.agent.create": notRemembered, "mem0.v1.app.create": notRemembered, "mem0.v1.run.create": notRemembered,
	"mem0.v1.feedback": notRemembered, "mem0.v3.add": untold, "mem0.rush.add": untold,
	"openmemory.add": notDecoded, "openmemory.memories": notDecoded, "openmemory.delete": notDecoded, "openmemory.backup": notDecoded,
	"mem0.v1.entity.delete": wholeStore,

	"letta.modify_internal_core_memory_block": olderOnly, "letta.create_internal_block": olderOnly, "letta.delete_internal_block": olderOnly,
	"letta.create_internal_template_agent": olderOnly, "letta.create_internal_template_block": olderOnly, "letta.create_internal_template_blocks_batch": olderOnly,
	"letta.delete_deployment": wholeStore, "letta.create_internal_template_group": notRemembered,
	"letta.import_agent": untold, "letta.delete_agent": wholeStore, "letta.modify_agent": notRemembered,
	"letta.attach_tool_to_agent": notRemembered, "letta.detach_tool_from_agent": notRemembered, "letta.modify_approval_for_tool": notRemembered,
	"letta.capture_messages": inLog, "letta.modify_message": inLog, "letta.reset_messages": inLog, "letta.modify_group_message": inLog, "letta.reset_group_messages": inLog,
	"letta.create_archive": notRemembered, "letta.delete_archive": wholeStore, "letta.modify_archive": notRemembered,
	"letta.create_passage_in_archive": untold, "letta.create_passages_in_archive": untold, "letta.delete_passage_from_archive": wholeStore, "letta.modify_passage": olderOnly,
	"letta.create_conversation": notRemembered, "letta.delete_conversation": inLog, "letta.update_conversation": notRemembered, "letta.fork_conversation": inLog,
	"letta.create_folder": notRemembered, "letta.delete_folder": wholeStore, "letta.modify_folder": notRemembered, "letta.upload_file_to_folder": untold, "letta.delete_file_from_folder": wholeStore,
	"letta.git": notDecoded, "letta.create_group": notRemembered, "letta.delete_group": notRemembered, "letta.modify_group": notRemembered,
	"letta.create_identity": notRemembered, "letta.upsert_identity": notRemembered, "letta.delete_identity": notRemembered, "letta.update_identity": notRemembered, "letta.upsert_properties_for_identity": notRemembered,
	"letta.delete_job": inLog, "letta.modify_feedback_for_step": inLog, "letta.update_step_transaction_id": inLog, "letta.delete_run": inLog, "letta.create_source": notRemembered, "letta.delete_source": wholeStore, "letta.modify_source": notRemembered,
	"letta.upload_file_to_source": untold, "letta.delete_file_from_source": wholeStore,
	"letta.cloud.repositories": notDecoded, "letta.cloud.repository": notDecoded, "letta.cloud.create_template": notRemembered, "letta.cloud.agents_from_template": untold,
	"letta.cloud.delete_template": notRemembered, "letta.cloud.change_template": notRemembered,
}

// exchange is one write and the resulting versions of a memory.
type exchange struct {
	method, path, body string
	id                 string
	want               []string
}

const oneID, twoID = "7a5bd6d6-3f0a-4c58-9f0e-0123456789ab", "8b6ce7e7-4f1b-4d69-8a1f-123456789abc"

// versioned are the write routes that make versions.
func versioned() map[string]exchange {
	add := `{"user_id":"ann","infer":false,"messages":[{"role":"user","content":"tea"}]}`
	seal, update, gone := `seal "old" before "" by `, `update "tea" before "old" by agent:dev`, `delete "" before "old" by agent:dev`
	const block, passage, agent = "block-00000000-0000-4000-8000-000000000001", "passage-00000000-0000-4000-8000-000000000002", "agent-00000000-0000-4000-8000-000000000003"
	return map[string]exchange{
		"mem0.v1.add":               {"POST", "/v1/memories/", add, oneID, []string{`write "tea" before "" by agent:dev`}},
		"mem0.v1.update":            {"PUT", "/v1/memories/" + oneID + "/", `{"text":"tea"}`, oneID, []string{seal, update}},
		"mem0.v1.delete":            {"DELETE", "/v1/memories/" + oneID + "/", "", oneID, []string{seal, gone}},
		"mem0.v1.delete.all":        {"DELETE", "/v1/memories/?user_id=ann", "", oneID, []string{`write "tea" before "" by agent:dev`, `delete "" before "tea" by agent:dev`}},
		"mem0.v1.batch.update":      {"PUT", "/v1/batch/", `{"memories":[{"memory_id":"` + oneID + `","text":"tea"}]}`, oneID, []string{seal, update}},
		"mem0.v1.batch.delete":      {"DELETE", "/v1/batch/", `{"memories":[{"memory_id":"` + oneID + `"},{"memory_id":"` + twoID + `"}]}`, twoID, []string{seal, gone}},
		"mem0.v2.entity.delete":     {"DELETE", "/v2/entities/user/ann/", "", oneID, []string{`write "tea" before "" by agent:dev`, `delete "" before "tea" by agent:dev`}},
		"mem0.server.add":           {"POST", "/memories", add, oneID, []string{`write "tea" before "" by agent:dev`}},
		"mem0.server.update":        {"PUT", "/memories/" + oneID, `{"text":"tea"}`, oneID, []string{seal, update}},
		"mem0.server.delete":        {"DELETE", "/memories/" + oneID, "", oneID, []string{seal, gone}},
		"mem0.server.delete.all":    {"DELETE", "/memories?user_id=ann", "", oneID, []string{`write "tea" before "" by agent:dev`, `delete "" before "tea" by agent:dev`}},
		"mem0.server.entity.delete": {"DELETE", "/entities/user/ann", "", oneID, []string{`write "tea" before "" by agent:dev`, `delete "" before "tea" by agent:dev`}},

		"letta.create_agent":             {"POST", "/v1/agents/", `{"name":"t","memory_blocks":[{"label":"human","value":"tea"}]}`, block, []string{`write "tea" before "" by agent:dev`}},
		"letta.create_block":             {"POST", "/v1/blocks/", `{"label":"human","value":"tea"}`, block, []string{`write "tea" before "" by agent:dev`}},
		"letta.modify_block":             {"PATCH", "/v1/blocks/" + block, `{"value":"tea"}`, block, []string{seal, update}},
		"letta.delete_block":             {"DELETE", "/v1/blocks/" + block, "", block, []string{seal, gone}},
		"letta.modify_core_memory_block": {"PATCH", "/v1/agents/" + agent + "/core-memory/blocks/human", `{"value":"tea"}`, block, []string{seal, update}},
		"letta.create_passage":           {"POST", "/v1/agents/" + agent + "/archival-memory", `{"text":"tea"}`, passage, []string{`write "tea" before "" by agent:dev`}},
		"letta.delete_passage":           {"DELETE", "/v1/agents/" + agent + "/archival-memory/" + passage, "", passage, []string{seal, gone}},
	}
}

// oneMemory is a backend with a single memory, whose text is "old", and "tea" after a
// write.
func oneMemory(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "application/json")
	path := strings.TrimSuffix(r.URL.Path, "/")
	last := path[strings.LastIndexByte(path, '/')+1:]
	const block = `{"id":"block-00000000-0000-4000-8000-000000000001","label":"human","value":%q,"limit":5000}`
	const passage = `{"id":"passage-00000000-0000-4000-8000-000000000002","text":%q,"agent_id":"agent-00000000-0000-4000-8000-000000000003"}`
	text := "tea"
	if r.Method == "GET" {
		text = "old"
	}
	switch {
	case strings.Contains(path, "/blocks"):
		fmt.Fprintf(w, block, text)
	case strings.Contains(path, "/archival-memory"):
		fmt.Fprintf(w, "["+passage+"]", text)
	case strings.HasPrefix(path, "/v1/agents"):
		fmt.Fprintf(w, `{"id":"agent-00000000-0000-4000-8000-000000000003","name":"t","memory":{"blocks":[`+block+`]},"blocks":[]}`, text)
	case r.Method == "POST" && strings.HasPrefix(path, "/v1"):
		fmt.Fprintf(w, `[{"id":%q,"event":"ADD","data":{"memory":"tea"},"memory":"tea"}]`, oneID)
	case r.Method == "POST":
		fmt.Fprintf(w, `{"results":[{"id":%q,"event":"ADD","memory":"tea"}]}`, oneID)
	case r.Method == "GET" && (last == oneID || last == twoID):
		fmt.Fprintf(w, `{"id":%q,"memory":"old","user_id":"ann","metadata":null}`, last)
	case r.Method == "PUT" && last != "batch":
		fmt.Fprintf(w, `{"id":%q,"memory":"tea","text":"tea","user_id":"ann"}`, last)
	default:
		fmt.Fprint(w, `{"message":"done"}`)
	}
}

// Every route of both backends that adds, changes or deletes memories makes a version
// with the previous text, or is listed with the reason why not. A new route without a
// row fails the test.
//
// Proves SYN-5.
func TestEveryWriteRouteMakesVersions(t *testing.T) {
	ring.Long(t, "one request after another")
	t.Parallel()
	m := must.Get(mem0.New(mem0.Options{}))(t)
	l := must.Get(letta.New(letta.Options{}))(t)
	cases, known := versioned(), map[string]bool{}
	each := func(at string, rt memproxy.Route) {
		if rt.Pass || !slices.Contains([]memproxy.Kind{memproxy.Learn, memproxy.Correct, memproxy.Forget}, rt.Kind) {
			return
		}
		known[rt.ID] = true
		why, without := unversioned[rt.ID]
		c, with := cases[rt.ID]
		switch {
		case without == with:
			t.Errorf("%s (%s) must be in one of the two tables", rt.ID, at)
		case without && why == "":
			t.Errorf("%s makes no version, and nobody says why", rt.ID)
		case with:
			t.Run(rt.ID, func(t *testing.T) { c.run(t, rt.ID) })
		}
	}
	for at, rt := range m.Routes() {
		each(at, rt)
	}
	for at, rt := range l.Routes() {
		each(at, rt)
	}
	for id := range cases {
		expect.Equal(t, known[id], true, id, "is no route")
	}
	for id := range unversioned {
		expect.Equal(t, known[id], true, id, "is no route")
	}
}

func (c exchange) run(t *testing.T, id string) {
	var seen sync.Map
	conf := strings.Replace(lettaConf, "acts_as: \"*\"", `acts_as: "*", roles: [memproxy-reviewer, memproxy-admin]`, 1)
	kind := "letta"
	if strings.HasPrefix(id, "mem0.") {
		kind = "mem0"
	}
	l := startLettaWith(t, someAgent, conf, answering(func(w http.ResponseWriter, r *http.Request) bool {
		seen.Store(r.Method, true)
		oneMemory(w, r)
		return true
	}), "kind: letta", "kind: "+kind)
	if strings.HasPrefix(c.want[0], "write") && len(c.want) > 1 { // one memory is swept
		l.do("POST", "/memories", `{"user_id":"ann","infer":false,"messages":[{"role":"user","content":"tea"}]}`).want(t, 200)
		l.remembers(c.id, c.want[:1]...)
	}
	l.do(c.method, c.path, c.body).want(t, 200)
	_, reached := seen.Load(c.method)
	must.Equal(t, reached, true, "it did not reach the backend")
	l.remembers(c.id, c.want...)
}
