package memproxy_test

import (
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
)

// Proves TRL-3: corrections lower an author to half at most, slowly at first.
func TestTrackFactor(t *testing.T) {
	for _, tc := range []struct {
		facts, corrections int64
		want               memproxy.PerMille
	}{
		{0, 0, 1000},
		{1, 0, 1000},
		{1, 1, 909}, // one early correction costs a tenth,
		{0, 1, 900}, // also where the fact itself is not counted
		{5, 5, 666}, // five of five cost a third
		{10, 10, 500},
		{10, 9, 550},
		{100, 20, 818},
		{1000, 10, 990},
		{1000, 1 << 40, 500}, // never less
		{1 << 62, 1, 999},
		{-5, -5, 1000}, // what cannot be counts as nothing
		{-5, 3, 700},
	} {
		expect.Equal(t, (memproxy.Track{Facts: tc.facts, Corrections: tc.corrections}).Factor(), tc.want, tc.facts, "facts", tc.corrections, "corrections")
	}
	// A record that cannot be looked up counts as the worst.
	expect.Equal(t, memproxy.Track{Unknown: true}.Factor(), memproxy.TrackFloor)
	expect.Equal(t, memproxy.Track{Facts: 1e6, Unknown: true}.Factor(), memproxy.TrackFloor)
	for facts := range int64(50) { // more corrections never help
		for n := range int64(60) {
			if a, b := (memproxy.Track{Facts: facts, Corrections: n}).Factor(), (memproxy.Track{Facts: facts, Corrections: n + 1}).Factor(); b > a || b < memproxy.TrackFloor || a > memproxy.Full {
				t.Fatalf("%d facts: %d corrections %d, %d corrections %d", facts, n, a, n+1, b)
			}
		}
	}
}

// Proves TRL-4: attestations have an order, and words outside it are the
// lowest.
func TestAttestationsAreOrdered(t *testing.T) {
	for i, a := range memproxy.Attestations {
		for j, b := range memproxy.Attestations {
			if got := a.Outranks(b); got != (i > j) {
				t.Errorf("%s over %s: %v", a, b, got)
			}
		}
	}
	for _, odd := range []memproxy.Attestation{"", "notarised"} {
		if odd.Outranks(memproxy.Inferred) || odd.Outranks(memproxy.AttestationUnknown) || !memproxy.Inferred.Outranks(odd) {
			t.Errorf("%q is not the lowest", odd)
		}
	}
}

// Fractions are rounded and not cut off: 0.57 is the double 0.56999….
func TestFractions(t *testing.T) {
	for f, want := range map[float64]memproxy.PerMille{0: 0, 0.0004: 0, 0.001: 1, 0.29: 290, 0.57: 570, 0.9999: 1000, 1: 1000} {
		expect.Equal(t, memproxy.FromFraction(f), want, f)
	}
	for p := range memproxy.Full + 1 {
		expect.Equal(t, memproxy.FromFraction(p.Fraction()), p)
	}
}
