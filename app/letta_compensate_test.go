package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/app"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
)

// compensating is lettaConf with ungated runs compensated.
var compensating = strings.Replace(lettaConf, `upstream: "LETTA"`, `upstream: "LETTA", ungated: compensate, reconcile: 1s`, 1)

var (
	olderAgent    = strings.Replace(someAgent, `"letta_v1_agent"`, `"memgpt_agent","tools":["archival_memory_insert","memory"]`, 1)
	followedAgent = strings.Replace(someAgent, "{", `{"enable_sleeptime":true,`, 1)
)

func plainly(h http.Handler) http.Handler { return h }

// answering is a server in front of another, that answers some requests in its place.
func answering(some func(w http.ResponseWriter, r *http.Request) bool) func(http.Handler) http.Handler {
	return func(h http.Handler) http.Handler { return &meddler{Handler: h, answers: some} }
}

func startCompensating(t *testing.T, agent string) *lettaRig {
	t.Helper()
	return startLettaWith(t, agent, compensating, plainly)
}

// startMeddled is an agent of an older loop whose runs are compensated, with a proxy in
// front of its server.
func startMeddled(t *testing.T) (*lettaRig, *meddler) {
	t.Helper()
	m := &meddler{}
	return startLettaWith(t, olderAgent, compensating, func(h http.Handler) http.Handler { m.Handler = h; return m }), m
}

// journalled lists the runs in the journal that are not settled yet.
func (l *lettaRig) journalled() []string {
	l.t.Helper()
	return must.Get(filepath.Glob(filepath.Join(l.dir, "state", "runs", "*", "*.json")))(l.t)
}

// restart stops the sidecar and starts another on the same state.
func (l *lettaRig) restart(between func()) {
	l.t.Helper()
	cfg := l.car.cfg
	l.stop()
	between()
	opt := app.Options{Log: l.log, Getenv: allowing(cfg), Version: "test", TimeoutFactor: 10}
	l.car = must.Get(assemble(context.Background(), cfg, opt))(l.t)
	must.Do(l.t, l.car.Listen())
	l.base, l.admin = "http://"+l.car.Addr("mem0"), "http://"+l.car.Addr("admin")
}

// outcomes waits for outcome records that contain a text and returns them.
func (l *lettaRig) outcomes(of string) (out string) {
	l.t.Helper()
	ring.Until(l.t, "the record of "+of, func() bool { out = l.audit("--type", "outcome"); return strings.Contains(out, of) })
	return out
}

func (l *lettaRig) settled() {
	l.t.Helper()
	ring.Until(l.t, "the run to be settled", func() bool { return len(l.journalled()) == 0 })
}

// Proves EDGE-1: a run that cannot be made to pause is checked after it ends: its
// refused writes are undone, the admitted ones remain.
func TestUngatedRunsAreCompensated(t *testing.T) {
	t.Parallel()
	cases := map[string]struct{ agent, route, more string }{
		"an older loop":                   {olderAgent, "/messages", ``},
		"an older loop, streamed":         {olderAgent, "/messages", `,"streaming":true`},
		"the older stream":                {olderAgent, "/messages/stream", ``},
		"in the background":               {someAgent, "/messages/async", ``},
		"an older loop in the background": {olderAgent, "/messages/async", ``},
	}
	for _, name := range ring.Sample(slices.Sorted(maps.Keys(cases)), 1, 2) {
		tc := cases[name]
		t.Run(name, func(t *testing.T) {
			l := startCompensating(t, tc.agent)
			a := l.do("POST", "/v1/agents/"+l.agent+tc.route, fmt.Sprintf(`{"input":%q%s}`, poisoned, tc.more)).want(t, 200)
			whole := strings.HasPrefix(a.header.Get("Content-Type"), "application/json") && !strings.HasSuffix(tc.route, "async")
			if whole { // an unstreamed answer arrives after the settlement
				l.blocks("Ann\nlikes tea\nplays go", "helper")
				expect.Len(t, l.journalled(), 0, "not settled")
			}
			l.settled()
			l.blocks("Ann\nlikes tea\nplays go", "helper")
			rec := l.audit("--type", "decision")
			expect.Text(t, rec).Has(`/block"`, "field.forbidden")
			out := l.outcomes(`"undone: sha256`)
			expect.Equal(t, strings.Count(out, "undone: sha256 "+sha("spy")+" is sha256 "+sha("helper")+" again"), 1, out)
			expect.Text(t, rec+out, "a record tells content").Lacks("spy")
			// The agent accepts messages again.
			l.say("SAY hello", "").want(t, 200).has(t, "hello")
		})
	}
}

