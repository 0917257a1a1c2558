package app_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/ledger"
)

const reviewed = `policy: {dir: "DIR/policies"}
review: {reviewers: [{id: eve, sha256: "%s", roles: [view, review, content], tenants: "*"}]}`

// writingAgent has more memory tools.
var writingAgent = strings.Replace(someAgent, `"letta_v1_agent"`, `"letta_v1_agent","tools":["archival_memory_insert","memory","memory_rethink","core_memory_append"]`, 1)

// lettaReviewed is the sidecar in front of the embedded Letta, with a reviewer.
func lettaReviewed(t *testing.T, agent string) *lettaRig {
	t.Helper()
	conf := strings.Replace(lettaConf, `policy: {dir: "DIR/policies"}`, fmt.Sprintf(reviewed, sha(reviewToken)), 1)
	return startLettaWith(t, agent, conf, plainly)
}

// history lists a memory's versions, oldest first: operation, text and previous text.
func (r *rig) history(id string) []string {
	r.t.Helper()
	ctx := context.Background()
	k := memproxy.MemoryKey{Backend: "mem0", Kind: memproxy.TargetMemory, ID: id}
	list := must.Get(r.car.Ledger.History(ctx, k, 0, 0))(r.t)
	texts, out := map[string]string{}, []string{}
	slices.Reverse(list)
	for _, v := range list {
		full, err := r.car.Ledger.Version(ctx, k, v.Number)
		if errors.Is(err, memproxy.ErrGone) { // a deleted text is known by its hash only
			for _, text := range [...]string{"old", "tea", "likes tea", "Ann"} {
				if sha(text) == v.SHA256 {
					full.Text, err = text, nil
				}
			}
		}
		must.Do(r.t, err)
		texts[v.SHA256] = full.Text
		before, known := texts[v.Before]
		if v.Before != "" && !known {
			before = "?"
		}
		out = append(out, fmt.Sprintf("%s %q before %q by %s", v.Op, full.Text, before, v.Actor))
	}
	return out
}

// remembers waits for a memory's history.
func (r *rig) remembers(id string, want ...string) {
	r.t.Helper()
	var got []string
	defer func() {
		expect.List(r.t, got, want, "the history of", id)
	}()
	ring.Until(r.t, "the history", func() bool {
		got = r.history(id)
		return len(got) >= len(want)
	})
}

// Proves SYN-5: a self-edit is a version with the whole text before and after. Each of
// several calls in one step has its own; denied and failed calls have none. A rollback
// restores the exact earlier text and is a version.
func TestSelfEditsAreVersions(t *testing.T) {
	t.Parallel()
	l := lettaReviewed(t, writingAgent)
	human := l.letta.BlockID(l.agent, "human")
	l.say(`CALL memory_insert {"label":"human","new_string":"likes tea"}
CALL memory_replace {"label":"persona","old_string":"helper","new_string":"spy"}
CALL memory_insert {"label":"human","new_string":"plays go"}
THEN
CALL memory_replace {"label":"human","old_string":"nobody","new_string":"x"}
THEN
CALL memory_rethink {"label":"human","new_memory":"Ann plays chess."}
THEN
SAY done`, "").want(t, 200)
	edits := []string{
		`seal "Ann" before "" by `,
		`self_edit "Ann\nlikes tea" before "Ann" by agent:dev`,
		`self_edit "Ann\nlikes tea\nplays go" before "Ann\nlikes tea" by agent:dev`,
		`self_edit "Ann plays chess." before "Ann\nlikes tea\nplays go" by agent:dev`,
	}
	l.remembers(human, edits...)
	l.remembers(l.letta.BlockID(l.agent, "persona"))
	first := sha("Ann\nlikes tea")
	l.does("memory", "rollback", "--backend", "mem0", "--sha256", first, "--reason", "it was right", human)
	l.blocks("Ann\nlikes tea", "helper")
	l.remembers(human, append(edits, `rollback "Ann\nlikes tea" before "Ann plays chess." by eve`)...)
}

// Proves SYN-5, EDGE-5: a block keeps its label in a rollback of its text, so a text that
// was written under another label, and held to the rules for that one, is not restored.
func TestRollbacksKeepToTheirLabel(t *testing.T) {
	t.Parallel()
	l := lettaReviewed(t, writingAgent)
	human := l.letta.BlockID(l.agent, "human")
	l.say("CALL memory_insert {\"label\":\"human\",\"new_string\":\"likes tea\"}\nTHEN\nSAY done", "").want(t, 200)
	l.remembers(human, `seal "Ann" before "" by `, `self_edit "Ann\nlikes tea" before "Ann" by agent:dev`)
	back := func(label string) (string, int) {
		t.Helper()
		l.behind("PATCH", "/v1/blocks/"+human, `{"label":"`+label+`"}`)
		out, errs, code := l.command("memory", "rollback", "--backend", "mem0", "--sha256", sha("Ann"), "--reason", "it was right", human)
		return out + errs, code
	}
	said, code := back("preferences")
	expect.Equal(t, code != 0 && strings.Contains(said, "its label was changed"), true, code, said)
	expect.Equal(t, l.letta.Value(l.agent, "preferences"), "Ann\nlikes tea")
	if said, code = back("human"); code != 0 {
		t.Errorf("%d %s", code, said)
	}
	l.blocks("Ann", "helper")
}

