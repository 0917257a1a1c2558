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

// echoer is a backend that shows the stamp of a write with what came of it.
type echoer struct {
	noModel
	fakeReader
	loses, bare bool
}

func (c *echoer) Echoes(memproxy.Route, *memproxy.Operation) bool { return !c.loses }
func (c *echoer) OmitsStamps(memproxy.Route) bool                 { return c.bare }

func echoerRig(t *testing.T, p policy) (*rig, *fakeLedger, *echoer) {
	c := &echoer{}
	r, l := anyAgent(t, func(r *rig) {
		r.adapter, r.fake = c, &c.fakeAdapter
		r.rules.NeverRefuse, r.rules.Policy = true, p
	})
	return r, l, c
}

// Proves DOL-2: what is let through for never being refused is noted before it
// leaves; what cannot be noted is refused. Whatever is not about content alone,
// or not about something new, or not to be told from other memories by a
// reader, keeps its verdict; and so does everything in the other mode.
func TestOnlyContentIsSetAside(t *testing.T) {
	content := says(memproxy.Hold, memproxy.ScreenRisk)
	learn := memproxy.Learn
	for name, tc := range map[string]struct {
		policy policy
		kind   memproxy.Kind
		change func(*rig, *fakeLedger, *echoer)
		want   memproxy.Verdict
		marks  string
	}{
		"held":           {content, learn, nil, memproxy.Amend, "d1 flagged"},
		"denied":         {says(memproxy.Deny, memproxy.ScreenRisk), learn, nil, memproxy.Amend, "d1 quarantined"},
		"harmless":       {allowAll, learn, nil, memproxy.Allow, ""},
		"for authority":  {says(memproxy.Hold, memproxy.ScreenRisk, memproxy.TrustAuthority), learn, nil, memproxy.Hold, ""},
		"a credential":   {says(memproxy.Deny, memproxy.ScreenSecret), learn, nil, memproxy.Deny, ""},
		"by a policy":    {says(memproxy.Deny, memproxy.PolicyForbid), learn, nil, memproxy.Deny, ""},
		"a change":       {content, memproxy.Correct, nil, memproxy.Hold, ""},
		"another mode":   {content, learn, func(r *rig, _ *fakeLedger, _ *echoer) { r.rules.NeverRefuse = false }, memproxy.Hold, ""},
		"not told apart": {content, learn, func(_ *rig, _ *fakeLedger, c *echoer) { c.loses = true }, memproxy.Hold, ""},
		"over budget":    {content, learn, func(r *rig, _ *fakeLedger, _ *echoer) { r.budget.limit = 0 }, memproxy.Deny, ""},
		"nothing is written": {content, learn, func(r *rig, l *fakeLedger, _ *echoer) {
			r.rules.Policy = policy(func(q memproxy.Question) (memproxy.Ruling, error) { l.err = errBroken; return content(q) })
		}, memproxy.Deny, "d1 flagged"},
	} {
		r, l, c := echoerRig(t, tc.policy)
		if tc.change != nil {
			tc.change(r, l, c)
		}
		a := r.admit(memproxy.Operation{Kind: tc.kind, Cost: 1, Items: []memproxy.Item{{Kind: memproxy.ItemContent, Text: "x"}}})
		expect.That(t, a.Decision.Verdict == tc.want && (a.Reply != nil) == tc.want.Stops(), "%s: %+v, %+v", name, a.Decision, a.Reply)
		got := strings.Join(l.marks, ",")
		expect.That(t, strings.HasPrefix(got, tc.marks) && (got == "") == (tc.marks == ""), "%s: noted %q", name, got)
		expect.That(t, name != "nothing is written" || a.Decision.Status == 503, "%s: %+v", name, a.Decision)
	}
}

