package gate_test

import (
	"context"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/gate/access"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

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
