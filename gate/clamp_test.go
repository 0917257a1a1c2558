package gate_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
)

// Proves TRL-3: the track record lowers the ceiling and nothing else; it is
// asked for now and then, and one that nobody can look up counts as the worst.
func TestTheClampByTrackRecord(t *testing.T) {
	for _, tc := range []struct {
		track      memproxy.Track
		trust      memproxy.Trust
		claimed    memproxy.PerMille // 0: none
		source     memproxy.Source
		want       memproxy.PerMille
		clampedFor string // "-": by the ceiling alone
	}{
		{memproxy.Track{Facts: 50}, memproxy.TrustAuthenticated, 900, "", 700, "-"},
		{memproxy.Track{Facts: 50}, memproxy.TrustAuthenticated, 700, "", 700, ""},
		{memproxy.Track{Facts: 10, Corrections: 4}, memproxy.TrustAuthenticated, 700, "", 560, "trust.track"},
		{memproxy.Track{Facts: 10, Corrections: 400}, memproxy.TrustAuthenticated, 700, "", 350, "trust.track"},
		{memproxy.Track{Facts: 10, Corrections: 400}, memproxy.TrustHuman, 1000, "", 500, "trust.track"},
		{memproxy.Track{Facts: 10, Corrections: 400}, memproxy.TrustAuthenticated, 300, "", 300, ""},
		{memproxy.Track{Facts: 10, Corrections: 400}, memproxy.TrustAuthenticated, 0, "", 350, "trust.track"},
		{memproxy.Track{Facts: 10, Corrections: 4}, memproxy.TrustHuman, 0, "", 800, ""}, // 800 of 1000
		{memproxy.Track{Facts: 10, Corrections: 4}, memproxy.TrustAuthenticated, 900, memproxy.SourceHostile, 300, "-"},
	} {
		r, j := judgingRig(t, func(r *rig) { r.who.Trust = tc.trust })
		j.track = tc.track
		op := learn("a note")
		op.SourceClaim = tc.source
		if tc.claimed > 0 {
			op.Hints = []memproxy.Hint{{Pointer: "/c", Claimed: tc.claimed, Legible: true}}
		}
		a := r.admit(op)
		rule, clamped := "", false
		for _, why := range a.Decision.Recorded() {
			rule, clamped = why.Rule, why.Code == memproxy.TrustClamped
		}
		if r.fake.stamp.Confidence != tc.want || clamped != (tc.clampedFor != "") || clamped && rule != strings.Trim(tc.clampedFor, "-") {
			t.Errorf("%+v: %d, %+v", tc, r.fake.stamp.Confidence, a.Decision.Recorded())
		}
		if amends := a.Decision.Verdict == memproxy.Amend; amends != (clamped && tc.claimed > 0) {
			t.Errorf("%+v: %v", tc, a.Decision.Verdict)
		}
	}
}

// Proves TRL-3: of several claims of one write the lowest is what it is let in
// with, wherever it stands.
func TestTheLowestOfSeveralClaimsCounts(t *testing.T) {
	for _, claims := range [][2]memproxy.PerMille{{600, 300}, {300, 600}} {
		r, _ := judgingRig(t, nil)
		op := learn("a note")
		op.Hints = []memproxy.Hint{{Pointer: "/a", Claimed: claims[0], Legible: true}, {Pointer: "/b", Claimed: claims[1], Legible: true}}
		if r.admit(op); r.fake.stamp.Confidence != 300 {
			t.Errorf("%v: let in with %d", claims, r.fake.stamp.Confidence)
		}
	}
}

func TestTrackRecordsAreKeptForAWhile(t *testing.T) {
	r, j := judgingRig(t, nil)
	given := func() memproxy.PerMille { r.admit(learn("a note")); return r.fake.stamp.Confidence }
	j.track = memproxy.Track{Facts: 10}
	for range 3 {
		if got := given(); got != 700 {
			t.Fatalf("%d", got)
		}
	}
	if j.asked != 1 {
		t.Errorf("asked %d times", j.asked)
	}
	// A correction of the author's ends it at once.
	j.track.Corrections = 5
	j.rows["m1"] = by("agent:dev", memproxy.TrustAuthenticated, 700)
	r.who.ID, r.who.Kind = "human:ann", memproxy.KindHuman
	a := r.admit(correct("coffee", "m1"))
	r.gate.Return(context.Background(), a, memproxy.Reply{Status: 200, Body: []byte("{}")})
	r.who.ID, r.who.Kind = "agent:dev", memproxy.KindAgent
	if got := given(); got != 525 {
		t.Errorf("%d, want 0.75 of 700", got)
	}

	// Nobody knows: the worst. The last that was known goes before that.
	r, j = judgingRig(t, nil)
	j.noTrack = errors.New("away")
	if got := given(); got != 350 {
		t.Errorf("unknown: %d", got)
	}
}

