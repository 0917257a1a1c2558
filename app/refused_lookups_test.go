package app_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
)

// refuser is a backend that refuses all reads with a status, as for a rate limit, and counts
// the other requests that arrive.
type refuser struct {
	status  atomic.Int32
	arrived atomic.Int32
}

func (f *refuser) in(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status := int(f.status.Load())
		switch {
		case status == 0:
		case r.Method == http.MethodGet:
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Retry-After", "17")
			w.WriteHeader(status)
			fmt.Fprint(w, `{"detail":"Unauthorized"}`)
			return
		default:
			f.arrived.Add(1)
		}
		next.ServeHTTP(w, r)
	})
}

// of refuses only the reads that match.
func (f *refuser) of(match func(*http.Request) bool) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		refusing := f.in(next)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet && !match(r) {
				next.ServeHTTP(w, r)
				return
			}
			refusing.ServeHTTP(w, r)
		})
	}
}

// refused checks that a request is answered as the backend answers memproxy's look-up.
func (f *refuser) refused(r *rig, method, path, body string, status int) {
	r.t.Helper()
	a := r.do(method, path, body, "Authorization", "Bearer "+devToken)
	if after := a.header.Get("Retry-After"); a.status != status || status == http.StatusTooManyRequests && after != "17" {
		r.t.Errorf("%s %s: %d, Retry-After %q, want %d and 17: %s", method, path, a.status, after, status, a.body)
	}
	if no := a.header.Get("X-Should-Retry"); status == http.StatusTooManyRequests && no != "" {
		r.t.Errorf("%s %s: the SDK is told %q about a retry", method, path, no)
	}
	expect.Equal(r.t, f.arrived.Swap(0), 0, method, path)
}

// recorded waits for the record of what the backend answered.
func (f *refuser) recorded(r *rig, status int) {
	r.t.Helper()
	ring.Until(r.t, fmt.Sprintf("the record of %d", status), func() bool {
		return strings.Contains(r.audit("--verdict", "deny"), fmt.Sprintf("the backend answered %d when memproxy looked the object up", status))
	})
}

// Proves CARD-1: if Letta limits the caller's rate or refuses its right while memproxy looks
// something up, the client gets that answer, and no part of the request is sent.
func TestLettaRefusesALookUp(t *testing.T) {
	t.Parallel()
	f := &refuser{}
	l := startLettaBehind(t, someAgent, f.in)
	block := must.Get(http.Post(l.up+"/v1/blocks/", "application/json", strings.NewReader(`{"label":"human","value":"x"}`)))(t)
	made, _, _ := strings.Cut(strings.SplitN(string(must.Get(io.ReadAll(block.Body))(t)), `"id":"`, 2)[1], `"`)
	for _, status := range []int{http.StatusTooManyRequests, http.StatusForbidden, http.StatusUnauthorized} {
		f.status.Store(int32(status))
		f.refused(l.rig, "PATCH", "/v1/blocks/"+made, `{"value":"y"}`, status)
		f.refused(l.rig, "PATCH", "/v1/agents/"+l.agent+"/core-memory/blocks/human", `{"value":"y"}`, status)
		f.refused(l.rig, "POST", "/v1/agents/"+l.agent+"/messages", `{"input":"SAY hello"}`, status)
		f.refused(l.rig, "POST", "/v1/agents/"+l.agent+"/messages", `{"input":"SAY hello","streaming":true}`, status)
		f.refused(l.rig, "POST", "/v1/agents/"+l.agent+"/tools/memory_insert/run", `{"args":{"label":"human","new_string":"y"}}`, status)
		f.refused(l.rig, "POST", "/v1/agents/"+l.agent+"/tools/archival_memory_search/run", `{"args":{"query":"y"}}`, status)
		l.outcomes(fmt.Sprintf(`"status":%d`, status))
		if status != http.StatusUnauthorized { // which is not the object's
			f.recorded(l.rig, status)
		}
	}
	f.status.Store(0)
	l.say("SAY hello", "").want(t, 200).has(t, "hello")
}

// Proves CARD-1: the same for a run whose changes are ruled on afterwards, if what it may change
// cannot be read.
func TestLettaRefusesTheLookUpsOfACompensatedRun(t *testing.T) {
	t.Parallel()
	f := &refuser{}
	l := startLettaWith(t, olderAgent, compensating, f.of(func(r *http.Request) bool { return r.URL.Path == "/v1/blocks/" }))
	for _, status := range []int{http.StatusTooManyRequests, http.StatusForbidden, http.StatusUnauthorized} {
		f.status.Store(int32(status))
		f.refused(l.rig, "POST", "/v1/agents/"+l.agent+"/messages", `{"input":"SAY hello"}`, status)
	}
	f.status.Store(0)
	l.say("SAY hello", "").want(t, 200).has(t, "hello")
}

