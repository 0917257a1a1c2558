//go:build e2e

package e2e

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/memproxy/memproxy/envoy/extproc/extproctest"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// Proves CARD-9, CARD-10, TRL-10: the real Envoy with the shipped
// configuration does with every case what the HTTP listener does.
func TestEnvoyDoesWhatTheHTTPListenerDoes(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob(filepath.Join("..", "envoy", "extproc", "testdata", "*.txtar"))
	must.That(t, err == nil && len(paths) >= 20, "%v %v", paths, err)
	b := startEnvoy(t)
	for _, group := range grouped(t, paths) {
		t.Run(group[0].name, func(t *testing.T) {
			b.t = t
			first := group[0].Case
			http, envoy := b.httpMem0, b.mem0
			if first.Settings["kind"] == "letta" {
				http, envoy = b.httpLetta, b.letta
			}
			did := map[string]string{}
			for _, addr := range [...]string{http, envoy} {
				b.start(first.Settings)
				for _, c := range group {
					backend := extproctest.NewBackend(c.Case)
					b.answers(backend)
					all, summary, err := c.Run(b.listener(addr, backend))
					must.Do(t, err, c.name, all)
					expect.Equal(t, summary, c.Want, c.name, addr, "does")
					if addr == envoy && all != did[c.name] {
						t.Errorf("%s: Envoy differs:\n%s", c.name, extproctest.Diff(did[c.name], all))
					}
					did[c.name] = all
				}
				b.memproxy.stop()
			}
		})
	}
}

type namedCase struct {
	*extproctest.Case
	name string
}

// grouped are the cases that one configuration serves, together.
func grouped(t *testing.T, paths []string) [][]namedCase {
	t.Helper()
	var order []string
	by := map[string][]namedCase{}
	for _, path := range paths {
		data := must.Get(os.ReadFile(path))(t)
		c, err := extproctest.ParseCase(data)
		must.Do(t, err, path)
		key := c.Settings.Config("", "", "", "")
		if by[key] == nil {
			order = append(order, key)
		}
		by[key] = append(by[key], namedCase{c, strings.TrimSuffix(filepath.Base(path), ".txtar")})
	}
	var out [][]namedCase
	for _, key := range order {
		out = append(out, by[key])
	}
	return out
}

// Proves TRL-10, CARD-9: in observability mode everything passes as it came,
// and what would have been ruled is recorded as not enforced, although the
// rules are.
func TestEnvoyObservabilityIsShadow(t *testing.T) {
	t.Parallel()
	b := startEnvoy(t,
		"request_body_mode: BUFFERED", "request_body_mode: STREAMED", "response_body_mode: BUFFERED", "response_body_mode: NONE",
		"allow_mode_override: true", "observability_mode: true")
	var arrived atomic.Value
	b.answers(callers(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		arrived.Store(string(body))
		fmt.Fprint(w, `{"results":[]}`)
	}))
	b.start(settings(t))
	body := strings.Replace(addBody, `"agent_id":"dev"`, `"agent_id":"ceo"`, 1)
	got := devCall(t, "POST", "http://"+b.mem0+"/memories", body)
	expect.That(t, got.status == 200 && arrived.Load() == body, "%d, arrived %q", got.status, arrived.Load())
	defer func() {
		if t.Failed() {
			t.Log(b.audit())
		}
	}()
	waitFor(t, "decision and outcome in the audit log", func() bool {
		log := b.audit()
		return strings.Contains(log, `"verdict":"allow","would":"deny"`) && strings.Contains(log, `"code":"identity.acts_as"`) && strings.Contains(log, `"type":"outcome"`)
	})
}

const (
	runner  = "agent-00000000-0000-4000-8000-000000000001"
	oneTurn = `{"messages":[{"role":"user","content":"hello"}]}`
)

