package app_test

import (
	"fmt"
	"net/http"
	"path"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
)

const personaAgent = `{"name":"t","agent_type":"letta_v1_agent","tools":["archival_memory_insert","memory","memory_rethink","core_memory_append"],"memory_blocks":[{"label":"persona","value":"helper"}]}`

// lettaPeople is the sidecar in front of the embedded Letta, with an agent whose block
// "human" an author wrote through the proxy.
func lettaPeople(t *testing.T, author, text string) (l *lettaRig, block string) {
	t.Helper()
	return lettaPeopleWith(t, lettaConf, personaAgent, author, text)
}

func lettaPeopleWith(t *testing.T, conf, agent, author, text string) (l *lettaRig, block string) {
	t.Helper()
	l = startLettaWith(t, agent, withPeople(conf), func(h http.Handler) http.Handler { return h }, replacements()...)
	block = l.do("POST", "/v1/blocks/", fmt.Sprintf(`{"label":"human","value":%q}`, text), as(author)...).id(t)
	l.do("PATCH", "/v1/agents/"+l.agent+"/core-memory/blocks/attach/"+block, "", as(author)...).want(t, 200)
	return l, block
}

// Proves EDGE-5, TRL-5, EDGE-1: on every route that changes Letta's memories, including
// the agent's own tools, a less trusted author cannot replace the text of a more
// trusted one. The attempt is kept as dissent, and readers see the block as contested.
// Additions, and changes by the author, pass.
func TestAuthorityInLetta(t *testing.T) {
	ring.Long(t, "one request after another")
	t.Parallel()
	const ann, spy = "Ann likes green tea", "Ann likes coffee"
	call := func(tool, arguments string) string {
		return fmt.Sprintf(`{"input":%q}`, "CALL "+tool+" "+arguments+"\nTHEN\nSAY done")
	}
	const messages, blocks = "/v1/agents/AGENT/messages", "/v1/agents/AGENT/core-memory/blocks/"
	for name, tc := range map[string]struct {
		method, path, body string
		after              string // the text afterwards if the change passes
		dissents           bool   // the dissent records the new text
		adds               bool   // only adds, so it always passes
	}{
		"by the block's id":                  {"PATCH", "/v1/blocks/BLOCK", `{"value":"` + spy + `"}`, spy, true, false},
		"by the block's label":               {"PATCH", blocks + "human", `{"value":"` + spy + `"}`, spy, true, false},
		"by a replacement of its agent's":    {"POST", messages, call("memory_replace", `{"label":"human","old_string":"green tea","new_string":"coffee"}`), spy, true, false},
		"by a rewriting of its agent's":      {"POST", messages, call("memory_rethink", `{"label":"human","new_memory":"`+spy+`"}`), spy, true, false},
		"by a deletion of its agent's":       {"POST", messages, call("memory", `{"command":"delete","path":"/memories/human"}`), "", false, false},
		"by its detachment":                  {"PATCH", blocks + "detach/BLOCK", "", "", false, false},
		"by a list of its agent's blocks":    {"PATCH", "/v1/agents/AGENT", `{"block_ids":[]}`, "", false, false},
		"by a tool that is run from outside": {"POST", "/v1/agents/AGENT/tools/memory_rethink/run", `{"args":{"label":"human","new_memory":"` + spy + `"}}`, spy, true, false},
		"by an addition of its agent's":      {"POST", messages, call("memory_insert", `{"label":"human","new_string":"and plays go"}`), ann + "\nand plays go", false, true},
		"by an insertion into its archive":   {"POST", "/v1/agents/AGENT/archival-memory", `{"text":"` + spy + `"}`, ann, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			for _, c := range []struct {
				author, by string
				passes     bool
			}{{"human", "", tc.adds}, {"peer", "", tc.adds}, {"", "", true}, {"human", "human", true}, {"peer", "reviewer", true}} {
				l, block := lettaPeople(t, c.author, ann)
				must.Equal(t, l.letta.Value(l.agent, "human"), ann, "the block is not the agent's")
				a := l.do(tc.method, strings.NewReplacer("AGENT", l.agent, "BLOCK", block).Replace(tc.path), tc.body, as(c.by)...)
				expect.Equal(t, l.letta.Value(l.agent, "human"), map[bool]string{true: tc.after, false: ann}[c.passes], c.by, "changes what", c.author, "wrote", a.status, a.body)
				got := l.dissent(block)
				if c.passes {
					expect.Len(t, got, 0, c.by, "over", c.author, "dissent")
					continue
				}
				expect.Equal(t, len(got) == 1 && strings.HasPrefix(got[0], "agent:dev against ") && tc.dissents == strings.HasSuffix(got[0], "coffee"), true, c.by, "over", c.author, "dissent", got)
				expect.Equal(t, l.do("GET", "/v1/blocks/"+block, "", as("")...).header.Get("X-Memproxy-Contested"), block, "readers see as contested")
				expect.Text(t, l.audit("--type", "decision"), "whose word it was").Has("trust.authority", "written by ")
			}
		})
	}
}

