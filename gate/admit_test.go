package gate_test

import (
	"context"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate"
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
	if a.Reply != nil || string(a.Body) != "stamped by agent:dev" || !a.Changed {
		t.Errorf("got reply %v, body %q, changed %v", a.Reply, a.Body, a.Changed)
	}
	if got := r.recorder.types(); len(got) != 1 || got[0] != memproxy.EventDecision {
		t.Errorf("events before forwarding: %v", got)
	}
	if ev := r.recorder.events[0]; ev.Confidence != 700 || ev.Claimed != -1 || !ev.Time.Equal(noon) {
		t.Errorf("event %+v: want the ceiling of 700, no claim, and the gate's clock", ev)
	}
}

// Proves CARD-5, TRL-3
func TestConfidenceIsClampedToTheCeiling(t *testing.T) {
	for _, tc := range []struct {
		name    string
		trust   memproxy.Trust
		source  memproxy.Source
		claimed memproxy.PerMille
		legible bool
		want    memproxy.PerMille
		verdict memproxy.Verdict
	}{
		{"anonymous", memproxy.TrustAnonymous, "", 900, true, 300, memproxy.Amend},
		{"authenticated", memproxy.TrustAuthenticated, "", 1000, true, 700, memproxy.Amend},
		{"established", memproxy.TrustEstablished, "", 950, true, 900, memproxy.Amend},
		{"a human may be certain", memproxy.TrustHuman, "", 1000, true, 1000, memproxy.Allow},
		{"under the ceiling nothing changes", memproxy.TrustAuthenticated, "", 700, true, 700, memproxy.Allow},
		{"a source can lower", memproxy.TrustHuman, memproxy.SourceHostile, 1000, true, 300, memproxy.Amend},
		{"a source cannot raise", memproxy.TrustAnonymous, memproxy.SourceTrusted, 900, true, 300, memproxy.Amend},
		{"an unknown tier is the lowest", "root", "", 1000, true, 300, memproxy.Amend},
		{"what cannot be read is the highest claim", memproxy.TrustHuman, "", 1000, false, 1000, memproxy.Amend},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, func(r *rig) { r.who.Trust = tc.trust })
			op := learn("x")
			op.SourceClaim = tc.source
			op.Hints = []memproxy.Hint{{Pointer: "/metadata/confidence", Claimed: tc.claimed, Legible: tc.legible}}
			a := r.admit(op)
			if a.Decision.Verdict != tc.verdict {
				t.Errorf("verdict %v, want %v", a.Decision.Verdict, tc.verdict)
			}
			if ev := r.recorder.events[0]; ev.Confidence != tc.want || ev.Claimed != tc.claimed {
				t.Errorf("confidence %d of claimed %d, want %d of %d", ev.Confidence, ev.Claimed, tc.want, tc.claimed)
			}
		})
	}
}