// Proves TRL-5: an earlier word binds, unless its source is known better now. A
// ledger that cannot say what was said before refuses the write.
func TestEarlierWordsBind(t *testing.T) {
	for name, tc := range map[string]struct {
		said  *memproxy.Retraction
		broke error
		want  memproxy.PerMille
	}{
		"nothing said":          {nil, nil, 700},
		"said with less":        {&memproxy.Retraction{Confidence: 200, Attestation: memproxy.SelfReported}, nil, 200},
		"said with more":        {&memproxy.Retraction{Confidence: 900, Attestation: memproxy.SelfReported}, nil, 700},
		"said, source unknown":  {&memproxy.Retraction{Confidence: 200}, nil, 200},
		"inferred, now stated":  {&memproxy.Retraction{Confidence: 200, Attestation: memproxy.Inferred}, nil, 700},
		"said, better attested": {&memproxy.Retraction{Confidence: 200, Attestation: memproxy.ToolObserved}, nil, 200},
		"nobody can say":        {nil, errBroken, 0},
	} {
		r, j := judgingRig(t, nil)
		j.said, j.noRetraction = tc.said, tc.broke
		op := learn("a note")
		op.Hints = []memproxy.Hint{{Pointer: "/c", Claimed: 700, Legible: true}}
		a := r.admit(op)
		if tc.want == 0 {
			wantCodes(t, a.Decision, memproxy.Deny, memproxy.LedgerUnavailable)
			continue
		}
		if got := r.fake.stamp.Confidence; got != tc.want {
			t.Errorf("%s: %d, want %d", name, got, tc.want)
		}
		if tc.want == 200 {
			wantCodes(t, a.Decision, memproxy.Amend, memproxy.TrustClamped)
		}
	}
}

// Proves TRL-3, TRL-1: what readers would believe of the content, and is not
// the caller's to say, is taken off and reported; its own name, those that it
// may act for, a machine's role, and what a person says are left.
func TestAttributionsAreTakenOff(t *testing.T) {
	author := func(names ...string) memproxy.Attribution {
		return memproxy.Attribution{Pointer: "/metadata/actor_id", Kind: memproxy.AttributesAuthor, Values: names, Legible: true}
	}
	for name, tc := range map[string]struct {
		at    memproxy.Attribution
		trust memproxy.Trust
		taken bool
	}{
		"a person's name":   {author("human:boss"), memproxy.TrustAuthenticated, true},
		"a user's word":     {author("user"), memproxy.TrustAuthenticated, true},
		"a system's role":   {author("system"), memproxy.TrustEstablished, true},
		"one of two":        {author("agent:dev", "root"), memproxy.TrustAuthenticated, true},
		"nothing":           {author(""), memproxy.TrustAuthenticated, true},
		"an object":         {memproxy.Attribution{Pointer: "/a", Kind: memproxy.AttributesAuthor}, memproxy.TrustAuthenticated, true},
		"verified":          {memproxy.Attribution{Pointer: "/a", Kind: memproxy.AttributesStatus, Values: []string{"agent:dev"}, Legible: true}, memproxy.TrustEstablished, true},
		"its own name":      {author("agent:dev"), memproxy.TrustAuthenticated, false},
		"its plain name":    {author("dev"), memproxy.TrustAuthenticated, false},
		"the owner":         {author("ann"), memproxy.TrustAuthenticated, false},
		"a model's word":    {author("assistant"), memproxy.TrustAuthenticated, false},
		"said by a person":  {author("user"), memproxy.TrustHuman, false},
		"vouched by person": {memproxy.Attribution{Pointer: "/a", Kind: memproxy.AttributesStatus}, memproxy.TrustHuman, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(r *rig) { r.who.Trust = tc.trust })
			op := learn("x")
			op.Scope.User = "ann"
			op.Attributions = []memproxy.Attribution{tc.at}
			a := r.admit(op)
			if got := op.Attributions[0].Removed; got != tc.taken {
				t.Errorf("taken off: %v", got)
			}
			if tc.taken {
				wantCodes(t, a.Decision, memproxy.Amend, memproxy.TrustAttribution)
			} else {
				wantCodes(t, a.Decision, memproxy.Allow)
			}
		})
	}
}
