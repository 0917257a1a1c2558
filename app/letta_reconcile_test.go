package app

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/memproxy/memproxy/internal/ring"
)

// sweeping is lettaConf with unanswered pauses looked for all the time.
var sweeping = strings.Replace(lettaConf, `upstream: "LETTA"`, `upstream: "LETTA", reconcile: 10ms`, 1)

// direct sends a message past the sidecar.
func (l *lettaRig) direct(body string) string {
	l.t.Helper()
	status, answer := l.asked(body)
	if status != 200 {
		l.t.Fatalf("%d %s", status, answer)
	}
	return answer
}

// asked is what the server itself answers.
func (l *lettaRig) asked(body string) (status int, answer string) {
	w := httptest.NewRecorder()
	l.letta.ServeHTTP(w, httptest.NewRequest("POST", "/v1/agents/"+l.agent+"/messages", strings.NewReader(body)))
	return w.Code, w.Body.String()
}

// abandoned leaves the server as a crash in mid-turn does: in a pause that
// memproxy asked for.
func (l *lettaRig) abandoned(script string) {
	l.t.Helper()
	if a := l.direct(fmt.Sprintf(`{"input":%q,"client_tools":[{"name":"memory_insert"},{"name":"memory_replace"},{"name":"conversation_search"}]}`, script)); !strings.Contains(a, "requires_approval") {
		l.t.Fatal(a)
	}
}

// waits reports whether the agent waits for an answer.
func (l *lettaRig) waits() bool {
	w := httptest.NewRecorder()
	l.letta.ServeHTTP(w, httptest.NewRequest("GET", "/v1/agents/"+l.agent, nil))
	return strings.Contains(w.Body.String(), "approval_request_message")
}

// Proves EDGE-1: a pause that nobody answers is found and declined without
// another turn, and so is what the agent tries next; nothing is written, and
// each call is recorded.
func TestPausesThatNobodyAnswersAreDeclined(t *testing.T) {
	t.Parallel()
	l := startLettaWith(t, someAgent, sweeping, plainly)
	l.abandoned(poisoned)
	ring.Until(l.t, "an agent that is free", func() bool { return !l.waits() })
	l.blocks("Ann", "helper")
	var rec string
	ring.Until(l.t, "the records", func() bool {
		rec = l.audit("--type", "decision")
		return strings.Count(rec, `"type":"decision"`) == 3
	})
	for _, want := range []string{`"id":"system:reconciler"`, "memproxy restarted before this call was ruled on; nothing was written", `"verdict":"deny"`, "letta.send_message/memory_insert", "letta.send_message/memory_replace"} {
		if !strings.Contains(rec, want) {
			t.Errorf("no %s in %s", want, rec)
		}
	}
	if a := l.direct(`{"input":"SAY hello"}`); !strings.Contains(a, "hello") {
		t.Errorf("past the sidecar: %s", a)
	}
	if a := l.say("CALL memory_insert {\"label\":\"human\",\"new_string\":\"likes tea\"}\nTHEN\nSAY done", ""); a.status != 200 || !strings.Contains(a.body, "done") {
		t.Errorf("%d %s", a.status, a.body)
	}
	l.blocks("Ann\nlikes tea", "helper")
}

// swept waits until the sidecar has looked for pauses n times.
func swept(l *lettaRig, count *atomic.Int32, n int32) {
	l.t.Helper()
	ring.Until(l.t, "sweeps", func() bool { return count.Load() >= n })
}

// sweeps counts the sweeps that the server sees.
func sweeps(count *atomic.Int32) func(http.Handler) http.Handler {
	return func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			h.ServeHTTP(w, r)
			if r.URL.Path == "/v1/runs/" && r.URL.Query().Get("stop_reason") != "" {
				count.Add(1)
			}
		})
	}
}

// Proves EDGE-1: pauses that are somebody else's to answer are left alone: a
// caller's own tool, alone or beside the gate's, an approval that a rule of the
// agent's own asks for, a pause that is younger than the grace, and any in
// shadow mode. The nearest that is answered stands above.
func TestPausesOfOthersAreLeftAlone(t *testing.T) {
	t.Parallel()
	const script = "CALL memory_insert {\"label\":\"human\",\"new_string\":\"x\"}"
	for name, tc := range map[string]struct{ agent, conf, tools, script string }{
		"a caller's own tool":            {someAgent, sweeping, `{"name":"mine"}`, "CALL mine {}"},
		"a caller's tool beside a write": {someAgent, sweeping, `{"name":"mine"},{"name":"memory_insert"}`, script + "\nCALL mine {}"},
		"an approval by a rule":          {strings.Replace(someAgent, "{", `{"tool_rules":[{"type":"requires_approval","tool_name":"memory_insert"}],`, 1), sweeping, `{"name":"memory_insert"}`, script},
		"one that is young":              {someAgent, strings.Replace(sweeping, "reconcile: 10ms", "reconcile: 5s", 1), `{"name":"memory_insert"}`, script},
		"shadow mode":                    {someAgent, "enforce: false\n" + sweeping, `{"name":"memory_insert"}`, script},
		"switched off":                   {someAgent, strings.Replace(sweeping, "reconcile: 10ms", "reconcile: 0", 1), `{"name":"memory_insert"}`, script},
	} {
		t.Run(name, func(t *testing.T) {
			var count atomic.Int32
			l := startLettaWith(t, tc.agent, tc.conf, sweeps(&count))
			if a := l.direct(fmt.Sprintf(`{"input":%q,"client_tools":[%s]}`, tc.script, tc.tools)); !strings.Contains(a, "requires_approval") {
				t.Fatal(a)
			}
			switch name {
			case "one that is young", "shadow mode", "switched off": // nothing to wait for
			default:
				swept(l, &count, count.Load()+12)
			}
			if !l.waits() {
				t.Error("somebody else's pause was answered")
			}
			l.blocks("Ann", "helper")
		})
	}
}

