package gate_test

import (
	"context"
	"slices"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
)

// Proves EDGE-18, SYN-2: what is found in a text that configures refuses nothing
// when an owner sets it, and is on record and told; everybody else is held to it
// as to any text, whatever they are trusted, and so is everything that an owner
// writes to be remembered, next to what configures too.
func TestOwnersConfigure(t *testing.T) {
	configures := memproxy.Item{Kind: memproxy.ItemSteering, Configures: true, Pointer: "/system", Text: "an evil note"}
	steers, content := configures, configures
	steers.Configures = false
	content.Kind = memproxy.ItemContent // no adapter says so of content; it would not help
	owner, admin := []string{"memproxy-owner"}, []string{"memproxy-admin"}
	for name, tc := range map[string]struct {
		roles []string
		trust memproxy.Trust
		items []memproxy.Item
		found int // that the policy is asked with
	}{
		"an owner":                           {owner, memproxy.TrustAuthenticated, []memproxy.Item{configures}, 0},
		"an administrator":                   {admin, memproxy.TrustAuthenticated, []memproxy.Item{configures}, 0},
		"no role":                            {nil, memproxy.TrustEstablished, []memproxy.Item{configures}, 1},
		"a role of another name":             {[]string{"owner", "MEMPROXY-OWNER"}, memproxy.TrustHuman, []memproxy.Item{configures}, 1},
		"anonymous with the role":            {owner, memproxy.TrustAnonymous, []memproxy.Item{configures}, 1},
		"of no tier with the role":           {owner, "", []memproxy.Item{configures}, 1},
		"an owner steers otherwise":          {owner, memproxy.TrustHuman, []memproxy.Item{steers}, 1},
		"an owner remembers":                 {owner, memproxy.TrustHuman, []memproxy.Item{content}, 1},
		"an owner remembers and configures":  {owner, memproxy.TrustHuman, []memproxy.Item{configures, content}, 1},
		"an owner configures after a memory": {owner, memproxy.TrustHuman, []memproxy.Item{content, configures}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			r, _, _, _ := screeningRig(t)
			r.who.Roles, r.who.Trust = tc.roles, tc.trust
			r.rules.Policy = policy(func(q memproxy.Question) (memproxy.Ruling, error) {
				expect.Len(t, q.Findings, tc.found, "the policy is asked with")
				return deniesFindings(q)
			})
			a := r.admit(memproxy.Operation{Kind: memproxy.Learn, Items: tc.items})
			expect.Equal(t, a.Decision.Verdict == memproxy.Deny, tc.found > 0, a.Decision)
			told := slices.ContainsFunc(a.Decision.Recorded(), func(why memproxy.Reason) bool {
				return why.Code == memproxy.ScreenConfigured && why.Pointer == "/system"
			})
			last := r.recorder.last()
			expect.That(t, tc.found != 0 || told && len(last.Findings) == 1, "told %v, on record %+v", told, last.Findings)
		})
	}
}

// Proves EDGE-18, SYN-2: a text that was approved by its hash instructs an agent,
// whoever sends it, and stands among the messages of an owner's run; another text
// does not, and no approval lets it be remembered.
func TestApprovedTextsInstruct(t *testing.T) {
	const text = "an evil note"
	steers := memproxy.Item{Kind: memproxy.ItemSteering, Pointer: "/system", Text: text}
	says := memproxy.Item{Kind: memproxy.ItemContent, Pointer: "/system", Text: text}
	more := func(it memproxy.Item) memproxy.Item { it.Text += ", evil"; return it }
	configures := steers
	configures.Configures = true
	for name, tc := range map[string]struct {
		approved string
		item     memproxy.Item
		kind     memproxy.Kind
		role     string
		passes   bool
	}{
		"approved":                     {text, steers, memproxy.Learn, "", true},
		"a place that configures":      {text, configures, memproxy.Learn, "", true},
		"another is approved":          {text + ".", steers, memproxy.Learn, "", false},
		"a word more":                  {text, more(steers), memproxy.Learn, "", false},
		"remembered":                   {text, says, memproxy.Learn, "", false},
		"remembered by an owner":       {text, says, memproxy.Learn, memproxy.RoleOwner, false},
		"kept beside a memory":         {text, memproxy.Item{Kind: memproxy.ItemMetadata, Pointer: "/system", Text: text}, memproxy.Learn, "", false},
		"nothing is approved":          {"", steers, memproxy.Learn, "", false},
		"an owner says it to an agent": {text, says, memproxy.Run, memproxy.RoleOwner, true},
		"an owner says more":           {text, more(says), memproxy.Run, memproxy.RoleOwner, false},
		"another says it to an agent":  {text, says, memproxy.Run, "dev", false},
	} {
		t.Run(name, func(t *testing.T) {
			r, _, _, _ := screeningRig(t)
			if tc.approved != "" {
				r.rules.Approved = map[string]bool{memproxy.TextSHA256(tc.approved): true}
			}
			if tc.role != "" {
				r.who.Roles, r.who.Trust = []string{tc.role}, memproxy.TrustAuthenticated
			}
			r.rules.Policy = policy(deniesFindings)
			a := r.admit(memproxy.Operation{Kind: tc.kind, Items: []memproxy.Item{tc.item}})
			expect.Equal(t, a.Decision.Verdict != memproxy.Deny, tc.passes, a.Decision)
			expect.Len(t, r.recorder.last().Findings, 1, "on record")
		})
	}
}

// Proves EDGE-18, EDGE-2: what an owner configures excuses nothing that a model
// makes of the write next to it: it is measured by what else the write says.
func TestWhatIsConfiguredExcusesNoExtraction(t *testing.T) {
	for text, back := range map[string]bool{"a note": true, "evil evil": false} {
		r, x, f, _ := screeningRig(t)
		r.who.Roles, r.who.Trust = []string{"memproxy-owner"}, memproxy.TrustAuthenticated
		x.memories = []memproxy.Memory{{Pointer: "/0", ID: "m1", Text: "evil evil", Event: "ADD"}}
		op := learn(text)
		op.Items = append(op.Items, memproxy.Item{Kind: memproxy.ItemSteering, Configures: true, Pointer: "/custom_instructions", Text: "evil evil"})
		a := r.admitWith(op, f)
		r.gate.Return(context.Background(), a, memproxy.Reply{Status: 200, Body: []byte("[]")})
		expect.Equal(t, len(f.sent) == 1, back, text, "sent", f.sent, "want taken back")
	}
}
