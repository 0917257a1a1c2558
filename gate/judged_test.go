package gate_test

import (
	"context"
	"regexp"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/internal/expect"
)

// spotter finds the words evil and vile, with their places: 600 each.
type spotter struct{ forgetful }

func (spotter) Screen(_ context.Context, asked memproxy.Screening) ([]memproxy.Finding, error) {
	var out []memproxy.Finding
	for i := range asked.Operation.Items {
		for _, at := range regexp.MustCompile("evil|vile").FindAllStringIndex(asked.Operation.Items[i].Text, -1) {
			out = append(out,
				memproxy.Finding{Rule: "word", Severity: "high", Item: i, Start: at[0], End: at[1], Score: 600},
				memproxy.Finding{Rule: string(memproxy.ScreenRisk), Severity: "high", Item: i, Start: at[0], End: at[1], Score: 600})
		}
	}
	return out, nil
}

// A flagged memory's spans hide what they were found in. Any other text is
// judged anew: what moved is hidden where it is now, what is harmless now is
// shown, and where nobody can judge nothing of it is. What came in around the
// proxy is judged as well.
//
// Proves DOL-2, DOL-3, DOL-4, DOL-5
func TestSpansAreOfTheirText(t *testing.T) {
	const told = "An evil deed."
	flagged := memproxy.Status{
		State: memproxy.StateFlagged, Text: memproxy.TextSHA256(told),
		Findings: []memproxy.Finding{{Rule: "word", Severity: "high", Start: 3, End: 7, Score: 600}},
	}
	unbound := flagged
	unbound.Text = ""
	person := memproxy.Status{State: memproxy.StateFlagged}
	vouched := memproxy.Status{State: memproxy.StateValidated, Attestation: memproxy.HumanConfirmed}
	validated := memproxy.Status{State: memproxy.StateValidated, Text: memproxy.TextSHA256("A deed.")}
	for name, tc := range map[string]struct {
		stands memproxy.Status
		text   string
		wrote  string // what went through memproxy: "" is nothing
		also   string
		rules  func(*gate.Rules)
		want   string
	}{
		"the text of which they are":              {flagged, told, told, "", nil, "An [PATTERN_001] deed."},
		"it moved":                                {flagged, "A deed, and an evil one: évil, evil.", told, "", nil, "A deed, and an [PATTERN_001] one: évil, [PATTERN_002]."},
		"other words":                             {flagged, "Now a vile one.", told, "", nil, "Now a [PATTERN_001] one."},
		"harmless now":                            {flagged, "A good deed.", told, "", nil, "A good deed."},
		"findings of nobody knows what":           {unbound, "It is evil.", told, "", nil, "It is [PATTERN_001]."},
		"nobody can judge":                        {flagged, "Now a vile one.", told, "", func(r *gate.Rules) { r.Screener = nil }, "[PATTERN_001]"},
		"findings of nobody knows what, harmless": {unbound, "It is fine.", told, "", nil, "[PATTERN_001]"},
		"by a person":                             {person, "A good deed.", "A good deed.", "", nil, "[PATTERN_001]"},
		"beside it stands what cannot be hidden":  {flagged, told, told, told, nil, ""},
		"put there":                               {memproxy.Status{}, told, "", "", nil, "An [PATTERN_001] deed."},
		"put there, harmless":                     {memproxy.Status{}, "A good deed.", "", "", nil, "A good deed."},
		"validated, and changed behind the proxy": {validated, told, "A deed.", "", nil, "An [PATTERN_001] deed."},
		"written through memproxy":                {memproxy.Status{}, told, told, "", nil, told},
		"read by a person":                        {vouched, told, told, "", nil, told},
		"read by a person, and changed":           {vouched, told, "A deed.", "", nil, "An [PATTERN_001] deed."},
		"nothing that is read is judged":          {memproxy.Status{}, told, "", "", func(r *gate.Rules) { r.Sanitise, r.Withhold = 0, 0 }, told},
	} {
		r, l := anyAgent(t, func(r *rig) {
			r.rules.Screener, r.rules.Withhold, r.rules.Sanitise, r.rules.Changed = spotter{}, 850, 500, gate.ChangedReport
			if tc.rules != nil {
				tc.rules(r.rules)
			}
		})
		if tc.stands.State != "" {
			l.statuses["m"] = tc.stands
		}
		if tc.wrote != "" {
			r.ledger.rows["m"] = memproxy.Ownership{Backend: "mem", Kind: memproxy.TargetMemory, ID: "m", Scope: memproxy.Scope{Tenant: "acme"}, SHA256: memproxy.TextSHA256(tc.wrote)}
		}
		m := memproxy.Memory{Pointer: "/0", ID: "m", Text: tc.text, TextAt: "/0/memory"}
		if tc.also != "" {
			m.OtherTexts = []string{tc.also}
		}
		r.fake.memories = []memproxy.Memory{m}
		a := r.admit(memproxy.Operation{Kind: memproxy.Recall})
		r.gate.Return(context.Background(), a, memproxy.Reply{Status: 200, Body: []byte("[]")})
		got := r.fake.rd.Memories[0]
		if got.Show != nil {
			got.Text, _, _ = strings.Cut(*got.Show, "\n")
		}
		expect.That(t, got.Drop == (tc.want == "") && (got.Drop || got.Text == tc.want), "%s: %+v, want %q", name, got, tc.want)
		expect.Equal(t, has(r.recorder.last().Reasons, memproxy.StateSanitised), strings.Contains(tc.want, "[PATTERN_"), name)
	}
}
