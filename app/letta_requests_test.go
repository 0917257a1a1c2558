package app

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Proves EDGE-16: the effect of a memory tool's call on blocks is predicted and
// confirmed by the server's answer, so that a self-edit costs no requests besides the
// run and the look-up of the blocks. One snapshot is read for unpredictable effects:
// the id of a new passage or block, a renaming.
func TestRequestsOfASelfEdit(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var asked []string
	l := startLettaWith(t, writingAgent, lettaConf, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			_, what, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v1/agents/"), "/")
			asked = append(asked, strings.TrimSpace(r.Method+" "+what))
			mu.Unlock()
			h.ServeHTTP(w, r)
		})
	})
	requests := func(f func() got) []string {
		t.Helper()
		mu.Lock()
		asked = nil
		mu.Unlock()
		f().want(t, 200)
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(asked)
	}
	say := func(script string) func() got { return func() got { return l.say(script, "") } }
	requests(say("SAY done"))
	run := []string{"GET", "POST messages"} // the agent with its tools, and the run
	for _, c := range []struct {
		call string
		want []string
	}{
		{`memory_insert {"label":"human","new_string":"likes tea"}`, []string{"GET", "POST messages"}},
		{`core_memory_append {"label":"human","content":"plays go"}`, []string{"GET", "POST messages"}},
		// The author of replaced text is looked up whatever the verdict.
		{`memory_rethink {"label":"human","new_memory":"Ann"}`, []string{"GET", "GET core-memory/blocks/human", "POST messages"}},
		{`memory_replace {"label":"human","old_string":"Eve","new_string":"x"}`, []string{"GET", "GET core-memory/blocks/human", "POST messages"}},
		{`memory_insert {"label":"human","new_string":"a"}` + "\nCALL " + `memory_insert {"label":"human","new_string":"b"}`, []string{"GET", "POST messages"}},
		{`archival_memory_insert {"content":"a"}`, []string{"POST messages", "GET archival-memory"}},
		{`memory {"command":"create","path":"/memories/notes","description":"d","file_text":"x"}`, []string{"GET", "POST messages", "GET"}},
	} {
		if got, want := requests(say("CALL "+c.call+"\nTHEN\nSAY done")), slices.Concat(run, c.want); !slices.Equal(got, want) {
			t.Errorf("%s:\n got %q\nwant %q", c.call, got, want)
		}
	}
	got := requests(func() got {
		return l.do("POST", "/v1/agents/"+l.agent+"/tools/core_memory_append/run", `{"args":{"label":"human","content":"chess"}}`, "Authorization", "Bearer "+devToken)
	})
	if n := len(got); n == 0 || got[n-1] != "POST tools/core_memory_append/run" {
		t.Errorf("a tool that is run from outside: %q", got)
	}
}
