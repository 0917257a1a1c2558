package gate_test

import (
	"context"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
)

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
