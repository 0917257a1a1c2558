package app_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/memproxy/memproxy/internal/expect"
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
			w.Header().Set("Retry-After", "17")
			replies(w, status, `{"detail":"Unauthorized"}`)
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
	a := r.do(method, path, body)
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
// something up, the client gets that answer, and no part of the request is sent: for all
// look-ups, only those of what a compensated run may change, and only that of the tool that a
// request runs.
func TestLettaRefusesALookUp(t *testing.T) {
	t.Parallel()
	const ofAgent, says = "/v1/agents/AGENT", `{"input":"SAY hello"}`
	insert := [3]string{"POST", ofAgent + "/tools/memory_insert/run", `{"args":{"label":"human","new_string":"y"}}`}
	search := [3]string{"POST", ofAgent + "/tools/archival_memory_search/run", `{"args":{"query":"y"}}`}
	for name, tc := range map[string]struct {
		agent, conf string
		of          func(*http.Request) bool
		calls       [][3]string
	}{
		"all": {someAgent, lettaConf, func(*http.Request) bool { return true }, [][3]string{
			{"PATCH", "/v1/blocks/BLOCK", `{"value":"y"}`}, {"PATCH", ofAgent + "/core-memory/blocks/human", `{"value":"y"}`},
			{"POST", ofAgent + "/messages", says}, {"POST", ofAgent + "/messages", `{"input":"SAY hello","streaming":true}`}, insert, search,
		}},
		"a compensated run": {olderAgent, compensating, func(r *http.Request) bool { return r.URL.Path == "/v1/blocks/" }, [][3]string{{"POST", ofAgent + "/messages", says}}},
		"a tool":            {searchingAgent, lettaConf, func(r *http.Request) bool { return r.URL.RawQuery == "include=agent.tools" }, [][3]string{insert, search}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &refuser{}
			l := startLettaWith(t, tc.agent, tc.conf, f.of(tc.of))
			fill := strings.NewReplacer("AGENT", l.agent, "BLOCK", got{body: l.behind("POST", "/v1/blocks/", `{"label":"human","value":"x"}`)}.id(t))
			for _, status := range []int{http.StatusTooManyRequests, http.StatusForbidden, http.StatusUnauthorized} {
				f.status.Store(int32(status))
				for _, c := range tc.calls {
					f.refused(l.rig, c[0], fill.Replace(c[1]), c[2], status)
				}
				if name == "all" {
					l.outcomes(fmt.Sprintf(`"status":%d`, status))
				}
				if name == "all" && status != http.StatusUnauthorized { // which is not the object's
					f.recorded(l.rig, status)
				}
			}
			f.status.Store(0)
			l.say("SAY hello", "").want(t, 200).has(t, "hello")
			l.blocks("Ann", "helper")
		})
	}
}

// Proves EDGE-1, TRL-6: if Letta refuses a tool run that memproxy makes for an agent, the agent
// reads that the call failed, the turn goes on, and the call is recorded with that status and
// is not charged.
func TestLettaRefusesAToolRunOfMemproxys(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusTooManyRequests, http.StatusForbidden} {
		l := startLettaBehind(t, searchingAgent, answering(func(w http.ResponseWriter, r *http.Request) bool {
			return strings.HasSuffix(r.URL.Path, "/run") && replies(w, status, `{"detail":"no"}`)
		}))
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
	expect.Equal(t, a.status == http.StatusBadGateway && a.header.Get("X-Should-Retry") == "false" && a.header.Get("Retry-After") != "17", true, a.status, a.header, a.body)
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
	l.say("SAY hello", "").want(t, http.StatusBadGateway).decided(t, "deny")
}

// Proves CARD-1: the same for Mem0, hosted and self-hosted.
func TestMem0RefusesALookUp(t *testing.T) {
	t.Parallel()
	f := &refuser{}
	up := serving(t, f.in(http.NotFoundHandler()))
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