// Proves CARD-1: if Letta refuses only to say which tool a request runs, the client gets that
// answer, and the tool does not run.
func TestLettaRefusesAProbe(t *testing.T) {
	t.Parallel()
	f := &refuser{}
	l := startLettaBehind(t, searchingAgent, f.of(func(r *http.Request) bool { return r.URL.RawQuery == "include=agent.tools" }))
	for _, status := range []int{http.StatusTooManyRequests, http.StatusForbidden, http.StatusUnauthorized} {
		f.status.Store(int32(status))
		f.refused(l.rig, "POST", "/v1/agents/"+l.agent+"/tools/memory_insert/run", `{"args":{"label":"human","new_string":"y"}}`, status)
		f.refused(l.rig, "POST", "/v1/agents/"+l.agent+"/tools/archival_memory_search/run", `{"args":{"query":"y"}}`, status)
	}
	l.blocks("Ann", "helper")
}

// Proves EDGE-1, TRL-6: if Letta refuses a tool run that memproxy makes for an agent, the agent
// reads that the call failed, the turn goes on, and the call is recorded with that status and
// is not charged.
func TestLettaRefusesAToolRunOfMemproxys(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusTooManyRequests, http.StatusForbidden} {
		l := startLettaBehind(t, searchingAgent, func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if strings.HasSuffix(r.URL.Path, "/run") {
					http.Error(w, `{"detail":"no"}`, status)
					return
				}
				next.ServeHTTP(w, r)
			})
		})
		l.say("CALL memory_insert {\"label\":\"human\",\"new_string\":\"likes tea\",\"memproxy_trust\":\"system\"}\nTHEN\nSAY done", "").want(t, 200).has(t, "done", "the call failed")
		l.say("CALL archival_memory_search {\"query\":\"tea\"}\nTHEN\nSAY done", "").want(t, 200).has(t, "done", "the call failed")
		l.blocks("Ann", "helper")
		for _, call := range []string{"/memory_insert", "letta.run_tool_for_agent"} {
			expect.Text(t, l.outcomes(call), status).Has(fmt.Sprintf(`"status":%d`, status))
		}
	}
}

// Proves CARD-1, EDGE-1: a look-up that the backend refuses after a turn has begun does not
// refuse the client's request: its SDK would repeat the message, which the agent has read.
func TestLettaRefusesALookUpOfATurn(t *testing.T) {
	t.Parallel()
	f := &refuser{}
	l := startLettaBehind(t, someAgent, func(next http.Handler) http.Handler {
		refusing := f.in(next)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			refusing.ServeHTTP(w, r)
			if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/messages") {
				f.status.Store(http.StatusTooManyRequests)
			}
		})
	})
	a := l.say(poisoned, "")
	if a.status != http.StatusBadGateway || a.header.Get("X-Should-Retry") != "false" || a.header.Get("Retry-After") == "17" {
		t.Errorf("%d %v %s", a.status, a.header, a.body)
	}
	f.status.Store(0)
	l.say("SAY hello", "").want(t, 200).has(t, "hello")
}

// Proves CARD-1: if Letta rejects memproxy's own credential in a look-up before a turn, the
// decision in the header is that of the answer.
func TestLettaRejectsTheLentCredentialInALookUp(t *testing.T) {
	t.Parallel()
	f := &refuser{}
	conf := strings.Replace(lettaConf, `upstream: "LETTA"`, `upstream: "LETTA", credential: "sesame"`, 1)
	l := startLettaWith(t, someAgent, conf, f.in)
	f.status.Store(http.StatusUnauthorized)
	if a := l.say("SAY hello", ""); a.status != http.StatusBadGateway || !strings.HasPrefix(a.header.Get("X-Memproxy-Decision"), "deny") {
		t.Errorf("%d %v %s", a.status, a.header, a.body)
	}
}

// Proves CARD-1: the same for Mem0, hosted and self-hosted.
func TestMem0RefusesALookUp(t *testing.T) {
	t.Parallel()
	f := &refuser{}
	up := httptest.NewServer(f.in(http.NotFoundHandler()))
	t.Cleanup(up.Close)
	r := start(t, withMem0+`    - {sha256: "KEY", id: "agent:dev", kind: agent, trust: authenticated, tenant: acme, acts_as: "*"}
`, "UPSTREAM", up.URL)
	for _, status := range []int{http.StatusTooManyRequests, http.StatusForbidden} {
		f.status.Store(int32(status))
		for _, path := range []string{"/v1/memories/m-1/", "/memories/m-1"} {
			f.refused(r, "PUT", path, `{"text":"likes tea"}`, status)
			f.refused(r, "DELETE", path, "", status)
		}
		f.recorded(r, status)
	}
}
