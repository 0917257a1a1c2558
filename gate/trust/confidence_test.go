package trust_test

import (
	"slices"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate/trust"
	"github.com/memproxy/memproxy/internal/expect"
)

// Proves TRL-3: tier, source and track record bound what a caller may claim, and
// nothing raises it. Of several claims the lowest is the confidence of the write.
func TestLimitOf(t *testing.T) {
	const none = memproxy.PerMille(-1)
	auth, human := memproxy.TrustAuthenticated, memproxy.TrustHuman
	good, worse, bad := memproxy.Track{Facts: 50}, memproxy.Track{Facts: 10, Corrections: 4}, memproxy.Track{Facts: 10, Corrections: 400}
	for name, tc := range map[string]struct {
		trust   memproxy.Trust
		source  memproxy.Source
		track   memproxy.Track
		unknown bool // the track record
		claims  []memproxy.PerMille
		want    memproxy.PerMille
		lowered []string // rules by which claims were lowered; "" is by the ceiling
	}{
		"over the ceiling":           {auth, "", good, false, []memproxy.PerMille{900}, 700, []string{""}},
		"at the ceiling":             {auth, "", good, false, []memproxy.PerMille{700}, 700, nil},
		"over what a record leaves":  {auth, "", worse, false, []memproxy.PerMille{700}, 560, []string{"trust.track"}},
		"over the worst record":      {auth, "", bad, false, []memproxy.PerMille{700}, 350, []string{"trust.track"}},
		"a person's worst record":    {human, "", bad, false, []memproxy.PerMille{1000}, 500, []string{"trust.track"}},
		"under what a record leaves": {auth, "", bad, false, []memproxy.PerMille{300}, 300, nil},
		"no claim, a bad record":     {auth, "", bad, false, nil, 350, []string{"trust.track"}},
		"no claim, enough is left":   {human, "", worse, false, nil, 800, nil}, // 800 of 1000
		"no claim, by the ceiling":   {auth, "", good, false, nil, 700, nil},
		"a hostile source":           {auth, memproxy.SourceHostile, worse, false, []memproxy.PerMille{900}, 300, []string{""}},
		"a source cannot raise":      {auth, memproxy.SourceTrusted, good, false, []memproxy.PerMille{900}, 700, []string{""}},
		"an unknown record":          {auth, "", good, true, []memproxy.PerMille{700}, 350, []string{"trust.track"}},
		"a tier of no table":         {"royal", "", good, false, []memproxy.PerMille{900}, 300, []string{""}},
		"an anonymous caller":        {memproxy.TrustAnonymous, memproxy.SourceTrusted, good, false, []memproxy.PerMille{900}, 300, []string{""}},
		"an established caller":      {memproxy.TrustEstablished, "", good, false, []memproxy.PerMille{950}, 900, []string{""}},
		"the lower of two":           {auth, "", good, false, []memproxy.PerMille{600, 300}, 300, nil},
		"the lower of two, first":    {auth, "", good, false, []memproxy.PerMille{300, 600}, 300, nil},
		"one of two is lowered":      {auth, "", good, false, []memproxy.PerMille{300, 900}, 300, []string{""}},
		"both are lowered":           {auth, "", worse, false, []memproxy.PerMille{1000, 900}, 560, []string{"trust.track", "trust.track"}},
		"a claim that is no number":  {auth, "", good, false, []memproxy.PerMille{none}, 700, []string{""}},
		"of a person, and no number": {human, "", good, false, []memproxy.PerMille{none}, 1000, []string{""}},
		"a claim of nothing":         {auth, "", good, false, []memproxy.PerMille{0}, 0, nil},
	} {
		var hints []memproxy.ConfidenceClaim
		var highest memproxy.PerMille
		for _, c := range tc.claims {
			h := memproxy.ConfidenceClaim{Pointer: "/c", Claimed: c, Legible: c != none}
			if !h.Legible {
				h.Claimed = memproxy.Full
			}
			hints, highest = append(hints, h), max(highest, h.Claimed)
		}
		if len(hints) == 0 {
			highest = tc.want
		}
		tc.track.Unknown = tc.unknown
		limit := trust.LimitOf(memproxy.DefaultCeilings(), tc.trust, tc.source, tc.track)
		got, claimed, why := limit.Clamp(hints)
		var rules []string
		for _, r := range why {
			rules = append(rules, r.Rule)
			expect.That(t, r.Code == memproxy.TrustClamped && (r.Pointer == "/c") == (len(hints) > 0) && r.Detail != "", "%s: %+v", name, r)
		}
		expect.That(t, got == tc.want && claimed == highest && slices.Equal(rules, tc.lowered), "%s: %d of %d, lowered by %q", name, got, claimed, rules)
		for i := range hints {
			h := &hints[i]
			expect.That(t, h.Effective <= h.Claimed && h.Effective >= got, "%s: %+v in a write of %d", name, h, got)
		}
	}
}

// Proves TRL-5: an earlier confidence binds, unless the source is known better now.
func TestRepeats(t *testing.T) {
	type said struct {
		given memproxy.PerMille
		then  memproxy.Attestation
	}
	for name, tc := range map[string]struct {
		before []said
		now    memproxy.Attestation
		want   memproxy.PerMille
	}{
		"nothing said":            {nil, memproxy.SelfReported, 700},
		"no confidence is known":  {[]said{{0, memproxy.SelfReported}}, memproxy.SelfReported, 700},
		"with less":               {[]said{{200, memproxy.SelfReported}}, memproxy.SelfReported, 200},
		"with more":               {[]said{{900, memproxy.SelfReported}}, memproxy.SelfReported, 700},
		"of an unknown source":    {[]said{{200, ""}}, memproxy.SelfReported, 200},
		"recorded as unknown":     {[]said{{200, memproxy.AttestationUnknown}}, memproxy.SelfReported, 200},
		"better attested now":     {[]said{{200, memproxy.SelfReported}}, memproxy.ToolObserved, 700},
		"inferred, now stated":    {[]said{{200, memproxy.Inferred}}, memproxy.SelfReported, 700},
		"inferred, still so":      {[]said{{200, memproxy.Inferred}}, memproxy.Inferred, 200},
		"better attested then":    {[]said{{200, memproxy.ToolObserved}}, memproxy.SelfReported, 200},
		"of two the lower":        {[]said{{200, ""}, {300, ""}}, memproxy.SelfReported, 200},
		"of two the lower, last":  {[]said{{300, ""}, {200, ""}}, memproxy.SelfReported, 200},
		"the lower one outranked": {[]said{{200, memproxy.Inferred}, {300, ""}}, memproxy.SelfReported, 300},
	} {
		limit := trust.LimitOf(memproxy.DefaultCeilings(), memproxy.TrustAuthenticated, "", memproxy.Track{})
		for _, s := range tc.before {
			limit.Repeats(s.given, s.then, tc.now)
		}
		got, _, why := limit.Clamp([]memproxy.ConfidenceClaim{{Claimed: 700, Legible: true}})
		bound := len(why) == 1 && why[0].Rule == "trust.laundering"
		expect.That(t, got == tc.want && bound == (tc.want < 700), "%s: %d, %+v", name, got, why)
	}
}
