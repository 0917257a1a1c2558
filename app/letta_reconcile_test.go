package app_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/proxy"
)

// direct sends a message to the server, bypassing the sidecar.
func (l *lettaRig) direct(body string) string {
	l.t.Helper()
	status, answer := l.asked(body)
	must.Equal(l.t, status, 200, answer)
	return answer
}

// asked sends a request to the server itself.
func (l *lettaRig) asked(body string) (status int, answer string) {
	w := httptest.NewRecorder()
	l.letta.ServeHTTP(w, httptest.NewRequest("POST", "/v1/agents/"+l.agent+"/messages", strings.NewReader(body)))
	return w.Code, w.Body.String()
}

// cut is a server whose connections break off at the numbered request of a run.
type cut struct {
	http.Handler
	after atomic.Int32
}

func (c *cut) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/messages") && c.after.Add(-1) == -1 {
		panic(http.ErrAbortHandler)
	}
	c.Handler.ServeHTTP(w, r)
}

// startStill starts a sidecar whose clock stands still and whose jobs run only with once.
func startStill(t *testing.T, agent, conf string, between func(http.Handler) http.Handler) *lettaRig {
	t.Helper()
	p := newPaces()
	return startLettaRig(&rig{t: t, clock: p.now, pace: p.ticker}, agent, conf, between)
}

// startCut starts such a sidecar in front of a server that breaks off.
func startCut(t *testing.T, agent, conf string) (*lettaRig, *cut) {
	t.Helper()
	c := &cut{}
	c.after.Store(-1 << 20)
	return startStill(t, agent, conf, func(h http.Handler) http.Handler { c.Handler = h; return c }), c
}

// breaks makes a turn break off before its numbered request, from 0.
func (l *lettaRig) breaks(c *cut, request int32, script string) {
	l.t.Helper()
	c.after.Store(request)
	l.say(script, "").want(l.t, http.StatusBadGateway)
}

// open lists the turns in the sidecar's journal.
func (l *lettaRig) open() []string {
	l.t.Helper()
	return must.Get(filepath.Glob(filepath.Join(l.dir, "state", "runs", "*", "turns", "*")))(l.t)
}

// in is the time of the sidecar's clock after d.
func (l *lettaRig) in(d time.Duration) time.Time { return l.clock().Add(d) }

// later is after every interval, and before the longest run must have ended.
func (l *lettaRig) later() time.Time { return l.in(10 * time.Minute) }

// waits reports whether the agent waits for an approval.
func (l *lettaRig) waits() bool {
	w := httptest.NewRecorder()
	l.letta.ServeHTTP(w, httptest.NewRequest("GET", "/v1/agents/"+l.agent, nil))
	return strings.Contains(w.Body.String(), "approval_request_message")
}

// left checks whether the agent waits, and how many turns are in the journal.
func (l *lettaRig) left(waits bool, open int, about ...any) {
	l.t.Helper()
	expect.Equal(l.t, l.waits(), waits, append(about, "the agent waits")...)
	expect.Len(l.t, l.open(), open, about...)
}

// Proves EDGE-1: an agent whose turn broke off in a pause is released after the
// interval without another turn: its calls, and those it tries next, are declined and
// recorded, and nothing is written.
func TestAbandonedPausesAreDeclined(t *testing.T) {
	t.Parallel()
	l, c := startCut(t, someAgent, lettaConf)
	l.breaks(c, 1, poisoned)
	l.once("runs:mem0", l.in(proxy.DefaultReconcile-1))
	l.left(true, 1, "before the interval is over, the agent is free")
	l.once("runs:mem0", l.in(proxy.DefaultReconcile))
	l.left(false, 0, "the agent waits")
	l.blocks("Ann", "helper")
	rec := l.audit("--type", "decision")
	expect.Equal(t, strings.Count(rec, `"id":"system:reconciler"`), 3, rec)
	expect.Text(t, rec).Has("this call may have been made or not", "letta.send_message/memory_insert", "letta.send_message/memory_replace")
	expect.Text(t, l.direct(`{"input":"SAY hello"}`), "past the sidecar").Has("hello")
	l.say("CALL memory_insert {\"label\":\"human\",\"new_string\":\"likes tea\"}\nTHEN\nSAY done", "").want(t, 200).has(t, "done")
	l.blocks("Ann\nlikes tea", "helper")
}

// Proves EDGE-1, EDGE-16: an agent left waiting by a stop during its turn is released
// by the next process on the same state, at once.
func TestRestartReleasesPausedAgents(t *testing.T) {
	t.Parallel()
	l, c := startCut(t, someAgent, lettaConf)
	l.breaks(c, 1, poisoned)
	l.stop()
	l.run()
	ring.Until(l.t, "an agent that is free", func() bool { return !l.waits() && len(l.open()) == 0 })
	l.blocks("Ann", "helper")
}

// Proves EDGE-1: conversations are released like agents.
func TestAbandonedPausesOfConversationsAreDeclined(t *testing.T) {
	t.Parallel()
	l, c := startCut(t, someAgent, lettaConf)
	conv := l.do("POST", "/v1/conversations/?agent_id="+l.agent, `{}`).want(t, 200).id(t)
	c.after.Store(1)
	path := "/v1/conversations/" + conv + "/messages"
	l.do("POST", path, fmt.Sprintf(`{"input":%q,"streaming":false}`, poisoned)).want(t, http.StatusBadGateway)
	l.once("runs:mem0", l.later())
	expect.Len(t, l.open(), 0, "kept")
	expect.Text(t, l.audit("--type", "decision")).Times(3, `"id":"system:reconciler"`)
	l.blocks("Ann", "helper")
	l.do("POST", path, `{"input":"SAY hello","streaming":false}`).want(t, 200).has(t, "hello")
}