// Proves DOL-2, GOV-3: what looks dangerous is no better attested for it than what does not.
func TestWhatIsSetAsideIsMarked(t *testing.T) {
	r, _, c := echoerRig(t, func(memproxy.Question) (memproxy.Ruling, error) {
		return memproxy.Ruling{Verdict: memproxy.Hold, Reasons: []memproxy.Reason{{Code: memproxy.ScreenRisk}}, Marks: []memproxy.Reason{{Code: memproxy.LayerInferred}}}, nil
	})
	r.admit(learn("x"))
	expect.Equal(t, c.stamp.Mark, "layer.inferred", c.stamp)
	expect.Equal(t, c.stamp.Attestation, memproxy.Inferred, c.stamp)
}

// Proves DOL-2: while the ledger is away, nobody knows what was set aside, and
// nothing is shown; where it answers, what came of other writes is.
func TestUnknownElementsAreNotShown(t *testing.T) {
	for name, tc := range map[string]struct {
		broken, bare bool
		want         string
	}{
		"known":                 {false, false, "a,b"},
		"the ledger is away":    {true, false, ""},
		"of no write, and bare": {false, true, "a"},
		"both":                  {true, true, ""},
	} {
		r, l, c := echoerRig(t, allowAll)
		c.bare = tc.bare
		stamp := fakeSigner{}.Sign(memproxy.Stamp{ID: "d-other", Tenant: "acme"})
		r.fake.memories = []memproxy.Memory{{Pointer: "/0", ID: "a", Text: "x", Stamp: &stamp}, {Pointer: "/1", ID: "b", Text: "y"}}
		a := r.admit(memproxy.Operation{Kind: memproxy.Recall})
		if tc.broken {
			l.err = errBroken
		}
		expect.Equal(t, string(r.gate.Return(context.Background(), a, memproxy.Reply{Status: 200, Body: []byte("[]")}).Body), tc.want, name, "shown")
	}
}

// A change may remove the stamp that ties a memory to its write. So the status that
// the write gave the memory is recorded before, or the change is refused.
func TestAStatusIsRecordedBeforeAChange(t *testing.T) {
	for name, tc := range map[string]struct {
		full error
		want memproxy.Verdict
	}{
		"recorded":                           {nil, memproxy.Allow},
		"not recorded":                       {errBroken, memproxy.Deny},
		"another process was first to do it": {memproxy.ErrStale, memproxy.Allow},
	} {
		r, l, _ := echoerRig(t, allowAll)
		stamp := fakeSigner{}.Sign(memproxy.Stamp{ID: "d-other", Tenant: "acme"})
		r.fake.located = map[string]memproxy.Memory{"m": {ID: "m", Text: "x", Stamp: &stamp, Scope: memproxy.Scope{User: "ann"}}}
		l.statuses["d-other"] = memproxy.Status{State: memproxy.StateFlagged, Tenant: "acme", Decision: "d-other"}
		l.full = tc.full
		a := r.admit(memproxy.Operation{Kind: memproxy.Correct, Targets: []string{"m"}, Items: []memproxy.Item{{Kind: memproxy.ItemContent, Text: "y", Target: "m"}}})
		expect.That(t, a.Decision.Verdict == tc.want && (!tc.want.Stops() || a.Decision.Status == 503), "%s: %+v", name, a.Decision)
		expect.That(t, len(l.changes) == 1 && l.changes[0].ID == "m" && l.changes[0].State == memproxy.StateFlagged, "%s: recorded %+v", name, l.changes)
	}
}

// reworder is a backend whose payload is the text itself.
type reworder struct {
	fakeAdapter
	lies bool // decodes another text than was put in
}

func (a *reworder) Reword(_ memproxy.Route, _ memproxy.Request, _ []byte, texts map[string]string) ([]byte, error) {
	return []byte(texts["/text"]), nil
}

func (a *reworder) Decode(rt memproxy.Route, req memproxy.Request, body []byte) (*memproxy.Operation, error) {
	op, err := a.fakeAdapter.Decode(rt, req, body)
	if err != nil {
		return nil, err
	}
	again := *op
	again.Items = []memproxy.Item{{Kind: memproxy.ItemContent, Pointer: "/text", Text: string(body)}}
	if a.lies && strings.Contains(string(body), "PATTERN") {
		again.Items[0].Text += " obey"
	}
	return &again, nil
}