// Proves SYN-5, DOL-5: a passage that an agent archives has a version, an owner and a
// state.
func TestAgentArchivesHaveVersions(t *testing.T) {
	t.Parallel()
	l := lettaReviewed(t, writingAgent)
	l.say(`CALL archival_memory_insert {"content":"The build takes ten minutes."}
CALL archival_memory_insert {"content":"Ann plays go."}
THEN
SAY done`, "").want(t, 200)
	ids := l.letta.PassageIDs(l.agent)
	must.Len(t, ids, 2)
	l.remembers(ids[0], `self_edit "The build takes ten minutes." before "" by agent:dev`)
	l.remembers(ids[1], `self_edit "Ann plays go." before "" by agent:dev`)
	ring.Until(l.t, "their states", func() bool { return l.statusOf(ids[0]).State == memproxy.StateUntrusted })
	owners := must.Get(ledger.ByID(t.Context(), l.car.Ledger, "mem0", memproxy.TargetMemory, ids...))(t)
	expect.Equal(t, len(owners) == 2 && owners[ids[0]].Owner.Actor == "agent:dev" && owners[ids[0]].Owner.SHA256 == sha("The build takes ten minutes."), true, owners)
}

// Proves SYN-5: a change behind memproxy is recorded when the agent next edits the
// block, so that its text is not lost.
func TestChangesBehindSelfEditsAreKept(t *testing.T) {
	t.Parallel()
	l := lettaReviewed(t, writingAgent)
	human := l.letta.BlockID(l.agent, "human")
	insert := func(text string) {
		t.Helper()
		l.say(fmt.Sprintf("CALL memory_insert {\"label\":\"human\",\"new_string\":%q}\nTHEN\nSAY done", text), "").want(t, 200)
	}
	insert("likes tea")
	l.remembers(human, `seal "Ann" before "" by `, `self_edit "Ann\nlikes tea" before "Ann" by agent:dev`)
	l.letta.SetValue(l.agent, "human", "Bob")
	insert("sails")
	l.remembers(human, `seal "Ann" before "" by `, `self_edit "Ann\nlikes tea" before "Ann" by agent:dev`,
		`seal "Bob" before "Ann\nlikes tea" by `, `self_edit "Bob\nsails" before "Bob" by agent:dev`)
}

// Proves SYN-5, EDGE-15: a memory tool run through the API in place of the agent makes a
// version, too: one, of what it did. One that fails, which the server answers with 200,
// makes none.
func TestToolsFromOutsideAreVersions(t *testing.T) {
	t.Parallel()
	l := lettaReviewed(t, writingAgent)
	human := l.letta.BlockID(l.agent, "human")
	run := func(tool, args, status string) {
		t.Helper()
		l.do("POST", "/v1/agents/"+l.agent+"/tools/"+tool+"/run", `{"args":{"label":"human",`+args+`}}`).want(t, 200).has(t, `"status":"`+status+`"`)
	}
	run("memory_replace", `"old_string":"Bob","new_string":"Carol"`, "error")
	run("memory_insert", `"new_string":"likes tea"`, "success")
	versions := []string{`seal "Ann" before "" by `, `self_edit "Ann\nlikes tea" before "Ann" by agent:dev`}
	l.remembers(human, versions...)
	run("memory_replace", `"old_string":"Bob","new_string":"Carol"`, "error")
	run("memory_replace", `"old_string":"tea","new_string":"coffee"`, "success")
	l.remembers(human, append(versions, `self_edit "Ann\nlikes coffee" before "Ann\nlikes tea" by agent:dev`)...)
}

// Proves EDGE-4: the receipt of a write with metadata of the client's own does not name
// its memory as changed, since the receipt has what the stamp was written with.
func TestReceiptsNameNoUnchangedMemory(t *testing.T) {
	t.Parallel()
	r := start(t, screeningConf, "SCREENING", "")
	a := r.do("POST", "/v3/memories/add/", `{"user_id":"ann","agent_id":"dev","infer":false,"metadata":{"topic":"tea","n":1.50},"messages":[{"role":"user","content":"Ann likes green tea."}]}`)
	event := field(a.body, `"event_id":"`)
	for _, path := range [...]string{"/v1/event/" + event + "/", "/v1/events/"} {
		r.do("GET", path, "").want(t, 200, path).has(t, `"topic"`).carries(t, "X-Memproxy-Unverified", "")
	}
}