// Proves EDGE-1: pauses that others answer are left alone: of a caller's client tool,
// alone or with the gate's, of an approval rule of the agent, and any in shadow mode or
// with the setting off. The journal entry is removed once the run must have ended.
func TestPausesOfOthersAreLeftAlone(t *testing.T) {
	t.Parallel()
	const script = "CALL memory_insert {\"label\":\"human\",\"new_string\":\"x\"}"
	for name, tc := range map[string]struct{ agent, conf, tools, script string }{
		"a caller's own tool":            {someAgent, lettaConf, `{"name":"mine"}`, "CALL mine {}"},
		"a caller's tool and the gate's": {someAgent, lettaConf, `{"name":"mine"},{"name":"memory_insert"}`, script + "\nCALL mine {}"},
		"an approval by a rule":          {strings.Replace(someAgent, "{", `{"tool_rules":[{"type":"requires_approval","tool_name":"memory_insert"}],`, 1), lettaConf, `{"name":"memory_insert"}`, script},
		"shadow mode":                    {someAgent, "enforce: false\n" + lettaConf, `{"name":"memory_insert"}`, script},
		"switched off":                   {someAgent, strings.Replace(lettaConf, `upstream: "LETTA"`, `upstream: "LETTA", reconcile: 0`, 1), `{"name":"memory_insert"}`, script},
	} {
		t.Run(name, func(t *testing.T) {
			l, c := startCut(t, tc.agent, tc.conf)
			l.breaks(c, 0, "SAY hello")
			expect.Text(t, l.direct(fmt.Sprintf(`{"input":%q,"client_tools":[%s]}`, tc.script, tc.tools))).Has("requires_approval")
			kept := 1
			if name == "shadow mode" || name == "switched off" {
				kept = 0
			}
			l.once("runs:mem0", l.later())
			l.left(true, kept, "somebody else's pause was answered")
			l.blocks("Ann", "helper")
			l.once("runs:mem0", l.in(time.Hour))
			l.left(true, 0, "after an hour")
		})
	}
}

// Proves EDGE-1: a pause of a turn in progress is not declined, since the turn answers
// it; the abandoned turn ends with it.
func TestPausesOfCurrentTurnsAreNotDeclined(t *testing.T) {
	t.Parallel()
	var l *lettaRig
	var requests atomic.Int32
	l = startStill(t, someAgent, lettaConf, answering(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/messages") {
			switch requests.Add(1) {
			case 2:
				panic(http.ErrAbortHandler)
			case 4: // the model thinks while the pause ages
				l.once("runs:mem0", l.later())
			}
		}
		return false
	}))
	const tea = "CALL memory_insert {\"label\":\"human\",\"new_string\":\"likes tea\"}\nTHEN\nSAY done"
	l.say(tea, "").want(t, http.StatusBadGateway)
	l.say(tea, "").want(t, 200).has(t, "done")
	expect.Equal(t, requests.Load() >= 4 && len(l.open()) == 0, true, requests.Load(), "requests")
	expect.Text(t, l.audit("--type", "decision"), "declined").Lacks("system:reconciler")
}

// If the server fails or refuses the answer, the job fails and retries when the turn is
// due, also after the longest run must have ended.
func TestFailedDeclinesAreRetried(t *testing.T) {
	t.Parallel()
	m, c := &meddler{}, &cut{}
	c.after.Store(-1 << 20)
	l := startStill(t, someAgent, lettaConf, func(h http.Handler) http.Handler { m.Handler = h; c.Handler = m; return c })
	l.breaks(c, 1, poisoned)
	for i, refused := range []string{http.MethodGet, http.MethodPost, http.MethodGet} {
		m.set(func(w http.ResponseWriter, r *http.Request) bool { return r.Method == refused && refusal(w) })
		at := l.in([]time.Duration{5 * time.Minute, 10 * time.Minute, time.Hour}[i])
		expect.ErrorHas(t, l.car.Once(context.Background(), "runs:mem0", at), "backend mem0: declining a pending approval request failed", refused, "is refused")
		l.left(true, 1, "is refused", refused)
		l.once("runs:mem0", at.Add(time.Second)) // not due
	}
	m.set(nil)
	l.once("runs:mem0", l.in(2*time.Hour))
	l.left(false, 0)
	l.blocks("Ann", "helper")
}

// Proves EDGE-16: a completed turn costs no further request, and a turn that cannot be
// journalled runs all the same.
func TestCompletedTurnsCostNoRequests(t *testing.T) {
	t.Parallel()
	var requests atomic.Int32
	l := startStill(t, someAgent, strings.Replace(lettaConf, "level: error", "level: warn", 1), func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { requests.Add(1); h.ServeHTTP(w, r) })
	})
	l.say(poisoned, "").want(t, 200)
	must.Len(t, l.open(), 0)
	before := requests.Load()
	l.once("runs:mem0", l.later())
	expect.Equal(t, requests.Load()-before, 0)
	dirs := must.Get(filepath.Glob(filepath.Join(l.dir, "state", "runs", "*", "turns")))(t)
	must.Len(t, dirs, 1)
	must.Do(t, os.Remove(dirs[0]))
	writeFile(t, dirs[0], "no directory")
	l.say("SAY hello", "").want(t, 200, l.log)
	expect.Text(t, l.log.String(), l.log).Has("a turn could not be saved")
}
