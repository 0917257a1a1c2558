package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
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
	return startLettaWith(t, agent, conf, func(h http.Handler) http.Handler { return h })
}

// history lists a memory's versions, oldest first: operation, text and previous text.
func (r *rig) history(id string) []string {
	r.t.Helper()
	ctx := context.Background()
	k := memproxy.MemoryKey{Backend: "mem0", Kind: memproxy.TargetMemory, ID: id}
	list := must.Get(r.car.ledger.History(ctx, k, 0, 0))(r.t)
	texts, out := map[string]string{}, []string{}
	slices.Reverse(list)
	for _, v := range list {
		full, err := r.car.ledger.Version(ctx, k, v.Number)
		if errors.Is(err, memproxy.ErrGone) { // a deleted text is known by its hash only
			for _, text := range [...]string{"old", "tea", "likes tea", "Ann"} {
				if sha(text) == v.SHA256 {
					full.Text, err = text, nil
				}
			}
		}
		if err != nil {
			r.t.Fatal(err)
		}
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
		if !slices.Equal(got, want) {
			r.t.Errorf("the history of %s:\n got %q\nwant %q", id, got, want)
		}
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
	if a := l.say(`CALL memory_insert {"label":"human","new_string":"likes tea"}
CALL memory_replace {"label":"persona","old_string":"helper","new_string":"spy"}
CALL memory_insert {"label":"human","new_string":"plays go"}
THEN
CALL memory_replace {"label":"human","old_string":"nobody","new_string":"x"}
THEN
CALL memory_rethink {"label":"human","new_memory":"Ann plays chess."}
THEN
SAY done`, ""); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	edits := []string{
		`seal "Ann" before "" by `,
		`self_edit "Ann\nlikes tea" before "Ann" by agent:dev`,
		`self_edit "Ann\nlikes tea\nplays go" before "Ann\nlikes tea" by agent:dev`,
		`self_edit "Ann plays chess." before "Ann\nlikes tea\nplays go" by agent:dev`,
	}
	l.remembers(human, edits...)
	l.remembers(l.letta.BlockID(l.agent, "persona"))
	first := sha("Ann\nlikes tea")
	if out, errs, code := l.command("memory", "rollback", "--backend", "mem0", "--sha256", first, "--reason", "it was right", human); code != 0 {
		t.Fatalf("%d %s %s", code, out, errs)
	}
	l.blocks("Ann\nlikes tea", "helper")
	l.remembers(human, append(edits, `rollback "Ann\nlikes tea" before "Ann plays chess." by eve`)...)
}

// Proves SYN-5, DOL-5: a passage that an agent archives has a version, an owner and a
// state.
func TestAgentArchivesHaveVersions(t *testing.T) {
	t.Parallel()
	l := lettaReviewed(t, writingAgent)
	if a := l.say(`CALL archival_memory_insert {"content":"The build takes ten minutes."}
CALL archival_memory_insert {"content":"Ann plays go."}
THEN
SAY done`, ""); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	ids := l.letta.PassageIDs(l.agent)
	if len(ids) != 2 {
		t.Fatalf("%q", ids)
	}
	l.remembers(ids[0], `self_edit "The build takes ten minutes." before "" by agent:dev`)
	l.remembers(ids[1], `self_edit "Ann plays go." before "" by agent:dev`)
	ring.Until(l.t, "their states", func() bool { return l.stands(ids[0]).State == memproxy.StateUntrusted })
	owners, err := ledger.ByID(t.Context(), l.car.ledger, "mem0", memproxy.TargetMemory, ids...)
	if err != nil || len(owners) != 2 || owners[ids[0]].Owner.Actor != "agent:dev" || owners[ids[0]].Owner.SHA256 != sha("The build takes ten minutes.") {
		t.Errorf("%+v %v", owners, err)
	}
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

// Proves SYN-5: a memory tool run through the API in place of the agent makes a
// version, too.
func TestToolsFromOutsideAreVersions(t *testing.T) {
	t.Parallel()
	l := lettaReviewed(t, writingAgent)
	human := l.letta.BlockID(l.agent, "human")
	a := l.do("POST", "/v1/agents/"+l.agent+"/tools/memory_insert/run", `{"args":{"label":"human","new_string":"likes tea"}}`, "Authorization", "Bearer "+devToken)
	if a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	l.remembers(human, `seal "Ann" before "" by `, `self_edit "Ann\nlikes tea" before "Ann" by agent:dev`)
}