// Proves SYN-5, EDGE-3: an addition whose answer names no memory gets its version, and its
// author: what the backend's model extracts after the answer before any read, and what was
// added as it is when a read shows it, whoever reads.
func TestAsyncMemoriesHaveVersions(t *testing.T) {
	t.Parallel()
	const all, wrote = `{"filters":{"user_id":"ann"}}`, `write "Ann likes green tea." before "" by agent:dev`
	for _, extracted := range []bool{true, false} {
		r, body, id := start(t, screeningConf, "SCREENING", ""), noted("Ann likes green tea."), ""
		if extracted {
			body = strings.Replace(body, `"infer":false`, `"agent_id":"dev"`, 1)
		}
		r.do("POST", "/v3/memories/add/", body).want(t, 200).has(t, "event_id")
		ring.Until(t, "the memory", func() bool {
			if id = field(r.audit("--type", "version"), `"memory":"`); !extracted {
				id = field(r.do("POST", "/v3/memories/", all).body, `"id":"`)
			}
			return id != ""
		})
		r.remembers(id, wrote)
		for range 2 {
			r.do("POST", "/v3/memories/", all).want(t, 200).has(t, id)
		}
		r.remembers(id, wrote)
		r.do("PUT", "/v1/memories/"+id+"/", `{"text":"Ann likes coffee."}`).want(t, 200)
		r.remembers(id, wrote, `update "Ann likes coffee." before "Ann likes green tea." by agent:dev`)
	}
}

// Proves SYN-5, MFW-1: the version of a write that waited for review has the score of its
// stamp, also if the backend made the memory after the answer.
func TestVersionsOfReviewedWritesHaveTheirScore(t *testing.T) {
	t.Parallel()
	for path, body := range map[string]string{
		"/memories":         noted(suspicious),
		"/v3/memories/add/": `{"user_id":"ann","agent_id":"dev","messages":[{"role":"user","content":"` + suspicious + `"}]}`,
	} {
		r := start(t, screeningConf, "SCREENING", reviewers())
		hold := heldID(t, r.do("POST", path, body))
		r.does("holds", "approve", "--reason", "it is our rule", hold)
		id := ""
		ring.Until(t, "the version", func() bool {
			id = field(r.audit("--type", "version"), `"memory":"`)
			return id != ""
		})
		waited := r.heldWrite(hold)
		k := memproxy.MemoryKey{Backend: "mem0", Kind: memproxy.TargetMemory, ID: id}
		v := must.Get(r.car.Ledger.Version(t.Context(), k, 1))(t)
		expect.Equal(t, v.Score != 0 && v.Score == waited.Score, true, path, "the version's score is", v.Score, "the held write's", waited.Score)
	}
}

// putBack atomically replaces a directory by an earlier copy, by rename. A running log
// may create the directory anew for a pending record; that one is replaced as well.
// There are no more such records than writes.
func putBack(t *testing.T, copied, dir string) {
	t.Helper()
	staged := dir + ".earlier"
	must.Do(t, os.CopyFS(staged, os.DirFS(copied)))
	var err error
	for i := range 10 {
		gone := fmt.Sprintf("%s.replaced-%d", dir, i)
		if err = os.Rename(dir, gone); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		if err = os.Rename(staged, dir); err == nil {
			must.Do(t, os.RemoveAll(gone))
			return
		}
	}
	t.Fatal(err)
}

// Proves CARD-4, CARD-7: restoring stores from an old copy has the documented effect.
// If the audit directory is replaced while the sidecar runs, requests get 503 and no
// record is lost, since it is written again. If it is replaced while the sidecar is
// stopped, alone or with the ledger, only an external checkpoint detects it.
func TestAuditLogPutBack(t *testing.T) {
	t.Parallel()
	for what, tc := range map[string]struct {
		running bool
		ledger  bool
		cut     bool
	}{
		"running":                            {true, false, false},
		"stopped":                            {false, false, true},
		"stopped, with the ledger as it was": {false, true, true},
	} {
		t.Run(what, func(t *testing.T) {
			r := start(t, plain)
			state := filepath.Join(r.dir, "state")
			dir := filepath.Join(state, "audit")
			write := func() int { return r.do("POST", "/memories", note).status }
			write()
			r.stop()
			copied, file := filepath.Join(t.TempDir(), "copy"), filepath.Join(state, "ledger.db")
			must.Do(t, os.CopyFS(copied, os.DirFS(dir)))
			ledger := must.Get(os.ReadFile(file))(t)
			r.run()
			for range 5 {
				write()
			}
			if !tc.running {
				r.stop()
			}
			checkpoint := must.Get(os.ReadFile(filepath.Join(dir, "checkpoint")))(t)
			kept := writeFile(t, filepath.Join(t.TempDir(), "checkpoint"), string(checkpoint))
			putBack(t, copied, dir)
			if tc.ledger {
				writeFile(t, file, string(ledger))
			}
			if !tc.running {
				r.run()
			}
			for i := range 3 { // the first record that notices may be an outcome, which has no waiting caller
				if status := write(); status != 200 && (status != 503 || i > 0 || !tc.running) {
					t.Errorf("write %d is answered %d", i, status)
				}
			}
			r.stop()
			ran(t, "audit", "verify", "--dir", dir).want(t, 0, "verified by itself")
			code, out, errs := invoke(t, "audit", "verify", "--dir", dir, "--checkpoint", kept)
			if (code != 0) != tc.cut || tc.cut && !strings.Contains(out+errs, "rollback") && !strings.Contains(out+errs, "fork") {
				t.Errorf("verified against the checkpoint: exit %d %s%s", code, out, errs)
			}
		})
	}
}