// Proves TRL-1, SYN-10 (T3)
func TestPayloadMayNotNameOthers(t *testing.T) {
	for _, tc := range []struct {
		name  string
		claim memproxy.Claim
		limit func(*memproxy.Principal)
		want  memproxy.ReasonCode // "" is allowed
	}{
		{"its own agent", claim(memproxy.DimAgent, memproxy.ClaimIs, "dev"), nil, ""},
		{"another agent", claim(memproxy.DimAgent, memproxy.ClaimIs, "ceo"), nil, memproxy.IdentityActsAs},
		{"one of two agents is another", claim(memproxy.DimAgent, memproxy.ClaimIs, "dev", "ceo"), nil, memproxy.IdentityActsAs},
		{"every agent", claim(memproxy.DimAgent, memproxy.ClaimAny), nil, memproxy.IdentityBroad},
		{"every agent but one", claim(memproxy.DimAgent, memproxy.ClaimExclude, "dev"), nil, memproxy.IdentityBroad},
		{"an unknown operator", claim(memproxy.DimAgent, memproxy.ClaimUnclear, "dev"), nil, memproxy.IdentityBroad},
		{"every agent, by one who may be all", claim(memproxy.DimAgent, memproxy.ClaimAny), func(p *memproxy.Principal) { p.ActsAs = all() }, ""},
		{"any user where users are not limited", claim(memproxy.DimUser, memproxy.ClaimIs, "bob"), nil, ""},
		{"its user", claim(memproxy.DimUser, memproxy.ClaimIs, "ann"), func(p *memproxy.Principal) { p.Users = only("ann") }, ""},
		{"another user", claim(memproxy.DimUser, memproxy.ClaimIs, "bob"), func(p *memproxy.Principal) { p.Users = only("ann") }, memproxy.IdentityUser},
		{"another app", claim(memproxy.DimApp, memproxy.ClaimIs, "b"), func(p *memproxy.Principal) { p.Apps = only("a") }, memproxy.IdentityApp},
		{"another run", claim(memproxy.DimRun, memproxy.ClaimIs, "b"), func(p *memproxy.Principal) { p.Runs = only("a") }, memproxy.IdentityRun},
		{"a speaker's name is no authority", claim(memproxy.DimActor, memproxy.ClaimIs, "ceo"), nil, ""},
		{"the empty name is not everyone", claim(memproxy.DimUser, memproxy.ClaimIs, ""), func(p *memproxy.Principal) { p.Users = only("ann") }, memproxy.IdentityUser},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, func(r *rig) {
				if tc.limit != nil {
					tc.limit(&r.who)
				}
			})
			op := memproxy.Operation{Kind: memproxy.Recall, Claims: []memproxy.Claim{tc.claim}}
			a := r.admit(op)
			if tc.want == "" {
				wantCodes(t, a.Decision, memproxy.Allow)
				return
			}
			wantCodes(t, a.Decision, memproxy.Deny, tc.want)
			if a.Decision.Status != 403 || a.Reply == nil {
				t.Errorf("status %d, reply %v", a.Decision.Status, a.Reply)
			}
		})
	}
}

// Proves EDGE-3: what cannot be filtered memory by memory must be narrowed first.
func TestUnfilterableOperationsMustBePinned(t *testing.T) {
	pinned := claim(memproxy.DimUser, memproxy.ClaimIs, "ann")
	loose := pinned
	loose.Pins = false
	for _, tc := range []struct {
		name   string
		op     memproxy.Operation
		denied bool
	}{
		{"summary of one's user", memproxy.Operation{Kind: memproxy.Recall, Derived: true, Claims: []memproxy.Claim{pinned}}, false},
		{"summary of everything", memproxy.Operation{Kind: memproxy.Recall, Derived: true}, true},
		{"summary pinned only inside OR", memproxy.Operation{Kind: memproxy.Recall, Derived: true, Claims: []memproxy.Claim{loose}}, true},
		{"bulk delete of everything", memproxy.Operation{Kind: memproxy.Forget, Bulk: true}, true},
		{"list of everything is filtered instead", memproxy.Operation{Kind: memproxy.Recall}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, func(r *rig) { r.who.ActsAs, r.who.Users = all(), only("ann") })
			a := r.admit(tc.op)
			if tc.denied {
				wantCodes(t, a.Decision, memproxy.Deny, memproxy.ScopeUnpinned)
			} else {
				wantCodes(t, a.Decision, memproxy.Allow)
			}
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
		{"missing", &memproxy.Rejected{Code: memproxy.IdentityMissing}, 401, memproxy.IdentityMissing},
		{"bad", &memproxy.Rejected{Code: memproxy.IdentityInvalid}, 401, memproxy.IdentityInvalid},
		{"issuer away", errBroken, 503, memproxy.InternalError},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, func(r *rig) {
				r.identify = func(context.Context, memproxy.Credentials) (memproxy.Principal, error) {
					return memproxy.Principal{}, tc.err
				}
			})
			a := r.admit(learn("x"))
			wantCodes(t, a.Decision, memproxy.Deny, tc.code)
			if a.Decision.Status != tc.status {
				t.Errorf("status %d, want %d", a.Decision.Status, tc.status)
			}
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
		{"backend, when asked for an owner", func(r *rig) { r.fetch.err = errBroken },
			memproxy.Operation{Kind: memproxy.Correct, Cost: 1, TargetKind: memproxy.TargetMemory, Targets: []string{"m1"}}, memproxy.UpstreamUnavailable},
		{"screener", func(r *rig) { r.rules.Screener = brokenScreener{} }, learn("x"), memproxy.InternalError},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, tc.smash)
			a := r.admit(tc.op)
			wantCodes(t, a.Decision, memproxy.Deny, tc.code)
			if a.Decision.Status != 503 || a.Reply == nil {
				t.Errorf("status %d, reply %v: want a 503 and nothing forwarded", a.Decision.Status, a.Reply)
			}
			if r.budget.used != 0 {
				t.Errorf("%d charged although nothing was forwarded", r.budget.used)
			}
		})
	}
}

