package gate_test

import (
	"context"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/gate/backend"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// forgetful is for screeners that judge each write by itself.
type forgetful struct{}

func (forgetful) RecordWrite(memproxy.Screening) {}

// screener finds whatever says evil, by how often it says so.
type screener struct {
	err   error
	wrote *[]string
}

func (s screener) RecordWrite(w memproxy.Screening) {
	if s.wrote != nil {
		*s.wrote = append(*s.wrote, w.Session+" "+w.Decision+" "+w.Operation.Items[0].Text)
	}
}

func (s screener) Screen(_ context.Context, asked memproxy.Screening) ([]memproxy.Finding, error) {
	var out []memproxy.Finding
	for i, it := range asked.Operation.Items {
		if n := strings.Count(it.Text, "evil"); n > 0 {
			out = append(out, memproxy.Finding{Rule: "test.evil", Item: i, Start: strings.Index(it.Text, "evil"), Score: memproxy.PerMille(400 * n)})
		}
	}
	return out, s.err
}

// fakeExtractor is a backend whose model decides what a write becomes.
type fakeExtractor struct {
	noModel
	fakeReader
	became []memproxy.Memory
	over   bool
	cannot bool
}

func (f *fakeExtractor) Receipt(_ memproxy.Route, _ memproxy.Request, id string) memproxy.Request {
	return memproxy.Request{Method: "GET", EscapedPath: "/receipt/" + id}
}
func (f *fakeExtractor) ReadExtracted(memproxy.Reply) ([]memproxy.Memory, memproxy.HoldState, error) {
	if f.over {
		return f.became, memproxy.HoldDone, nil
	}
	return f.became, memproxy.HoldPending, nil
}
func (f *fakeExtractor) Undo(_ memproxy.Route, _ memproxy.Request, m memproxy.Memory) ([]memproxy.SideRequest, bool) {
	return []memproxy.SideRequest{{Request: memproxy.Request{Method: "DELETE", EscapedPath: "/" + m.ID}}}, !f.cannot
}
func (f *fakeExtractor) Verbatim(_ []byte, text string) ([]byte, error) { return []byte(text), nil }

// sender notes what is sent from the side.
type sender struct {
	fakeFetch
	sent   []string
	status int
}

func (s *sender) Send(_ context.Context, q memproxy.Request, _ []byte) (memproxy.Reply, error) {
	s.sent = append(s.sent, q.Method+" "+q.EscapedPath)
	return memproxy.Reply{Status: s.status}, nil
}

func screeningRig(t *testing.T) (*rig, *fakeExtractor, *sender, *fakeHoldStore) {
	t.Helper()
	x := &fakeExtractor{over: true}
	k := newHoldStore()
	r := newRig(t, func(r *rig) {
		r.adapter, r.fake, r.holds = x, &x.fakeAdapter, k
		r.rules.Screener, r.rules.Withhold = screener{}, 700
	})
	return r, x, &sender{status: 200}, k
}

func (r *rig) admitWith(op memproxy.Operation, f backend.Fetcher) *gate.Admission {
	r.fake.op = op
	c := r.call(op)
	c.Backend.Fetch = f
	return r.gate.Admit(context.Background(), c)
}

// Proves SYN-2: a policy that refuses for what screening found names the rules
// and the places, never the content; one that refuses for something else does
// not.
func TestFindingsAreNamed(t *testing.T) {
	for code, want := range map[memproxy.ReasonCode]int{memproxy.ScreenRisk: 2, memproxy.PolicyForbid: 1} {
		r, _, _, _ := screeningRig(t)
		r.rules.Policy = policy(func(q memproxy.Question) (memproxy.Ruling, error) {
			must.Len(t, q.Findings, 1, "the policy is asked with")
			expect.Equal(t, q.Findings[0].Score, 400, "the policy is asked with")
			return memproxy.Ruling{Verdict: memproxy.Deny, Reasons: []memproxy.Reason{{Code: code}}}, nil
		})
		a := r.admit(learn("an evil note"))
		expect.Len(t, a.Decision.Reasons, want, code)
		expect.That(t, want != 2 || a.Decision.Reasons[1] == (memproxy.Reason{Code: memproxy.ScreenFinding, Rule: "test.evil"}), "%+v", a.Decision.Reasons)
	}
	r, _, _, _ := screeningRig(t)
	r.rules.Screener = screener{err: errBroken}
	wantCodes(t, r.admit(learn("x")).Decision, memproxy.Deny, memproxy.InternalError)
}

// crowd finds one thing a hundred times, and one thing without a score.
type crowd struct{ forgetful }

func (crowd) Screen(context.Context, memproxy.Screening) (out []memproxy.Finding, err error) {
	for i := range 100 {
		out = append(out, memproxy.Finding{Rule: "pii.email", Start: i, Score: memproxy.PerMille(i % 2 * 100)})
	}
	return append(out, memproxy.Finding{Rule: "synapse.pattern", Start: 100}), nil
}

// Proves SYN-2, CARD-7: many findings of one rule leave room for each other rule, in the record
// and in the refusal; the worst are first.
func TestARuleDoesNotCrowdOutOthers(t *testing.T) {
	r, _, _, _ := screeningRig(t)
	r.rules.Screener, r.rules.Policy = crowd{}, policy(deniesFindings)
	reasons, found := r.admit(learn("x")).Decision.Reasons, r.recorder.last().Findings
	must.Len(t, found, 32, "on record")
	expect.Equal(t, found[0].Score, 100, "the first on record")
	expect.Equal(t, found[31].Rule, "synapse.pattern", "the last on record")
	expect.Equal(t, reasons[len(reasons)-1].Rule, "synapse.pattern", "the last in the refusal")
	r.rules.Policy = policy(says(memproxy.Allow, ""))
	r.admit(learn("x"))
	found = r.recorder.last().Findings
	must.Len(t, found, 64, "of an admitted write")
	expect.Equal(t, found[63].Rule, "synapse.pattern", "of an admitted write")
}

// Proves EDGE-14, MFW-8: an answer that is not screened in time is not shown. A read may be
// sent again and is told so; a write that happened and a run are not. The same holds for an
// answer for which there is no room. A screener that fails shows nothing. Of a caller who hung
// up before, the record does not say that the backend's answer could not be read.
func TestWhatIsNotScreenedInTimeIsNotShown(t *testing.T) {
	late := &memproxy.Flaw{Code: memproxy.LimitInFlight, Status: 503}
	for _, tc := range []struct {
		kind   memproxy.Kind
		err    error
		want   int
		reason memproxy.ReasonCode
	}{
		{memproxy.Recall, late, 503, memproxy.LimitInFlight}, {memproxy.Correct, late, 502, memproxy.UpstreamMalformed}, {memproxy.Run, late, 502, memproxy.UpstreamMalformed},
		{memproxy.Recall, errBroken, 502, memproxy.UpstreamMalformed},
		{memproxy.Recall, &memproxy.Flaw{Code: memproxy.PayloadIncomplete, Status: 400}, 400, memproxy.PayloadIncomplete},
	} {
		r, x, f, _ := screeningRig(t)
		r.who.ActsAs = all()
		x.memories = []memproxy.Memory{{Pointer: "/0", ID: "m1", Text: "canary"}}
		a := r.admitWith(memproxy.Operation{Kind: tc.kind, Scope: memproxy.Scope{User: "ann"}}, f)
		r.rules.Screener = screener{err: tc.err}
		got := r.gate.Return(context.Background(), a, memproxy.Reply{Status: 200, Body: []byte("canary")})
		expect.Equal(t, got.Status, tc.want, tc.kind, tc.err)
		expect.Text(t, string(got.Body), tc.kind, tc.err).Lacks("canary")
		why := r.recorder.last().Reasons
		expect.Len(t, why, 1, tc.kind, tc.err, why)
		expect.Equal(t, why[0].Code, tc.reason, tc.kind, tc.err)
		if tc.err == late {
			a = r.admitWith(memproxy.Operation{Kind: tc.kind, Scope: memproxy.Scope{User: "ann"}}, f)
			expect.Equal(t, r.gate.AbandonUnreadable(context.Background(), a, late).Status, tc.want, tc.kind)
		}
	}
}

// Proves EDGE-2: what a backend's model made of a write is screened; what is
// worse than the write is deleted, kept for review and not shown; both hashes
// stand in the record.
func TestExtractionsAreRetracted(t *testing.T) {
	for name, tc := range map[string]struct {
		input   string
		status  int
		cannot  bool
		want    string
		dropped bool
	}{
		"worse":              {"a note", 200, false, "undone", true},
		"gone already":       {"a note", 404, false, "undone", true},
		"no worse":           {"evil evil", 200, false, "", false},
		"the backend fails":  {"a note", 500, false, "not undone", true},
		"it cannot be known": {"a note", 200, true, "not undone", true},
	} {
		r, x, f, k := screeningRig(t)
		f.status, x.cannot = tc.status, tc.cannot
		x.memories = []memproxy.Memory{
			{Pointer: "/0", ID: "m1", Text: "tea", Event: "ADD"}, {Pointer: "/1", ID: "m2", Text: "evil evil", Event: "ADD"}, {Pointer: "/2", ID: "m3", Text: "evil evil", Event: "NONE"},
		}
		a := r.admitWith(learn(tc.input), f)
		got := r.gate.Return(context.Background(), a, memproxy.Reply{Status: 200, Body: []byte("[]")})
		last := r.recorder.last()
		// What was there already is as it is in any answer.
		expect.Equal(t, string(got.Body), map[bool]string{true: "m1", false: "m1,m2,m3"}[tc.dropped], name)
		if !tc.dropped {
			must.Len(t, f.sent, 0, name, "sent")
			expect.Len(t, last.Reasons, 0, name, "sent")
			continue
		}
		if len(last.Reasons) != 2 || last.Reasons[1].Code != memproxy.ScreenWithheld || last.Reasons[0].Code != memproxy.ScreenExtracted || !strings.HasSuffix(last.Reasons[0].Detail, ": "+tc.want) || strings.Count(last.Reasons[0].Detail, "sha256 ") != 2 {
			t.Errorf("%s: %+v", name, last.Reasons)
		}
		// What was deleted is recorded as that, for receipts and histories that have its text.
		row, there := r.ledger.rows["m2"]
		expect.That(t, there == (tc.want == "undone") && (!there || row.Deleted) && len(k.kept) == 1, "%s: row %v %+v, %d kept", name, there, row, len(k.kept))
		for _, content := range k.content {
			expect.Equal(t, content.Reserved, 0, name, "paid already") // by the write that it came from
		}
		expect.That(t, tc.cannot || len(f.sent) == 1 && f.sent[0] == "DELETE /m2", "%s: sent %v", name, f.sent)
	}
}

// Proves EDGE-2: what a model made of a write is held to the rules for a write
// that says it: what they would hold or refuse for what it says is taken back,
// at their threshold and with its claimed source, and nothing else is.
func TestExtractionsAreHeldToTheRulesForWrites(t *testing.T) {
	at := func(code memproxy.ReasonCode, verdict memproxy.Verdict) policy {
		return func(q memproxy.Question) (memproxy.Ruling, error) {
			for _, f := range q.Findings {
				if f.Score >= 400 && f.Item == 0 && q.Operation.SourceClaim == memproxy.SourceHostile || strings.HasPrefix(f.Rule, "secret.") {
					return memproxy.Ruling{Verdict: verdict, Reasons: []memproxy.Reason{{Code: code}}}, nil
				}
			}
			return memproxy.Ruling{}, nil
		}
	}
	for name, tc := range map[string]struct {
		input, made string
		policy      policy
		back        bool
	}{
		"it would be held":           {"a note", "evil", at(memproxy.ScreenRisk, memproxy.Hold), true},
		"it would be refused":        {"a note", "evil", at(memproxy.ScreenRisk, memproxy.Deny), true},
		"it would pass":              {"a note", "evil", allowAll, false},
		"no worse than the write":    {"evil deed", "evil", at(memproxy.PolicyForbid, memproxy.Deny), false},
		"for another reason":         {"a note", "evil", at(memproxy.PolicyForbid, memproxy.Deny), false},
		"harmless":                   {"a note", "tea", at(memproxy.ScreenRisk, memproxy.Hold), false},
		"a credential":               {"a note", "key", at(memproxy.ScreenSecret, memproxy.Deny), true},
		"left out of answers anyhow": {"a note", "evil evil", allowAll, true},
		"a credential that may be stored, no worse than the write": {"evil evil", "evil evil key", allowAll, false},
	} {
		r, x, f, _ := screeningRig(t)
		r.rules.Screener = leaky{}
		x.memories = []memproxy.Memory{{Pointer: "/0", ID: "m1", Text: tc.made, Event: "ADD"}}
		op := learn(tc.input)
		op.SourceClaim = memproxy.SourceHostile
		r.rules.Policy = policy(allowAll)
		a := r.admitWith(op, f)
		r.rules.Policy = tc.policy
		got := r.gate.Return(context.Background(), a, memproxy.Reply{Status: 200, Body: []byte("[]")})
		back := len(f.sent) == 1
		expect.That(t, back == tc.back && (string(got.Body) == "") == tc.back, "%s: sent %v, shown %q", name, f.sent, got.Body)
	}
}

// leaky is a screener that finds keys as well, without a score.
type leaky struct{ screener }

func (s leaky) Screen(ctx context.Context, asked memproxy.Screening) ([]memproxy.Finding, error) {
	out, err := s.screener.Screen(ctx, asked)
	for i, it := range asked.Operation.Items {
		if strings.Contains(it.Text, "key") {
			out = append(out, memproxy.Finding{Rule: "secret.key", Item: i, End: 3})
		}
	}
	return out, err
}

// Proves EDGE-2: what is extracted after the answer is asked for and screened
// as well.
func TestLateExtractionsAreRetracted(t *testing.T) {
	r, x, f, k := screeningRig(t)
	x.events = []string{"e1"}
	a := r.admitWith(learn("a note"), f)
	r.gate.Return(context.Background(), a, memproxy.Reply{Status: 200, Body: []byte("{}")})
	owed := r.gate.FollowUpRequests(a)
	must.That(t, len(owed) == 1 && owed[0].EscapedPath == "/receipt/e1", "%+v", owed)
	x.over, x.became = false, nil
	expect.That(t, !r.gate.ReadFollowUp(context.Background(), a, memproxy.Reply{Status: 200}), "over before it is")
	x.over, x.became = true, []memproxy.Memory{{ID: "m2", Text: "evil evil", Event: "ADD"}}
	expect.That(t, r.gate.ReadFollowUp(context.Background(), a, memproxy.Reply{Status: 200}) && len(f.sent) == 1 && len(k.kept) == 1, "sent %v, %d kept", f.sent, len(k.kept))
}

// A screener that judges writes by those before is notified of the ones that went
// through, and of no other.
func TestScreenersAreNotifiedOfWrites(t *testing.T) {
	var told []string
	r, _, f, _ := screeningRig(t)
	r.rules.Screener = screener{wrote: &told}
	for _, status := range []int{200, 400, 500} {
		op := learn("note")
		op.Scope.Run = "run-1"
		a := r.admitWith(op, f)
		r.gate.Return(context.Background(), a, memproxy.Reply{Status: status, Body: []byte("[]")})
	}
	r.rules.Policy = says(memproxy.Hold, memproxy.PolicyForbid)
	r.admitWith(learn("held"), f)
	must.Len(t, told, 1)
	expect.Equal(t, told[0], memproxy.InertSession("run-1")+" d1 note")
}

// What screening found to be harmless is not screened again in the same bytes, for the same
// rules, tenant and tier. What it found something in is.
func TestHarmlessMemoriesAreScreenedOnce(t *testing.T) {
	r, x, f, _ := screeningRig(t)
	r.who.ActsAs = all()
	screened := 0
	r.rules.Screener = tally{n: &screened}
	x.memories = []memproxy.Memory{{Pointer: "/0", ID: "good", Text: "tea", Memo: new(memproxy.Memo)}}
	read := func(kind memproxy.Kind) string {
		a := r.admitWith(memproxy.Operation{Kind: kind}, f)
		screened = 0 // the request itself may have been, too
		return string(r.gate.Return(context.Background(), a, memproxy.Reply{Status: 200, Body: []byte("[]")}).Body)
	}
	for i, tc := range []struct {
		kind   memproxy.Kind
		change func()
		want   int
	}{
		{memproxy.Recall, func() {}, 1},
		{memproxy.Recall, func() {}, 0},
		{memproxy.Correct, func() {}, 1},
		{memproxy.Recall, func() { r.who.Trust = memproxy.TrustAnonymous }, 1},
		{memproxy.Recall, func() { r.who.Tenant = "other" }, 1},
		{memproxy.Recall, func() {}, 0},
		{memproxy.Recall, func() { again := *r.rules; must.Do(t, r.gate.Use(&again)) }, 1},
	} {
		tc.change()
		read(tc.kind)
		expect.Equal(t, screened, tc.want, "reading", i)
	}
	x.memories[0] = memproxy.Memory{Pointer: "/0", ID: "bad", Text: "evil evil", Memo: new(memproxy.Memo)}
	for range 2 {
		expect.Equal(t, read(memproxy.Recall), "", "shown")
		expect.Equal(t, screened, 1, "what is withheld")
	}
}

// tally counts what is screened.
type tally struct {
	screener
	n *int
}

func (c tally) Screen(ctx context.Context, s memproxy.Screening) ([]memproxy.Finding, error) {
	*c.n++
	return c.screener.Screen(ctx, s)
}

// Proves CARD-4: a write that a budget will refuse is refused before it is
// screened, and one that has room is screened and charged once. In shadow mode
// it is screened, for the record.
func TestWhatABudgetRefusesIsNotScreened(t *testing.T) {
	screened := 0
	r := newRig(t, func(r *rig) { r.rules.Screener = tally{n: &screened} })
	big := learn("a note")
	big.Cost = 11 // of 10
	a := r.admit(big)
	wantCodes(t, a.Decision, memproxy.Deny, memproxy.BudgetHour)
	expect.That(t, a.Decision.Status == 429 && a.Decision.Allowance != nil && screened == 0 && r.budget.used == 0, "%+v; screened %d times, charged %d", a.Decision, screened, r.budget.used)
	for range 10 {
		wantCodes(t, r.admit(learn("a note")).Decision, memproxy.Allow)
	}
	expect.Equal(t, screened, 10, "screened")
	expect.Equal(t, r.budget.used, 10, "screened")
	for range 5 {
		wantCodes(t, r.admit(learn("a note")).Decision, memproxy.Deny, memproxy.BudgetHour)
	}
	expect.Equal(t, screened, 10, "with nothing left: screened")
	expect.Equal(t, r.budget.used, 10, "with nothing left: screened")
	r.rules.Enforce = false
	a = r.admit(learn("a note"))
	expect.That(t, a.Decision.Verdict == memproxy.Allow && a.Decision.ShadowVerdict == memproxy.Deny && screened == 11, "shadow mode: %+v, screened %d times", a.Decision, screened)
}