// Proves TRL-3, TRL-5: a correction by an agent's own tool lowers the track record of
// the block's author.
func TestSelfEditsCountAsCorrections(t *testing.T) {
	t.Parallel()
	l, block := lettaPeople(t, "peer", "Ann likes tea")
	a := l.do("POST", "/v1/agents/"+l.agent+"/messages", `{"input":"CALL memory_rethink {\"label\":\"human\",\"new_memory\":\"Ann likes coffee\"}\nTHEN\nSAY done"}`, as("reviewer")...)
	must.Equal(t, l.letta.Value(l.agent, "human"), "Ann likes coffee", a.status, a.body)
	list, err := l.car.Ledger.Corrections(t.Context(), memproxy.MemoryKey{Backend: "mem0", Kind: memproxy.TargetMemory, ID: block})
	expect.Equal(t, err == nil && len(list) == 1 && list[0].Author == "agent:peer" && list[0].Corrector == "agent:reviewer" && strings.Contains(list[0].Reason, "memproxy-reviewer"), true, list, err)
	if track, err := l.car.Ledger.Track(t.Context(), "acme", "agent:peer"); err != nil || track.Corrections != 1 {
		t.Errorf("%+v %v", track, err)
	}
}

// Proves EDGE-5, EDGE-1: a compensated run that overwrites the text of a more trusted
// author is undone and kept as dissent; the author may change their own text.
func TestCompensatedRunsDoNotOverrule(t *testing.T) {
	t.Parallel()
	older := strings.Replace(olderAgent, `{"label":"human","value":"Ann"},`, "", 1)
	for author, want := range map[string]string{"human": "Ann likes tea", "": "Ann likes coffee"} {
		l, block := lettaPeopleWith(t, compensating, older, author, "Ann likes tea")
		a := l.do("POST", "/v1/agents/"+l.agent+"/messages", `{"input":"CALL memory_replace {\"label\":\"human\",\"old_string\":\"tea\",\"new_string\":\"coffee\"}\nTHEN\nSAY done"}`, as("")...)
		l.settled()
		expect.Equal(t, l.letta.Value(l.agent, "human"), want, author, "it says", a.status, a.body)
		expect.Len(t, l.dissent(block), map[string]int{"human": 1}[author], author, "dissent")
	}
}

// Proves EDGE-5, TRL-5: a file that another wrote is not deleted through a folder that it
// is not in. The server shows a file in its own folder only, and deletes it through any.
func TestFilesAreDeletedByTheirAuthors(t *testing.T) {
	t.Parallel()
	const folder, other = "source-00000001-1111-4111-8111-111111111111", "source-00000002-1111-4111-8111-111111111111"
	const file = "file-00000001-1111-4111-8111-111111111111"
	var deleted atomic.Int64
	up := serving(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out, status := fmt.Sprintf(`{"id":%q,"source_id":%q,"file_name":"notes.txt"}`, file, folder), 200
		switch base := path.Base(r.URL.Path); {
		case r.Method == http.MethodDelete:
			deleted.Add(1)
			out, status = "", 204
		case r.Method == http.MethodGet && base == file && !strings.Contains(r.URL.Path, folder):
			out, status = `{"detail":"not found in folder"}`, 404
		case base == folder, base == other:
			out = fmt.Sprintf(`{"id":%q,"name":"docs"}`, base)
		}
		replies(w, status, out)
	}))
	r := start(t, strings.Replace(withPeople(lettaConf), `policy: {dir: "DIR/policies"}`+"\n", "", 1), replacements("LETTA", up.URL)...)
	form := "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"notes.txt\"\r\nContent-Type: text/plain\r\n\r\nAnn likes tea\r\n--b--\r\n"
	r.do("POST", "/v1/folders/"+folder+"/upload", form, as("peer", "Content-Type", "multipart/form-data; boundary=b")...).want(t, 200)
	for _, in := range []string{folder, other} {
		r.do("DELETE", "/v1/folders/"+in+"/"+file, "", as("")...).want(t, 403)
		r.do("DELETE", "/v1/sources/"+in+"/"+file, "", as("")...).want(t, 403)
	}
	expect.Equal(t, deleted.Load(), 0)
	r.do("DELETE", "/v1/folders/"+other+"/"+file, "", as("peer")...).want(t, 204)
	r.do("DELETE", "/v1/folders/"+other+"/"+file, "", as("")...).want(t, 204) // it is gone, which the server says
}