type brokenScreener struct{ forgetful }

func (brokenScreener) Screen(context.Context, memproxy.Screening) ([]memproxy.Finding, error) {
	return nil, errBroken
}

// Proves CARD-3, TRL-10: shadow mode rules, records, and changes nothing.
func TestShadowForwardsUnchangedAndRecordsWhatItWouldHaveDone(t *testing.T) {
	r := newRig(t, func(r *rig) {
		r.rules.Enforce = false
		r.rules.Policy = policy(func(memproxy.Question) (memproxy.Ruling, error) {
			return memproxy.Ruling{Verdict: memproxy.Deny, Reasons: []memproxy.Reason{{Code: memproxy.PolicyForbid}}}, nil
		})
	})
	a := r.admit(learn("x"))
	wantCodes(t, a.Decision, memproxy.Allow, memproxy.PolicyForbid)
	if a.Decision.Would != memproxy.Deny || a.Reply != nil || string(a.Body) != "body" || a.Changed || a.Inspect {
		t.Errorf("decision %+v, body %q, changed %v, inspect %v", a.Decision, a.Body, a.Changed, a.Inspect)
	}
	if ev := r.recorder.events[0]; ev.Verdict != memproxy.Allow || ev.Would != memproxy.Deny {
		t.Errorf("recorded %v, would %v", ev.Verdict, ev.Would)
	}
}

func TestShadowedPolicyDoesNotBite(t *testing.T) {
	r := newRig(t, func(r *rig) {
		r.rules.Policy = policy(func(memproxy.Question) (memproxy.Ruling, error) {
			return memproxy.Ruling{ShadowVerdict: memproxy.Deny, Shadow: []memproxy.Reason{{Code: memproxy.PolicyBulk}}}, nil
		})
	})
	a := r.admit(learn("x"))
	wantCodes(t, a.Decision, memproxy.Allow, memproxy.PolicyBulk)
	if a.Decision.Would != memproxy.Deny || string(a.Body) != "stamped by agent:dev" {
		t.Errorf("would %v, body %q: want deny, and the write stamped as usual", a.Decision.Would, a.Body)
	}
}

func TestUnknownRoutes(t *testing.T) {
	for _, tc := range []struct {
		name    string
		method  string
		profile gate.Profile
		denied  bool
	}{
		{"a write in production", "POST", gate.Production, true},
		{"a write in development", "PATCH", gate.Development, true},
		{"a read in production", "GET", gate.Production, true},
		{"a read in development", "GET", gate.Development, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, func(r *rig) { r.rules.Profile = tc.profile })
			c := r.call(memproxy.Operation{})
			c.Known, c.Route, c.Request.Method = false, memproxy.Route{}, tc.method
			a := r.gate.Admit(context.Background(), c)
			if tc.denied {
				wantCodes(t, a.Decision, memproxy.Deny, memproxy.RouteUnknown)
			} else {
				wantCodes(t, a.Decision, memproxy.Allow)
			}
			if len(r.recorder.events) != 1 {
				t.Errorf("%d records, want 1: an unknown route is a decision too", len(r.recorder.events))
			}
		})
	}
}

func TestMalformedIsRefusedWithItsStatusAndRecorded(t *testing.T) {
	r := newRig(t, func(r *rig) {
		r.fake.decodeErr = &memproxy.Malformed{Code: memproxy.PayloadDuplicate, Status: 422, Detail: "a key twice", Pointer: "/messages"}
	})
	a := r.admit(learn("x"))
	wantCodes(t, a.Decision, memproxy.Deny, memproxy.PayloadDuplicate)
	if a.Decision.Status != 422 || len(r.recorder.events) != 1 {
		t.Errorf("status %d, %d records", a.Decision.Status, len(r.recorder.events))
	}
}