// Proves EDGE-1: a pause is not declined while a turn is under way here, which
// is about to answer it by the rules.
func TestAPauseOfATurnUnderWayIsNotDeclined(t *testing.T) {
	t.Parallel()
	var count atomic.Int32
	var l *lettaRig
	var legs atomic.Int32
	between := func(h http.Handler) http.Handler {
		h = sweeps(&count)(h)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/messages") && legs.Add(1) == 2 {
				swept(l, &count, count.Load()+12) // the model thinks while the pause grows old
			}
			h.ServeHTTP(w, r)
		})
	}
	l = startLettaWith(t, someAgent, sweeping, between)
	if a := l.say(poisoned, ""); a.status != 200 || !strings.Contains(a.body, "done") {
		t.Errorf("%d %s", a.status, a.body)
	}
	l.blocks("Ann\nlikes tea\nplays go", "helper")
	if rec := l.audit("--type", "decision"); strings.Contains(rec, "system:reconciler") {
		t.Errorf("declined: %s", rec)
	}
}

// A server that cannot be asked, or that refuses the answer, costs a line in
// the log, and the next sweep tries again.
func TestSweepsThatFailAreRepeated(t *testing.T) {
	t.Parallel()
	m := &meddler{}
	l := startLettaWith(t, someAgent, sweeping, func(h http.Handler) http.Handler { m.Handler = h; return m })
	var refused atomic.Int32
	m.set(func(w http.ResponseWriter, r *http.Request) bool {
		switch {
		case r.URL.Path == "/v1/runs/" && refused.Load() < 3, r.Method == http.MethodPost && refused.Load() < 6:
			refused.Add(1)
			return refusal(w)
		}
		return false
	})
	l.abandoned(poisoned)
	ring.Until(l.t, "an agent that is free", func() bool { return !l.waits() })
	l.blocks("Ann", "helper")
}

// Proves EDGE-16: what is settled costs nothing more: of hundreds of runs that
// ended in a pause once, those of one place are looked at once, and each sweep
// after that is one page of each list. What waits behind them is found.
func TestSettledRunsCostNothing(t *testing.T) {
	t.Parallel()
	var count, others, all atomic.Int32
	l := startLettaWith(t, someAgent, sweeping, func(h http.Handler) http.Handler {
		h = sweeps(&count)(h)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if all.Add(1); r.URL.Path != "/v1/runs/" && r.Header.Get("X-Stainless-Package-Version") != "" {
				others.Add(1)
			}
			h.ServeHTTP(w, r)
		})
	})
	for i := range 500 {
		a := l.direct(`{"input":"CALL memory_insert {\"label\":\"human\",\"new_string\":\"x\"}","client_tools":[{"name":"memory_insert"}]}`)
		if !strings.Contains(a, "requires_approval") {
			t.Fatal(a)
		}
		id := a[strings.Index(a, `"tool_call_id":"`)+len(`"tool_call_id":"`):]
		id = id[:strings.Index(id, `"`)]
		if i == 499 {
			break
		}
		status, a := l.asked(`{"messages":[{"type":"approval","approvals":[{"type":"approval","tool_call_id":"` + id + `","approve":false,"reason":"no"}]}]}`)
		if status != 200 && !strings.Contains(a, "No tool call is currently awaiting approval") { // a sweep was quicker
			t.Fatalf("%d %s", status, a)
		}
	}
	ring.Until(l.t, "an agent that is free", func() bool { return !l.waits() })
	swept(l, &count, count.Load()+20) // all pages were read
	sweepsBefore, othersBefore, allBefore := count.Load(), others.Load(), all.Load()
	swept(l, &count, sweepsBefore+50)
	sweepsAfter, othersAfter, allAfter := count.Load(), others.Load(), all.Load()
	if n := othersAfter - othersBefore; n != 0 {
		t.Errorf("%d requests for runs that are settled", n)
	}
	if n, sweeps := allAfter-allBefore, sweepsAfter-sweepsBefore; n > 2*sweeps+3 {
		t.Errorf("%d requests in %d sweeps", n, sweeps)
	}
}