// Proves CARD-9: what a filter cannot gate goes to the HTTP listener, by the
// shipped configuration; where it comes to the processor it is refused.
func TestEnvoyLettaRuns(t *testing.T) {
	t.Parallel()
	agent := fmt.Sprintf(`{"id":%q,"name":"a","tools":[],"memory":{"blocks":[]},"blocks":[],"tags":[]}`, runner)
	backend := func(turns *atomic.Int32) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			switch {
			case r.Method == http.MethodPost:
				turns.Add(1)
				fmt.Fprint(w, `{"messages":[],"stop_reason":{"message_type":"stop_reason","stop_reason":"end_turn"},"usage":{"message_type":"usage_statistics"}}`)
			case strings.HasSuffix(r.URL.Path, runner):
				fmt.Fprint(w, agent)
			default:
				fmt.Fprint(w, `[]`)
			}
		})
	}
	call := func(t *testing.T, b *behindEnvoy, method, path, body string) answer {
		t.Helper()
		return must.Get(tryCall(method, "http://"+b.letta+path, "", body, "Authorization", "Bearer m0sk_eve"))(t)
	}
	t.Run("as shipped", func(t *testing.T) {
		b := startEnvoy(t)
		var turns atomic.Int32
		b.answers(backend(&turns))
		b.start(settings(t, "kind", "letta"))
		got := call(t, b, "POST", "/v1/agents/"+runner+"/messages", oneTurn)
		expect.That(t, got.status == 200 && turns.Load() != 0 && !strings.Contains(got.body, "run.ungated"), "%d %s", got.status, got.body)
		got = call(t, b, "GET", "/v1/blocks/?limit=5", "")
		expect.That(t, got.status == 200 && got.header.Get("X-Memproxy-Decision") != "", "blocks go by the processor: %d %v", got.status, got.header)
	})
	t.Run("by the processor", func(t *testing.T) {
		b := startEnvoy(t, runsByProcessor...)
		var turns atomic.Int32
		b.answers(backend(&turns))
		b.start(settings(t, "kind", "letta"))
		for _, c := range [][3]string{
			{"POST", "/v1/agents/" + runner + "/messages", oneTurn},
			{"POST", "/v1/agents/" + runner + "/messages/stream", oneTurn},
			{"POST", "/v1/agents/" + runner + "/messages/async", oneTurn},
			{"PATCH", "/v1/agents/" + runner, `{"name":"b"}`}, // may change its tools
		} {
			got := call(t, b, c[0], c[1], c[2])
			expect.That(t, got.status == 403 && strings.Contains(got.body, `"code":"run.ungated"`) && got.header.Get("X-Should-Retry") == "false",
				"%s %s: %d %v %s", c[0], c[1], got.status, got.header, got.body)
		}
		expect.Equal(t, turns.Load(), 0)
		call(t, b, "GET", "/v1/agents/"+runner, "").want(t, 200, "a read of the agent")
	})
}

// Proves CARD-9: ext_authz decides and changes nothing; what it could only do
// by changing it refuses.
func TestEnvoyAuthorization(t *testing.T) {
	t.Parallel()
	b := startEnvoy(t, "authz")
	rec := &recorder{}
	b.answers(rec)
	b.start(settings(t), "--authz")
	add := func(from, to string) string { return strings.Replace(addBody, from, to, 1) }
	for _, c := range []struct {
		what, method, path, body string
		status                   int
		code                     string
	}{
		{"an add", "POST", "/memories", addBody, 200, ""},
		{"one in another's name", "POST", "/memories", add(`"dev"`, `"ceo"`), 403, "identity.acts_as"},
		{"one that would be clamped", "POST", "/memories", add(`"infer"`, `"metadata":{"confidence":0.99},"infer"`), 403, "trust.clamped"},
		{"one that need not be", "POST", "/memories", add(`"infer"`, `"metadata":{"confidence":0.5},"infer"`), 200, ""},
		{"one that is not JSON", "POST", "/memories", "{", 422, "payload.malformed"},
		{"a read", "GET", "/memories?user_id=ann", "", 403, "scope.unpinned"},
		{"no memory", "GET", "/v1/ping/", "", 200, ""},
		{"an unknown route", "POST", "/v9/x", "{}", 403, "route.unknown"},
	} {
		rec.arrived()
		got := devCall(t, c.method, "http://"+b.mem0+c.path, c.body, "X-Memproxy-Decision", "mine").want(t, c.status, c.what).has(t, c.code)
		expect.That(t, c.code == "" || strings.HasPrefix(got.header.Get("X-Memproxy-Decision"), "deny; id=") && got.header.Get("Content-Type") == "application/json",
			"%s: %v", c.what, got.header)
		expect.Equal(t, len(rec.arrived()), map[bool]int{true: 1}[c.status == 200], c.what)
	}
	log := b.audit()
	expect.That(t, strings.Contains(log, "ext_authz cannot modify the request") && strings.Contains(log, `"verdict":"deny"`), "records: %s", tail(log, 2000))
	large := add("likes tea", strings.Repeat("tea ", 400_000))
	devCall(t, "POST", "http://"+b.mem0+"/memories", large).want(t, 413, "too large")
	b.memproxy.kill()
	devCall(t, "GET", "http://"+b.mem0+"/v1/stats/", "").want(t, 503, "without memproxy")
	b.restart(settings(t), "--authz", "--authz-unfiltered-reads")
	devCall(t, "GET", "http://"+b.mem0+"/memories?user_id=ann&agent_id=dev", "").want(t, 200, "a read that may stay unfiltered")
	devCall(t, "GET", "http://"+b.mem0+"/memories?user_id=ann", "").want(t, 403, "a read of other agents' too")
	devCall(t, "GET", "http://"+b.mem0+"/memories?user_id=bob", "").want(t, 403, "a read of another's")
	if got := rec.arrived(); slices.Contains(got, "GET /memories?user_id=bob") {
		t.Errorf("arrived %q", got)
	}
}
