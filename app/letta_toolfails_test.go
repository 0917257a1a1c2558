package app_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
)

// Proves MFW-7, TRL-5: a call of a tool that the server reports as failed, with status
// 200, is not a write that was made: an approved one ends as failed, with the reason, and
// goes on no author's record.
func TestApprovedCallsThatFailAreNotDone(t *testing.T) {
	t.Parallel()
	l, block := lettaPeople(t, "better", "Ann likes green tea")
	l.do("POST", "/v1/agents/"+l.agent+"/tools/memory_replace/run", `{"args":{"label":"human","old_string":"green tea","new_string":"coffee"}}`).
		want(t, 403).has(t, "memproxy_held")
	id := l.pending(1)[0].ID
	l.behind("PATCH", "/v1/blocks/"+block, `{"value":"Ann moved"}`) // the tool finds nothing to replace
	l.review(id, true)
	ring.Until(t, "the record of the end", func() bool {
		record := l.audit("--type", "review")
		return strings.Contains(record, `"stage":"failed"`) || strings.Contains(record, `"stage":"done"`)
	})
	h := l.heldWrite(id)
	expect.Equal(t, h.State, memproxy.HoldFailed)
	expect.Equal(t, h.Result.Status, http.StatusOK)
	expect.Text(t, h.Result.Detail).Has("failed")
	expect.Text(t, l.audit("--type", "outcome")).Has("failed")
	expect.Equal(t, l.records(memproxy.EventCrossCorrection), 0, "corrections")
	expect.Equal(t, l.letta.Value(l.agent, "human"), "Ann moved")
}

// Proves GOV-2: a direct call of a tool that fails on the server is not charged, and one
// that succeeds is.
func TestCallsThatFailAreNotCharged(t *testing.T) {
	t.Parallel()
	l := startLettaWith(t, someAgent, lettaConf+"budgets: {default: {writes_per_hour: 2}, rapid_per_minute: 0}\n", answering(func(w http.ResponseWriter, r *http.Request) bool {
		return strings.HasSuffix(r.URL.Path, "/core_memory_append/run") && replies(w, http.StatusOK, `{"status":"error","func_return":null,"stdout":null,"stderr":["KeyError"]}`)
	}))
	run := func(tool, args string) got {
		return l.do("POST", "/v1/agents/"+l.agent+"/tools/"+tool+"/run", `{"args":`+args+`}`)
	}
	for range 3 { // each is given back before it is answered
		run("core_memory_append", `{"label":"human","content":"likes tea"}`).want(t, 200)
	}
	for range 2 {
		run("memory_insert", `{"label":"human","new_string":"plays go"}`).want(t, 200)
	}
	run("memory_insert", `{"label":"human","new_string":"plays go"}`).want(t, 429)
}

// Proves EDGE-1, EDGE-4: what a tool changed whose answer was lost is recorded as the
// caller's change: no later sweep takes it for one that bypassed memproxy.
func TestCallsWithoutAnAnswerAreRecorded(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(http.ResponseWriter){
		"broken off": func(http.ResponseWriter) { panic(http.ErrAbortHandler) },
		"an error":   func(w http.ResponseWriter) { http.Error(w, `{"detail":"away"}`, http.StatusInternalServerError) },
		"unreadable": func(w http.ResponseWriter) { replies(w, http.StatusOK, `{"status":`) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := startLettaWith(t, personaAgent, withPeople(lettaConf), func(h http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if strings.HasSuffix(r.URL.Path, "/run") {
						h.ServeHTTP(httptest.NewRecorder(), r)
						lose(w)
						return
					}
					h.ServeHTTP(w, r)
				})
			}, replacements()...)
			made := l.do("POST", "/v1/blocks/", `{"label":"human","value":"Ann likes tea"}`, as("")...).want(t, 200).id(t)
			l.do("PATCH", "/v1/agents/"+l.agent+"/core-memory/blocks/attach/"+made, "", as("")...).want(t, 200)
			a := l.do("POST", "/v1/agents/"+l.agent+"/tools/memory_replace/run", `{"args":{"label":"human","old_string":"tea","new_string":"go"}}`, as("human")...)
			must.Equal(t, a.status/100, 5, a.status, a.body)
			ring.Until(t, "the version", func() bool { return len(l.history(made)) == 2 })
			l.clean(name)
			ring.Until(t, "the correction", func() bool { return l.records(memproxy.EventCrossCorrection) == 1 })
		})
	}
}
