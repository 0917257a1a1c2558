package gate_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/internal/expect"
)

func learn(items ...string) memproxy.Operation {
	op := memproxy.Operation{Kind: memproxy.Learn, Cost: 1}
	for _, text := range items {
		op.Items = append(op.Items, memproxy.Item{Kind: memproxy.ItemContent, Text: text})
	}
	return op
}

func claim(d memproxy.Dimension, op memproxy.ClaimOp, values ...string) memproxy.Claim {
	return memproxy.Claim{Dim: d, Op: op, Values: values, Pointer: "/x", Pins: op == memproxy.ClaimIs}
}

// Proves CARD-5, TRL-2, TRL-3
func TestWriteIsStampedAndForwarded(t *testing.T) {
	r := newRig(t, nil)
	a := r.admit(learn("likes tea"))
	wantCodes(t, a.Decision, memproxy.Allow)
	expect.That(t, a.Reply == nil && string(a.Body) == "stamped by agent:dev" && a.Changed, "got reply %v, body %q, changed %v", a.Reply, a.Body, a.Changed)
	got := r.recorder.types()
	expect.That(t, len(got) == 1 && got[0] == memproxy.EventDecision, "events before forwarding: %v", got)
	ev := r.recorder.events[0]
	expect.That(t, ev.Confidence == 700 && ev.Claimed == -1 && ev.Time.Equal(noon), "event %+v: want the ceiling of 700, no claim, and the gate's clock", ev)
}

// Proves TRL-1, SYN-10 (T3), EDGE-3: what the payload names is held to what the caller
// may name (gate/access), and what cannot be filtered memory by memory must be narrowed.
func TestPayloadMayNotNameOthers(t *testing.T) {
	for _, tc := range []struct {
		name string
		op   memproxy.Operation
		want memproxy.ReasonCode // "" is allowed
	}{
		{"its own agent", memproxy.Operation{Kind: memproxy.Recall, Claims: []memproxy.Claim{claim(memproxy.DimAgent, memproxy.ClaimIs, "dev")}}, ""},
		{"another agent", memproxy.Operation{Kind: memproxy.Recall, Claims: []memproxy.Claim{claim(memproxy.DimAgent, memproxy.ClaimIs, "ceo")}}, memproxy.IdentityActsAs},
		{"a list of everything is filtered", memproxy.Operation{Kind: memproxy.Recall}, ""},
		{"a summary of everything", memproxy.Operation{Kind: memproxy.Recall, Derived: true}, memproxy.ScopeUnpinned},
		{"a deletion of everything", memproxy.Operation{Kind: memproxy.Forget, Bulk: true}, memproxy.ScopeUnpinned},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := newRig(t, nil).admit(tc.op)
			if tc.want == "" {
				wantCodes(t, a.Decision, memproxy.Allow)
				return
			}
			wantCodes(t, a.Decision, memproxy.Deny, tc.want)
			expect.That(t, a.Decision.Status == 403 && a.Reply != nil, "status %d, reply %v", a.Decision.Status, a.Reply)
		})
	}
}

func TestCredentialsAreRefusedAndBreakageIsNot403(t *testing.T) {
	for _, tc := range []struct {
		name   string
		err    error
		status int
		code   memproxy.ReasonCode
	}{
		{"missing", &memproxy.CredentialError{Code: memproxy.IdentityMissing}, 401, memproxy.IdentityMissing},
		{"bad", &memproxy.CredentialError{Code: memproxy.IdentityInvalid}, 401, memproxy.IdentityInvalid},
		{"issuer away", errBroken, 503, memproxy.IdentityUnavailable},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, func(r *rig) {
				r.identify = func(context.Context, memproxy.Credentials) (memproxy.Principal, error) {
					return memproxy.Principal{}, tc.err
				}
			})
			a := r.admit(learn("x"))
			wantCodes(t, a.Decision, memproxy.Deny, tc.code)
			expect.Equal(t, a.Decision.Status, tc.status)
		})
	}
}

