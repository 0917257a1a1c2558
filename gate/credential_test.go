package gate_test

import (
	"context"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/gate/access"
	"github.com/memproxy/memproxy/gate/backend"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// Proves EDGE-18: a caller whom only memproxy's own credential keeps out is told whose it
// is, and does not take the backend's 401 for a judgement of its own key. A 401 for another
// reason, and one for a credential that the caller brought, is the backend's.
func TestARefusedCredentialIsMemproxys(t *testing.T) {
	for name, tc := range map[string]struct {
		lends, known, about bool
		want                int
	}{
		"memproxy's":     {true, true, true, 502},
		"the caller's":   {false, true, true, 401},
		"of no caller":   {true, false, true, 401},
		"not the access": {true, true, false, 401},
	} {
		r := newRig(t, nil)
		r.adapter = guarded{noRuns{}, r.fake, tc.about}
		r.fake.op = learn("likes tea")
		call := r.call(r.fake.op)
		call.Backend.ReplacesCredential = tc.lends
		a := r.gate.Admit(context.Background(), call)
		if !tc.known {
			a.Principal.ID = ""
		}
		reply := r.gate.Return(context.Background(), a, memproxy.Reply{Status: 401, Body: []byte(`{"detail":"Unauthorized"}`)})
		expect.That(t, reply.Status == tc.want && strings.Contains(string(reply.Body), "backends[].credential") == (tc.want == 502), "%s: %d %s", name, reply.Status, reply.Body)
		expect.Equal(t, r.recorder.last().Status, 401, name, "the backend answered")
	}
}

// guarded tells whether a 401 is about the request's credential.
type guarded struct {
	noRuns
	*fakeAdapter
	about bool
}

func (g guarded) RefusesCredential(memproxy.Reply) bool { return g.about }

// Proves CARD-1: a client whose credential, right or rate the backend refuses is told so, also
// if memproxy notices it first, while looking up the object that the request changes. It is not
// counted as a rejection of an unknown caller, and the record says what the backend answered. A
// backend that fails is named with its status.
func TestARefusedLookUpIsTheBackends(t *testing.T) {
	limited := memproxy.Header{"Retry-After": {"17"}, "X-Ratelimit-Remaining": {"0"}, "Server": {"x"}}
	for name, tc := range map[string]struct {
		lends  bool
		answer int
		header memproxy.Header
		want   int
		detail string
	}{
		"the caller's credential":       {false, 401, nil, 401, "does not accept this credential"},
		"memproxy's credential":         {true, 401, nil, 502, "backends[].credential"},
		"the caller's right":            {false, 403, nil, 403, "answered 403"},
		"a rate limit":                  {false, 429, limited, 429, "answered 429"},
		"a rate limit of memproxy's":    {true, 429, limited, 429, "answered 429"},
		"a rate limit without an end":   {false, 429, nil, 429, "answered 429"},
		"a failure":                     {false, 500, nil, 503, "answered 500"},
		"a failure that names a second": {false, 503, limited, 503, "answered 503"},
	} {
		for _, kind := range []memproxy.Kind{memproxy.Correct, memproxy.Forget} {
			r := newRig(t, func(r *rig) { r.fetch.status, r.fetch.header, r.rejections = tc.answer, tc.header, 5 })
			r.fake.op = byID(kind, "m1")
			call := r.call(r.fake.op)
			call.Backend.ReplacesCredential = tc.lends
			for range 10 {
				a := r.gate.Admit(context.Background(), call)
				wantCodes(t, a.Decision, memproxy.Deny, memproxy.UpstreamUnavailable)
				d := a.Decision
				must.That(t, d.Status == tc.want && strings.Contains(d.Reasons[0].Detail, tc.detail), "%s: %d %v", name, d.Status, d.Reasons)
				last := r.recorder.last()
				expect.That(t, last.Verdict == memproxy.Deny && strings.Contains(last.Reasons[0].Detail, tc.detail), "%s: the record has %s %v", name, last.Verdict, last.Reasons)
				if tc.want != 429 {
					continue
				}
				for _, h := range []string{"Retry-After", "X-Ratelimit-Remaining", "Server"} {
					want := tc.header.Get(h)
					if h == "Server" {
						want = ""
					}
					expect.Equal(t, a.Reply.Header.Get(h), want, name, h)
				}
			}
		}
	}
}

// Proves EDGE-13: no redirect that a browser reads as one to another host leads back. It
// ignores blanks at the start, tabs and line breaks, and takes \ for /.
func TestRedirectsLeadBack(t *testing.T) {
	t.Parallel()
	for to, want := range map[string]bool{
		"": true, "/memory/?a=b": true, "memory": true, "?page=2": true,
		"//elsewhere.example": false, "///elsewhere.example": false, " //elsewhere.example": false, `/\elsewhere.example`: false,
		"/\t/elsewhere.example": false, "https:elsewhere.example": false,
	} {
		expect.Equal(t, backend.LeadsBack(to), want, to)
	}
}

// Proves TRL-1: a run that goes on writes nothing with a key that was removed
// since, or that is another caller's by now. One of a token, or of a key that
// stays, does.
func TestRunsOfRemovedKeysWriteNothing(t *testing.T) {
	for name, tc := range map[string]struct {
		method string
		now    func(*memproxy.Principal) error
		want   memproxy.Verdict
	}{
		"a key that stays": {"key", func(*memproxy.Principal) error { return nil }, memproxy.Allow},
		"a removed key":    {"key", func(*memproxy.Principal) error { return &memproxy.CredentialError{Code: memproxy.IdentityInvalid} }, memproxy.Deny},
		"no answer":        {"key", func(*memproxy.Principal) error { return errBroken }, memproxy.Deny},
		"another's key":    {"key", func(p *memproxy.Principal) error { p.ID = "agent:other"; return nil }, memproxy.Deny},
		"another tenant's": {"key", func(p *memproxy.Principal) error { p.Tenant = "globex"; return nil }, memproxy.Deny},
		"an expired token": {"oidc", func(*memproxy.Principal) error { return &memproxy.CredentialError{Code: memproxy.IdentityInvalid} }, memproxy.Allow},
	} {
		later := false
		r := newRig(t, func(r *rig) {
			r.who.Method = tc.method
			r.identify = func(context.Context, memproxy.Credentials) (memproxy.Principal, error) {
				p := r.who
				if !later {
					return p, nil
				}
				err := tc.now(&p)
				return p, err
			}
		})
		r.fake.op = memproxy.Operation{Kind: memproxy.Run}
		call := r.call(r.fake.op)
		if !r.gate.Identify(context.Background(), call) { // as a listener does
			t.Fatal(name)
		}
		a := r.gate.Admit(context.Background(), call)
		wantCodes(t, a.Decision, memproxy.Allow)
		charged := r.budget.used
		later = true
		op := learn("tea")
		asked := r.gate.Agents().RuleOnCall(context.Background(), a, memproxy.ToolCall{ID: "c", Tool: "memory_insert", Operation: &op})
		expect.Equal(t, asked.Decision.Verdict, tc.want, name, asked.Decision)
		if tc.want == memproxy.Deny {
			status, code := memproxy.StatusForbidden, memproxy.IdentityInvalid
			if name == "no answer" {
				status, code = memproxy.StatusUnavailable, memproxy.IdentityUnavailable
			}
			wantCodes(t, asked.Decision, memproxy.Deny, code)
			expect.Equal(t, asked.Decision.Status, status, name)
			expect.Equal(t, r.budget.used, charged, name, "it was charged")
		}
	}
}

// Proves CARD-3, TRL-1: rules that change, and a key that is removed, while a request is
// under way decide nothing of it: its answer is filtered by the rules that it pinned, for
// whom it was admitted. The next request has the new ones, and no caller.
func TestAnswersKeepTheRulesThatTheyPinned(t *testing.T) {
	for was, next := range map[access.Unattributed]access.Unattributed{access.Visible: access.Hidden, access.Hidden: access.Visible} {
		removed := false
		r := newRig(t, func(r *rig) {
			r.rules.Unattributed, r.who.ActsAs = was, all()
			r.identify = func(context.Context, memproxy.Credentials) (memproxy.Principal, error) {
				if removed {
					return memproxy.Principal{}, &memproxy.CredentialError{Code: memproxy.IdentityInvalid}
				}
				return r.who, nil
			}
		})
		r.fake.memories = []memproxy.Memory{{Pointer: "/0", ID: "nobodys"}}
		shown := map[access.Unattributed]string{access.Visible: "nobodys", access.Hidden: ""}
		answer := func(a *gate.Admission) string {
			return string(r.gate.Return(context.Background(), a, memproxy.Reply{Status: 200, Body: []byte("everything")}).Body)
		}
		under := r.admit(memproxy.Operation{Kind: memproxy.Recall})
		rules := *r.rules
		rules.Version, rules.Unattributed = "v2", next
		must.Do(t, r.gate.Use(&rules))
		later := r.admit(memproxy.Operation{Kind: memproxy.Recall})
		removed = true
		expect.Equal(t, answer(under), shown[was], was, "then", next, "the request under way shows")
		expect.Equal(t, answer(later), shown[next], was, "then", next, "the next one shows")
		if a := r.admit(memproxy.Operation{Kind: memproxy.Recall}); a.Reply == nil {
			t.Error("a removed key is served")
		}
	}
}
