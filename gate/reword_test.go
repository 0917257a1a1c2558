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