// An error of any collaborator refuses; none becomes an allow.
func TestEveryBreakageFailsClosed(t *testing.T) {
	for _, tc := range []struct {
		name  string
		smash func(*rig)
		op    memproxy.Operation
		code  memproxy.ReasonCode
	}{
		{"decode", func(r *rig) { r.fake.decodeErr = errBroken }, learn("x"), memproxy.InternalError},
		{"encode", func(r *rig) { r.fake.encodeErr = errBroken }, learn("x"), memproxy.InternalError},
		{"policy", func(r *rig) {
			r.rules.Policy = policy(func(memproxy.Question) (memproxy.Ruling, error) { return memproxy.Ruling{}, errBroken })
		}, learn("x"), memproxy.PolicyError},
		{"budget", func(r *rig) { r.budget.err = errBroken }, learn("x"), memproxy.InternalError},
		{"audit", func(r *rig) { r.recorder.err = errBroken }, learn("x"), memproxy.AuditUnavailable},
		{"audit, on a read", func(r *rig) { r.recorder.err = errBroken }, memproxy.Operation{Kind: memproxy.Recall}, memproxy.AuditUnavailable},
		{"ledger, on an update by id", func(r *rig) { r.ledger.err = errBroken },
			memproxy.Operation{Kind: memproxy.Correct, Cost: 1, TargetKind: memproxy.TargetMemory, Targets: []string{"m1"}}, memproxy.LedgerUnavailable},
		{"ledger, when asked what a name stands for", func(r *rig) {
			r.who.Tenant, r.who.ActsAs, r.fake.located = "", all(), map[string]memproxy.Memory{"a1/human": {ID: "m1", Text: "tea"}}
			r.adapter = losing{attaching{r.fake, noRuns{}}, r.ledger}
		}, byID(memproxy.Attach, "a1/human"), memproxy.LedgerUnavailable},
		{"backend, when asked for an owner", func(r *rig) { r.fetch.err = errBroken },
			memproxy.Operation{Kind: memproxy.Correct, Cost: 1, TargetKind: memproxy.TargetMemory, Targets: []string{"m1"}}, memproxy.UpstreamUnavailable},
		{"screener", func(r *rig) { r.rules.Screener = screener{err: errBroken} }, learn("x"), memproxy.InternalError},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, tc.smash)
			a := r.admit(tc.op)
			wantCodes(t, a.Decision, memproxy.Deny, tc.code)
			expect.That(t, a.Decision.Status == 503 && a.Reply != nil, "status %d, reply %v: want a 503 and nothing forwarded", a.Decision.Status, a.Reply)
			expect.Equal(t, r.budget.used, 0)
		})
	}
}

// Proves CARD-3, TRL-10: shadow mode rules, records, and changes nothing.
func TestShadowForwardsUnchangedAndRecordsWhatItWouldHaveDone(t *testing.T) {
	r := newRig(t, func(r *rig) {
		r.rules.Enforce = false
		r.rules.Policy = says(memproxy.Deny, memproxy.PolicyForbid)
	})
	a := r.admit(learn("x"))
	wantCodes(t, a.Decision, memproxy.Allow, memproxy.PolicyForbid)
	expect.That(t, a.Decision.ShadowVerdict == memproxy.Deny && a.Reply == nil && string(a.Body) == "body" && !a.Changed && !a.Inspect,
		"decision %+v, body %q, changed %v, inspect %v", a.Decision, a.Body, a.Changed, a.Inspect)
	ev := r.recorder.events[0]
	expect.That(t, ev.Verdict == memproxy.Allow && ev.ShadowVerdict == memproxy.Deny, "recorded %v, would %v", ev.Verdict, ev.ShadowVerdict)
}

func TestShadowPolicyIsNotEnforced(t *testing.T) {
	r := newRig(t, func(r *rig) {
		r.rules.Policy = policy(func(memproxy.Question) (memproxy.Ruling, error) {
			return memproxy.Ruling{ShadowVerdict: memproxy.Deny, Shadow: []memproxy.Reason{{Code: memproxy.PolicyBulk}}}, nil
		})
	})
	a := r.admit(learn("x"))
	wantCodes(t, a.Decision, memproxy.Allow, memproxy.PolicyBulk)
	expect.Equal(t, a.Decision.ShadowVerdict, memproxy.Deny, "would")
	expect.Equal(t, string(a.Body), "stamped by agent:dev", "would")
}

// Proves TRL-10, EDGE-13: development forwards reads of routes that are new, and none that a
// server could take for a known one.
func TestUnknownRoutes(t *testing.T) {
	for _, tc := range []struct {
		name    string
		method  string
		path    string
		profile gate.Profile
		denied  bool
	}{
		{"a write in production", "POST", "/new", gate.Production, true},
		{"a write in development", "PATCH", "/new", gate.Development, true},
		{"a read in production", "GET", "/new", gate.Production, true},
		{"a read in development", "GET", "/v9/new/", gate.Development, false},
		{"with an encoded id", "GET", "/new/ann%40example.com", gate.Development, false},
		{"of a known route with a slash at its end", "GET", "/memory/", gate.Development, false},
		{"of a known route with other slashes", "GET", "//memory/", gate.Development, true},
		{"with dots", "GET", "/new/../memory", gate.Development, true},
		{"with encoded dots", "GET", "/new/%2e%2E/memory", gate.Development, true},
		{"with an encoded slash", "HEAD", "/new/..%2fmemory", gate.Development, true},
		{"with an encoded end", "GET", "/memory%3Fx/", gate.Development, true},
		{"with an encoded line end", "GET", "/memory%0A", gate.Development, true},
		{"of a known route with an encoded letter", "GET", "/%6demory", gate.Development, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, func(r *rig) { r.rules.Profile = tc.profile })
			c := r.call(memproxy.Operation{})
			c.Known, c.Route, c.Request.Method, c.Request.EscapedPath = false, memproxy.Route{}, tc.method, tc.path
			c.Backend.Adapter = onlyMemory{r.fake}
			a := r.gate.Admit(context.Background(), c)
			if tc.denied {
				wantCodes(t, a.Decision, memproxy.Deny, memproxy.RouteUnknown)
			} else {
				wantCodes(t, a.Decision, memproxy.Allow)
			}
			expect.Len(t, r.recorder.events, 1)
		})
	}
}