func (a *reworder) Encode(_ memproxy.Route, req memproxy.Request, body []byte, _ *memproxy.Operation) ([]byte, string, error) {
	return body, req.Query, nil
}

// obeying finds every "obey", and a whole text that still has a line of Bob's.
type obeying struct{ forgetful }

func (obeying) Screen(_ context.Context, s memproxy.Screening) ([]memproxy.Finding, error) {
	var found []memproxy.Finding
	for i, it := range s.Operation.Items {
		if at := strings.Index(it.Text, "obey"); at >= 0 {
			found = append(found, memproxy.Finding{Rule: "o", Item: i, Score: 900, Start: at, End: at + 4}, memproxy.Finding{Rule: "w", Item: i, Score: 900, End: len(it.Text)})
		} else if strings.Contains(it.Text, "Bob:") {
			found = append(found, memproxy.Finding{Rule: "w", Item: i, Score: 900, End: len(it.Text)})
		}
	}
	return found, nil
}

// Proves GOV-5: first by sentences, then by lines, judged again each time and
// taken only where nothing is said against what is left, as the backend reads
// it; else the ruling stands. Other reasons than the content's, other kinds of
// operation, shadow mode and a store that keeps no evidence change nothing.
func TestRewordedTextsAreScreenedAgain(t *testing.T) {
	for name, tc := range map[string]struct {
		text   string
		how    memproxy.Rewriting
		change func(*rig, *reworder)
		want   memproxy.Verdict
		sent   string
	}{
		"off":             {"Tea. Do obey. Rice.", memproxy.RewriteOff, nil, memproxy.Deny, ""},
		"sentences":       {"Tea. Do obey. Rice.", memproxy.RewriteSoft, nil, memproxy.Amend, "Tea. [PATTERN_001] Rice."},
		"hard, not asked": {"Tea.\nBob: do obey. Yes.", memproxy.RewriteSoft, nil, memproxy.Amend, "Tea.\n[PATTERN_001] Yes."},
		"not enough":      {"Tea.\nBob: yes. Do obey.", memproxy.RewriteSoft, nil, memproxy.Deny, ""},
		"lines":           {"Tea.\nBob: yes. Do obey.", memproxy.RewriteHard, nil, memproxy.Amend, "Tea."},
		"nothing left":    {"Do obey.", memproxy.RewriteHard, nil, memproxy.Deny, ""},
		"lines of all":    {"Bob: yes.\nDo obey.", memproxy.RewriteHard, nil, memproxy.Deny, ""},
		"read otherwise":  {"Tea. Do obey. Rice.", memproxy.RewriteSoft, func(_ *rig, a *reworder) { a.lies = true }, memproxy.Deny, ""},
		"harmless":        {"Tea.", memproxy.RewriteHard, nil, memproxy.Allow, "Tea."},
		"no evidence": {"Tea. Do obey. Rice.", memproxy.RewriteSoft, func(r *rig, _ *reworder) {
			r.holds.(*fakeHoldStore).err = errors.New("the ledger is away")
		}, memproxy.Deny, ""},
	} {
		t.Run(name, func(t *testing.T) {
			a := &reworder{}
			r := newRig(t, func(r *rig) {
				r.adapter, r.fake = a, &a.fakeAdapter
				r.holds = newHoldStore()
				r.rules.Screener, r.rules.Rewrite = obeying{}, tc.how
				r.rules.Policy = policy(deniesFindings)
				if tc.change != nil {
					tc.change(r, a)
				}
			})
			r.fake.op = learn(tc.text)
			call := r.call(r.fake.op)
			call.Body = []byte(tc.text)
			got := r.gate.Admit(t.Context(), call)
			must.Equal(t, got.Decision.Verdict, tc.want, got.Decision.Reasons)
			expect.That(t, tc.sent == "" || string(got.Body) == tc.sent, "sent %q, want %q", got.Body, tc.sent)
		})
	}
}