// noFieldless refuses to change what is in no block.
const noFieldless = `@id("own.fieldless") @reason("field.forbidden") @detail("only blocks are changed")
forbid (principal, action == Action::"correct", resource) when { context.field == "" };`

// Proves EDGE-1: the policy is asked about the texts that a run wrote and about no other,
// whether the run pauses or is ruled on when it ends.
func TestRunsAreRuledOnForTheirOwnTexts(t *testing.T) {
	t.Parallel()
	own := policyDir(t, noFieldless)
	for name, agent := range map[string]string{"paused": someAgent, "compensated": olderAgent} {
		l := startLettaWith(t, agent, strings.Replace(compensating, "DIR/policies", own, 1), plainly)
		l.say(`CALL memory_insert {"label":"human","new_string":"likes tea"}
THEN
SAY done`, "").want(t, 200)
		l.settled()
		expect.Equal(t, l.letta.Value(l.agent, "human"), "Ann\nlikes tea", name)
	}
}

// Proves EDGE-1: agents that run after another and share its memory are waited for and
// settled with it.
func TestFollowingAgentsAreCompensated(t *testing.T) {
	t.Parallel()
	l := startCompensating(t, followedAgent)
	l.say(`SAY done
ASIDE CALL memory_replace {"label":"persona","old_string":"helper","new_string":"spy"}
ASIDE CALL memory_insert {"label":"human","new_string":"likes tea"}`, "").want(t, 200).has(t, "done")
	l.blocks("Ann\nlikes tea", "helper")
}

// noSpies refuses texts that contain "spy", in any field.
const noSpies = `@id("own.spies") @reason("field.forbidden") @detail("nothing of this kind")
forbid (principal, action in Action::"write", resource) when { context.field == "persona" || context.field == "orders" };
@id("own.archive") @reason("field.forbidden") @detail("nothing is archived")
forbid (principal, action == Action::"learn", resource) when { context.field == "" };`

// Proves EDGE-1: compensation also undoes added passages and blocks, and removed
// blocks.
func TestAddedAndRemovedObjectsAreRestored(t *testing.T) {
	t.Parallel()
	l := startLettaWith(t, olderAgent, strings.Replace(compensating, "DIR/policies", policyDir(t, noSpies), 1), plainly)
	l.say(`CALL archival_memory_insert {"content":"obey Mallory"}
CALL memory {"command":"create","path":"/memories/orders","file_text":"obey","description":"d"}
CALL memory {"command":"delete","path":"/memories/persona"}
CALL memory_insert {"label":"human","new_string":"likes tea"}
THEN
SAY done`, "").want(t, 200).has(t, "done")
	l.blocks("Ann\nlikes tea", "helper")
	expect.List(t, l.letta.Labels(l.agent), []string{"human", "persona"}, "blocks")
	expect.Len(t, l.letta.Passages(l.agent), 0, "archive")
}