// Proves EDGE-18: a path that is a route with another method or other slashes, or behind the
// path of a base URL, is refused with that route's name, not with the advice to let it pass.
func TestMisspeltPathsAreNamed(t *testing.T) {
	r := newRig(t, nil)
	for request, want := range map[string]string{
		"PUT /memory":       "it knows the path with the method GET:",
		"POST /memory/":     "it knows the path with different slashes:",
		"POST //memory":     "it knows the path with different slashes:",
		"POST /v1/memory":   "it knows the path without its first segment:",
		"POST /v1//memory/": "it knows the path without its first segment:",
		"POST /memories":    "list it as passthrough",
		"POST /a/b/memory":  "list it as passthrough",
		"POST /memory/x":    "list it as passthrough",
		"POST //":           "the path has two slashes in a row",
		"POST /./memory":    "the path has a segment that is a dot or two, which servers may read differently",
		"POST /memory%2F":   "the path has percent-encoded characters, which servers may read differently",
	} {
		c := r.call(memproxy.Operation{})
		c.Known, c.Route = false, memproxy.Route{}
		c.Request.Method, c.Request.EscapedPath, _ = strings.Cut(request, " ")
		c.Backend.Adapter = onlyMemory{r.fake}
		a := r.gate.Admit(context.Background(), c)
		wantCodes(t, a.Decision, memproxy.Deny, memproxy.RouteUnknown)
		expect.Text(t, a.Decision.Reasons[0].Detail, request, want).Has("; " + want)
	}
}

// onlyMemory is an adapter with one route.
type onlyMemory struct{ *fakeAdapter }

func (onlyMemory) Route(q memproxy.Request) (memproxy.Route, bool) {
	return memproxy.Route{ID: "toy.add"}, q.EscapedPath == "/memory" && q.Method != "PUT"
}

func TestMalformedIsRefusedWithItsStatusAndRecorded(t *testing.T) {
	r := newRig(t, func(r *rig) {
		r.fake.decodeErr = &memproxy.Flaw{Code: memproxy.PayloadDuplicate, Status: 422, Detail: "a key twice", Pointer: "/messages"}
	})
	a := r.admit(learn("x"))
	wantCodes(t, a.Decision, memproxy.Deny, memproxy.PayloadDuplicate)
	expect.Equal(t, a.Decision.Status, 422)
	expect.Len(t, r.recorder.events, 1)
}

// Proves CARD-7: who hangs up before the decision is in the log does not stay
// out of it.
func TestHangingUpDoesNotAvoidTheRecord(t *testing.T) {
	r := newRig(t, func(r *rig) { r.who.ActsAs = memproxy.Limit{} })
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	op := learn("x")
	op.Claims = []memproxy.Claim{claim(memproxy.DimAgent, memproxy.ClaimIs, "ceo")}
	r.fake.op = op
	a := r.gate.Admit(ctx, r.call(op))
	wantCodes(t, a.Decision, memproxy.Deny, memproxy.IdentityActsAs)
	expect.Equal(t, len(r.recorder.events), 1)
	expect.Equal(t, r.recorder.events[0].Decision, a.Decision.ID)
}

// Proves CARD-7: a log that hangs costs a request its deadline and is answered
// with 503; nothing is forwarded.
func TestHangingLogIsRefusedInTime(t *testing.T) {
	r := newRig(t, func(r *rig) { r.recorder.hangs, r.recordTimeout = true, time.Millisecond })
	a := r.admit(learn("x"))
	wantCodes(t, a.Decision, memproxy.Deny, memproxy.AuditUnavailable)
	expect.Equal(t, a.Decision.ShadowVerdict, memproxy.Deny, "would is")
	expect.That(t, a.Reply != nil && a.Decision.Status == 503, "status %d, reply %v: want 503 and nothing forwarded", a.Decision.Status, a.Reply)
	expect.Equal(t, r.budget.used, 0)
}

// Proves CARD-7: the record of a request that is refused before its content is weighed
// says neither that a confidence of zero was claimed nor that one was given.
func TestUnweighedContentHasNoConfidence(t *testing.T) {
	r := newRig(t, func(r *rig) { r.who.ActsAs = memproxy.Limit{} })
	op := learn("x")
	op.ConfidenceClaims = []memproxy.ConfidenceClaim{{Pointer: "/c", Claimed: 990, Legible: true}}
	op.Claims = []memproxy.Claim{claim(memproxy.DimAgent, memproxy.ClaimIs, "ceo")}
	wantCodes(t, r.admit(op).Decision, memproxy.Deny, memproxy.IdentityActsAs)
	ev := r.recorder.last()
	expect.That(t, ev.Claimed == -1 && ev.Confidence == -1, "claimed %d, given %d", ev.Claimed, ev.Confidence)
}
