package gate_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// Proves CARD-5, TRL-3: tier, source and track record reach the stamp, the record and
// the verdict; the rules are in gate/trust.
func TestTheClamp(t *testing.T) {
	for _, tc := range []struct {
		track   memproxy.Track
		trust   memproxy.Trust
		claimed memproxy.PerMille // 0: none
		source  memproxy.Source
		want    memproxy.PerMille
		rule    string // "-": by the ceiling alone
	}{
		{memproxy.Track{Facts: 50}, memproxy.TrustAuthenticated, 700, "", 700, ""},
		{memproxy.Track{Facts: 10, Corrections: 4}, memproxy.TrustAuthenticated, 700, "", 560, "trust.track"},
		{memproxy.Track{Facts: 10, Corrections: 400}, memproxy.TrustHuman, 1000, "", 500, "trust.track"},
		{memproxy.Track{Facts: 10, Corrections: 400}, memproxy.TrustAuthenticated, 0, "", 350, "trust.track"},
		{memproxy.Track{Facts: 10, Corrections: 4}, memproxy.TrustAuthenticated, 900, memproxy.SourceHostile, 300, "-"},
	} {
		r, j := anyAgent(t, func(r *rig) { r.who.Trust = tc.trust })
		j.track = tc.track
		op := learn("a note")
		op.SourceClaim = tc.source
		if tc.claimed > 0 {
			op.ConfidenceClaims = []memproxy.ConfidenceClaim{{Pointer: "/c", Claimed: tc.claimed, Legible: true}}
		}
		a := r.admit(op)
		rule, clamped := "", false
		for _, why := range a.Decision.Recorded() {
			rule, clamped = why.Rule, why.Code == memproxy.TrustClamped
		}
		expect.That(t, r.fake.stamp.Confidence == tc.want && clamped == (tc.rule != "") && (!clamped || rule == strings.Trim(tc.rule, "-")),
			"%+v: %d, %+v", tc, r.fake.stamp.Confidence, a.Decision.Recorded())
		if amends := a.Decision.Verdict == memproxy.Amend; amends != (clamped && tc.claimed > 0) {
			t.Errorf("%+v: %v", tc, a.Decision.Verdict)
		}
		ev := r.recorder.last()
		expect.That(t, ev.Confidence == tc.want && (tc.claimed == 0 || ev.Claimed == tc.claimed), "%+v: recorded are %d of %d", tc, ev.Confidence, ev.Claimed)
	}
}

func TestTrackRecordsAreKeptForAWhile(t *testing.T) {
	r, j := anyAgent(t, nil)
	given := func() memproxy.PerMille { r.admit(learn("a note")); return r.fake.stamp.Confidence }
	j.track = memproxy.Track{Facts: 10}
	for range 3 {
		must.Equal(t, given(), 700)
	}
	expect.Equal(t, j.tracked, 1, "asked")
	// A correction of the author's ends it at once.
	j.track.Corrections = 5
	j.rows["m1"] = by("agent:dev", memproxy.TrustAuthenticated, 700)
	r.who.ID, r.who.Kind = "human:ann", memproxy.KindHuman
	a := r.admit(correct("coffee", "m1"))
	r.gate.Return(context.Background(), a, memproxy.Reply{Status: 200, Body: []byte("{}")})
	r.who.ID, r.who.Kind = "agent:dev", memproxy.KindAgent
	expect.Equal(t, given(), 525)

	// Nobody knows: the worst. The last that was known goes before that.
	r, j = anyAgent(t, nil)
	j.noTrack = errors.New("away")
	expect.Equal(t, given(), 350, "unknown")
}

// Proves TRL-5: an earlier word binds, unless its source is known better now. A
// ledger that cannot say what was said before refuses the write.
func TestEarlierTextsBind(t *testing.T) {
	for name, tc := range map[string]struct {
		said  memproxy.Retraction
		broke error
		want  memproxy.PerMille
	}{
		"nothing said":         {memproxy.Retraction{}, nil, 700},
		"said with less":       {memproxy.Retraction{Confidence: 200, Attestation: memproxy.SelfReported}, nil, 200},
		"inferred, now stated": {memproxy.Retraction{Confidence: 200, Attestation: memproxy.Inferred}, nil, 700},
		"nobody can say":       {memproxy.Retraction{}, errBroken, 0},
	} {
		r, j := anyAgent(t, nil)
		j.said, j.noRetraction = tc.said, tc.broke
		op := learn("a note")
		op.ConfidenceClaims = []memproxy.ConfidenceClaim{{Pointer: "/c", Claimed: 700, Legible: true}}
		a := r.admit(op)
		if tc.want == 0 {
			wantCodes(t, a.Decision, memproxy.Deny, memproxy.LedgerUnavailable)
			continue
		}
		expect.Equal(t, r.fake.stamp.Confidence, tc.want, name)
		if tc.want == 200 {
			wantCodes(t, a.Decision, memproxy.Amend, memproxy.TrustClamped)
		}
	}
}

// Proves TRL-3, TRL-1: what readers would believe of the content, and is not the
// caller's to say (gate/trust), is removed and reported.
func TestAttributionsAreStripped(t *testing.T) {
	r := newRig(t, nil)
	op := learn("x")
	op.Scope.User = "ann"
	op.Attributions = []memproxy.Attribution{
		{Pointer: "/a", Kind: memproxy.AttributesAuthor, Values: []string{"human:boss"}, Legible: true},
		{Pointer: "/b", Kind: memproxy.AttributesAuthor, Values: []string{"ann"}, Legible: true},
	}
	a := r.admit(op)
	wantCodes(t, a.Decision, memproxy.Amend, memproxy.TrustAttribution)
	at := op.Attributions
	expect.That(t, at[0].Removed && !at[1].Removed, "%+v", at)
}