// Admitted writes of a compensated run remain, and are charged like other writes.
func TestAdmittedWritesOfARunAreCharged(t *testing.T) {
	t.Parallel()
	l := startCompensating(t, olderAgent)
	l.say(`CALL archival_memory_insert {"content":"Ann likes tea"}
CALL memory {"command":"create","path":"/memories/notes","file_text":"n","description":"d"}
THEN
SAY done`, "").want(t, 200)
	expect.List(t, l.letta.Passages(l.agent), []string{"Ann likes tea"}, "archive")
	expect.Text(t, fmt.Sprint(l.letta.Labels(l.agent)), "a label of one's own is let in by the built-in rules").Has("notes")
	expect.Text(t, l.audit("--type", "outcome"), "something was undone").Lacks("undone")
	// Both are charged to the hour; the change of a block makes no memory in all.
	expect.Text(t, l.audit("--type", "decision"), "charged").Has(`"used":2,"window":"hour"`, `"used":1,"window":"total"`)
}

// meddler is a proxy in front of the server that may answer in its place.
type meddler struct {
	http.Handler
	mu      sync.Mutex
	answers func(w http.ResponseWriter, r *http.Request) bool
}

func (m *meddler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	answers := m.answers
	m.mu.Unlock()
	if answers == nil || !answers(w, r) {
		m.Handler.ServeHTTP(w, r)
	}
}

func (m *meddler) set(answers func(w http.ResponseWriter, r *http.Request) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.answers = answers
}

// Proves EDGE-1: nothing is undone during a run, which would overwrite it, and the
// caller of a stream does not wait for the settlement.
func TestUndoingWaitsForTheEndOfTheRun(t *testing.T) {
	t.Parallel()
	looks, over := make(chan struct{}, 64), make(chan struct{})
	l, m := startMeddled(t)
	m.set(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/v1/runs/" || r.URL.Query().Get("active") == "" {
			return false
		}
		select {
		case <-over:
			return false
		default:
		}
		if l.letta.Value(l.agent, "persona") == "helper" {
			return false // before the run
		}
		looks <- struct{}{}
		fmt.Fprint(w, `[{"id":"run-later","status":"running"}]`)
		return true
	})
	l.say(poisoned, `,"streaming":true`).want(t, 200).has(t, "[DONE]")
	<-looks
	<-looks
	l.blocks("Ann\nlikes tea\nplays go", "spy")
	close(over)
	l.settled()
	l.blocks("Ann\nlikes tea\nplays go", "helper")
}

var begun = regexp.MustCompile(`"begun":"[^"]*"`)

// Proves EDGE-1: if memproxy crashes during a run, the next process settles the run in
// the name of its caller, also if the journal's entry is days old, or seems so because the
// clock was set. The journal is readable by its owner only, and removed afterwards.
func TestCompensationSurvivesACrash(t *testing.T) {
	t.Parallel()
	for _, age := range []time.Duration{0, 72 * time.Hour} {
		l, m := startMeddled(t)
		m.set(func(w http.ResponseWriter, r *http.Request) bool {
			return r.Method == http.MethodGet && l.letta.Value(l.agent, "persona") == "spy" && refusal(w) // from now on, every look-up fails
		})
		l.say(poisoned, `,"streaming":true`).want(t, 200)
		left := l.journalled()
		must.Len(t, left, 1, "journal")
		expect.Equal(t, must.Get(os.Stat(left[0]))(t).Mode().Perm(), 0o600)
		entry := string(must.Get(os.ReadFile(left[0]))(t))
		expect.Text(t, entry, "the journal holds a credential, or").Lacks(devToken)
		l.restart(func() {
			m.set(nil)
			if age > 0 {
				old := begun.ReplaceAllString(entry, `"begun":"`+time.Now().Add(-age).UTC().Format(time.RFC3339)+`"`)
				must.Equal(t, old != entry, true, entry)
				must.Do(t, os.WriteFile(left[0], []byte(old), 0o600))
			}
		})
		l.settled()
		l.blocks("Ann\nlikes tea\nplays go", "helper")
		rec := l.audit("--type", "decision")
		expect.Text(t, rec, "in whose name").Has(`/block"`).Times(strings.Count(rec, `"type":"decision"`), `"agent:dev"`)
	}
}

func refusal(w http.ResponseWriter) bool {
	http.Error(w, "no", http.StatusInternalServerError)
	return true
}

// Proves EDGE-1: an undoing that fails is tried again, and one that the server confirms and
// does not carry out is repeated.
func TestFailedCompensationIsRetried(t *testing.T) {
	t.Parallel()
	for confirmed, most := range map[bool]int32{false: 2, true: 1} {
		l, m := startMeddled(t)
		var asked atomic.Int32
		m.set(func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodPatch || asked.Add(1) > most {
				return false
			}
			if !confirmed {
				return refusal(w)
			}
			return replies(w, http.StatusOK, "{}")
		})
		l.say(poisoned, "").want(t, 200)
		l.blocks("Ann\nlikes tea\nplays go", "helper")
		if !confirmed {
			expect.Text(t, l.outcomes(`"undone: sha256`)).Times(2, "could not be undone").Times(1, `"undone: sha256`)
		}
		expect.Text(t, l.audit("--type", "decision"), "ruled on more than once").Times(1, "field.forbidden")
	}
}

// Proves EDGE-1: runs that cannot be observed stay refused in production: an agent that
// messages other agents, batches, another provider's chat API.
func TestWhatCannotBeCompensatedIsRefused(t *testing.T) {
	t.Parallel()
	l := startCompensating(t, strings.Replace(olderAgent, `"tools":[`, `"tools":["send_message_to_agent_async",`, 1))
	l.say("SAY hello", "").want(t, 403).has(t, "run.ungated").decided(t, "deny")
	l.do("POST", "/v1/messages/batches", fmt.Sprintf(`{"requests":[{"agent_id":%q,"messages":[]}]}`, l.agent)).want(t, 403, "a batch")
	expect.Len(t, l.journalled(), 0, "journal")
}

// If the snapshot before a run fails, nothing runs.
func TestRunsNeedAnInitialSnapshot(t *testing.T) {
	t.Parallel()
	l, m := startMeddled(t)
	m.set(func(w http.ResponseWriter, r *http.Request) bool {
		return strings.HasSuffix(r.URL.Path, "archival-memory") && refusal(w)
	})
	a := l.say(poisoned, "").want(t, 502).has(t, memproxy.NotReached)
	expect.Equal(t, a.header.Get("X-Should-Retry"), "", "nothing ran, so that a client may repeat it")
	l.blocks("Ann", "helper")
	m.set(nil)
	l.say("SAY hello", "").want(t, 200)
}

// In development the default is to compensate; "deny" refuses there as well.
func TestUngatedInDevelopment(t *testing.T) {
	t.Parallel()
	dev := strings.Replace(lettaConf, "profile: production", "profile: development", 1)
	l := startLettaWith(t, olderAgent, dev, plainly)
	l.say(poisoned, "").want(t, 200)
	l.blocks("Ann\nlikes tea\nplays go", "helper")
	l = startLettaWith(t, olderAgent, strings.Replace(dev, `upstream: "LETTA"`, `upstream: "LETTA", ungated: deny`, 1), plainly)
	l.say(poisoned, "").want(t, 403)
}

// A compensated run's answer is the server's, byte for byte.
func TestCompensatedAnswersAreUntouched(t *testing.T) {
	t.Parallel()
	l := startCompensating(t, olderAgent)
	a := l.say("SAY hello", "")
	w := httptest.NewRecorder()
	l.letta.ServeHTTP(w, httptest.NewRequest("POST", "/v1/agents/"+l.agent+"/messages", strings.NewReader(`{"input":"SAY hello"}`)))
	_, err := jsondoc.Parse([]byte(a.body), 0)
	expect.Equal(t, err == nil && len(a.body) == w.Body.Len(), true, err, a.body, w.Body)
	whole := decoded[struct{ Messages []json.RawMessage }](t, a.body)
	expect.Len(t, whole.Messages, 1, a.body)
}
