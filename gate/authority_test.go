package gate_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

func correct(text string, ids ...string) memproxy.Operation {
	op := byID(memproxy.Correct, ids...)
	for _, id := range ids {
		op.Items = append(op.Items, memproxy.Item{Kind: memproxy.ItemContent, Text: text, Target: id})
	}
	return op
}

func by(actor string, trust memproxy.Trust, given memproxy.PerMille) memproxy.Ownership {
	return memproxy.Ownership{
		Backend: "mem", Kind: memproxy.TargetMemory, ID: "m1", Actor: actor, Trust: trust, Confidence: given,
		Scope: memproxy.Scope{Tenant: "acme"},
	}
}

func signed(actor string, trust memproxy.Trust, given memproxy.PerMille, a memproxy.Attestation) *memproxy.Stamp {
	return &memproxy.Stamp{Actor: actor, Trust: trust, Confidence: given, Attestation: a, Signature: "signed for acme"}
}

// Proves TRL-5, EDGE-5: what the policy is asked with about the words that
// would be changed: by the ledger, by the stamp, by later corrections (gate/trust).
func TestAuthorityOfReplacedTexts(t *testing.T) {
	forged := signed("human:ann", memproxy.TrustHuman, 900, memproxy.LogAnchored)
	forged.Signature = "signed for globex"
	for name, tc := range map[string]struct {
		row         *memproxy.Ownership
		stamp       *memproxy.Stamp
		corrections []memproxy.Correction
		attested    memproxy.Attestation
		trust       memproxy.PerMille
		others      bool
		attestation memproxy.Attestation
	}{
		"nobody knows":           {},
		"one's own":              {row: new(by("agent:dev", memproxy.TrustAuthenticated, 700))},
		"another's":              {row: new(by("agent:ci", memproxy.TrustEstablished, 800)), trust: 800, others: true},
		"another's by its stamp": {stamp: signed("agent:ci", memproxy.TrustEstablished, 900, memproxy.ToolObserved), trust: 900, others: true, attestation: memproxy.ToolObserved},
		"a forged stamp":         {stamp: forged},
		"one's own, corrected since": {
			row:         new(by("agent:dev", memproxy.TrustAuthenticated, 700)),
			corrections: []memproxy.Correction{{Corrector: "agent:dev", Trust: memproxy.TrustSystem}, {Corrector: "human:ann", Trust: memproxy.TrustHuman}}, trust: 1000,
		},
		"the better attestation counts": {
			row: new(by("agent:dev", memproxy.TrustAuthenticated, 700)), attested: memproxy.LogAnchored,
			stamp: signed("agent:dev", memproxy.TrustAuthenticated, 700, memproxy.SelfReported), attestation: memproxy.LogAnchored,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var asked memproxy.Question
			r, j := anyAgent(t, func(r *rig) {
				r.fake.merges = true
				r.fake.located = map[string]memproxy.Memory{"m1": {ID: "m1", Text: "tea", Stamp: tc.stamp}}
				r.rules.Policy = policy(func(q memproxy.Question) (memproxy.Ruling, error) { asked = q; return memproxy.Ruling{}, nil })
			})
			if tc.row != nil {
				j.rows["m1"] = *tc.row
			}
			j.corrections = tc.corrections
			j.statuses = map[string]memproxy.Status{"m1": {MemoryKey: memproxy.MemoryKey{Backend: "mem", Kind: memproxy.TargetMemory, ID: "m1"}, Attestation: tc.attested}}
			a := r.admit(correct("coffee", "m1"))
			expect.That(t, a.Reply == nil && asked.AuthorTrust == tc.trust && asked.Others == tc.others && asked.AuthorAttestation == tc.attestation,
				"trust %d, others %v, %q; want %d, %v, %q", asked.AuthorTrust, asked.Others, asked.AuthorAttestation, tc.trust, tc.others, tc.attestation)
			expect.Equal(t, len(a.Decision.Recorded()) == 1 && a.Decision.Recorded()[0].Code == memproxy.TrustCorrection, tc.others, a.Decision.Recorded())
		})
	}
}

// Proves TRL-5, EDGE-5: an object that a change only refers to is not changed, and a memory
// that was deleted has no author's say. One that the backend still shows is to others missing.
func TestWhatIsLeftHasNoAuthorsSay(t *testing.T) {
	own, another := by("agent:dev", memproxy.TrustAuthenticated, 700), by("agent:ci", memproxy.TrustEstablished, 800)
	gone := another
	another.ID, gone.ID, gone.Deleted = "m2", "m3", true
	refers := correct("coffee", "m1")
	refers.Targets = append(refers.Targets, "m2")
	refers.Kept = []string{"m2"}
	rewrites := correct("coffee", "m1", "m2")
	rewrites.Kept = []string{"m2"}
	emptied := byID(memproxy.Forget, "m1", "m2")
	emptied.Kept = []string{"m2"}
	for name, tc := range map[string]struct {
		op     memproxy.Operation
		others bool
		status int
	}{
		"referred to":                   {refers, false, 0},
		"changed":                       {correct("coffee", "m1", "m2"), true, 0},
		"referred to, and given a text": {rewrites, true, 0},
		"emptied":                       {emptied, true, 0},
		"deleted":                       {byID(memproxy.Forget, "m3"), false, 0},
		"deleted, and shown":            {byID(memproxy.Forget, "m4"), false, 404},
	} {
		var asked memproxy.Question
		r, j := anyAgent(t, func(r *rig) {
			r.fake.merges = true
			r.fake.located = map[string]memproxy.Memory{"m1": {ID: "m1", Text: "tea"}, "m2": {ID: "m2", Text: "tea"}, "m3": {ID: "m3"}, "m4": {ID: "m4", Text: "tea"}}
			r.rules.Policy = policy(func(q memproxy.Question) (memproxy.Ruling, error) { asked = q; return memproxy.Ruling{}, nil })
		})
		shown := gone
		shown.ID = "m4"
		j.rows["m1"], j.rows["m2"], j.rows["m3"], j.rows["m4"] = own, another, gone, shown
		a := r.admit(tc.op)
		expect.That(t, a.Decision.Status == tc.status && asked.Others == tc.others, "%s: others %v, want %v; %+v", name, asked.Others, tc.others, a.Decision)
	}
}

// A ledger that cannot say whose words they are refuses the change; an addition
// does not need it.
func TestUnknownAuthorsAreNotOverruled(t *testing.T) {
	r, j := anyAgent(t, nil)
	j.rows["m1"] = by("agent:dev", memproxy.TrustAuthenticated, 700)
	j.broken = errBroken
	for _, op := range []memproxy.Operation{correct("coffee", "m1"), byID(memproxy.Forget, "m1")} {
		a := r.admit(op)
		wantCodes(t, a.Decision, memproxy.Deny, memproxy.LedgerUnavailable)
		expect.Equal(t, a.Decision.Status, 503)
	}
	wantCodes(t, r.admit(learn("coffee")).Decision, memproxy.Allow)
}

// Proves TRL-5: a correction that was made is on its author's record, once the
// backend made it; one that the backend refused, one of one's own, and a change
// of what is next to the text are not.
func TestCorrectionsAreCredited(t *testing.T) {
	for name, tc := range map[string]struct {
		author, text string
		kind         memproxy.Kind
		status       int
		want         int
	}{
		"another's":           {"agent:ci", "coffee", memproxy.Correct, 200, 1},
		"the backend refused": {"agent:ci", "coffee", memproxy.Correct, 404, 0},
		"the backend failed":  {"agent:ci", "coffee", memproxy.Correct, 500, 0},
		"one's own":           {"agent:dev", "coffee", memproxy.Correct, 200, 0},
		"the same text":       {"agent:ci", "tea", memproxy.Correct, 200, 0},
		"a deletion":          {"agent:ci", "", memproxy.Forget, 200, 0},
	} {
		r, j := anyAgent(t, func(r *rig) {
			r.fake.merges = true
			r.fake.located = map[string]memproxy.Memory{"m1": {ID: "m1", Text: "tea"}}
		})
		j.rows["m1"] = by(tc.author, memproxy.TrustAuthenticated, 300)
		op := byID(tc.kind, "m1")
		if tc.kind == memproxy.Correct {
			op = correct(tc.text, "m1")
		}
		a := r.admit(op)
		r.gate.Return(context.Background(), a, memproxy.Reply{Status: tc.status, Body: []byte("{}")})
		noted := 0
		for _, ev := range r.recorder.events {
			if ev.Type == memproxy.EventCrossCorrection && strings.Contains(ev.Detail, "written by agent:ci, corrected by agent:dev") {
				noted++
			}
		}
		must.Len(t, j.corrected, tc.want, name)
		expect.Equal(t, noted, tc.want, name)
		// What is gone was said with less confidence than its author can give.
		if gone := tc.status == 200 && name != "the same text"; gone != (len(j.retracted) == 1 && j.retracted[0].Text == "tea" && j.retracted[0].Author == tc.author && j.retracted[0].Confidence == 300) {
			t.Errorf("%s: retracted %+v", name, j.retracted)
		}
	}
}

// blockTool is an adapter whose requests call a tool of an agent, which changes m1.
type blockTool struct {
	*fakeAdapter
	noRuns
}

func (blockTool) ToolRun(memproxy.Route, memproxy.Request, []byte) memproxy.ToolRun {
	return blockRun{}
}

type blockRun struct{}

func (blockRun) NextSideRequest() (memproxy.Request, bool) { return memproxy.Request{}, false }
func (blockRun) ReadSideReply(memproxy.Reply) error        { return nil }
func (blockRun) ReadAnswer([]byte) error                   { return nil }
func (blockRun) Current() map[string]memproxy.Memory       { return nil }
func (blockRun) AddContent(*memproxy.Operation)            {}
func (blockRun) TakeEdits() []memproxy.Edit {
	return []memproxy.Edit{{Memories: []memproxy.Memory{{ID: "m1", Text: "coffee", Before: "tea", Event: "UPDATE"}}}}
}

// Proves TRL-5: a correction by a tool that was run from outside is once on its author's
// record, whether its answer has a body, has none, or is lost.
func TestToolsCorrectOnce(t *testing.T) {
	for name, end := range map[string]func(*gate.Gate, *gate.Admission){
		"a body": func(g *gate.Gate, a *gate.Admission) {
			g.Return(context.Background(), a, memproxy.Reply{Status: 200, Body: []byte("{}")})
		},
		"no body": func(g *gate.Gate, a *gate.Admission) { g.Return(context.Background(), a, memproxy.Reply{Status: 200}) },
		"lost":    func(g *gate.Gate, a *gate.Admission) { g.Abandon(context.Background(), a, memproxy.StreamTorn) },
	} {
		r, j := anyAgent(t, func(r *rig) {
			r.fake.merges = true
			r.fake.located = map[string]memproxy.Memory{"m1": {ID: "m1", Text: "tea"}}
			r.adapter = blockTool{fakeAdapter: r.fake}
		})
		j.rows["m1"] = by("agent:ci", memproxy.TrustAuthenticated, 300)
		end(r.gate, r.admit(correct("coffee", "m1")))
		must.Len(t, j.corrected, 1, name)
	}
}

// Proves TRL-5: a call of a running agent that changes another's text is on the
// author's record; in shadow mode nothing is.
func TestCallsOfAgentsAreCredited(t *testing.T) {
	for _, enforce := range []bool{true, false} {
		r, j := anyAgent(t, func(r *rig) { r.rules.Enforce = enforce })
		j.rows["m1"] = by("agent:ci", memproxy.TrustAuthenticated, 300)
		op, c := correct("coffee", "m1"), r.call(learn("x"))
		op.TargetKind, op.Current = memproxy.TargetMemory, map[string]memproxy.Memory{"m1": {ID: "m1", Text: "tea"}}
		r.gate.Agents().RuleOnCall(context.Background(), r.gate.Agents().AdmissionFor(c, r.admit(learn("x")).Principal, ""), memproxy.ToolCall{ID: "c", Tool: "t", Operation: &op})
		settled := len(j.corrected) == 1 && len(j.retracted) == 1
		expect.That(t, settled == enforce && (enforce || len(j.corrected)+len(j.retracted) == 0), "enforced %v: %+v, %+v", enforce, j.corrected, j.retracted)
	}
}

// Proves EDGE-5, EDGE-2: what the backend's own model makes of the word of
// somebody who is trusted more, on the way of an addition, is put back and kept
// as dissent; a deletion is named. The words of equals and one's own are its to
// change.
func TestModelsDoNotOverrule(t *testing.T) {
	for name, tc := range map[string]struct {
		author string
		trust  memproxy.Trust
		event  string
		who    memproxy.PrincipalKind
		put    bool
		named  bool
	}{
		"a better one's changed":              {"human:ann", memproxy.TrustHuman, "UPDATE", memproxy.KindAgent, true, true},
		"a better one's deleted":              {"human:ann", memproxy.TrustHuman, "DELETE", memproxy.KindAgent, false, true},
		"a better one's left alone":           {"human:ann", memproxy.TrustHuman, "NONE", memproxy.KindAgent, false, false},
		"an equal's changed":                  {"agent:ci", memproxy.TrustAuthenticated, "UPDATE", memproxy.KindAgent, false, false},
		"one's own changed":                   {"agent:dev", memproxy.TrustEstablished, "UPDATE", memproxy.KindAgent, false, false},
		"a better one's changed for a person": {"human:ann", memproxy.TrustHuman, "UPDATE", memproxy.KindHuman, false, false},
	} {
		for _, late := range []bool{false, true} {
			x, f := &fakeExtractor{over: true}, &sender{status: 200}
			r, j := anyAgent(t, func(r *rig) { r.adapter, r.fake = x, &x.fakeAdapter; r.who.Kind = tc.who })
			j.rows["m1"] = by(tc.author, tc.trust, 900)
			changed := []memproxy.Memory{{Pointer: "/0", ID: "m1", Text: "coffee", Before: "tea", Event: tc.event}}
			if late {
				x.events, x.became = []string{"e1"}, changed
			} else {
				x.memories = changed
			}
			a := r.admitWith(learn("Ann likes coffee."), f)
			r.gate.Return(context.Background(), a, memproxy.Reply{Status: 200, Body: []byte("[]")})
			if late {
				must.Len(t, r.gate.FollowUpRequests(a), 1, name, "owed")
				r.gate.ReadFollowUp(context.Background(), a, memproxy.Reply{Status: 200})
			}
			last := r.recorder.last()
			named := len(last.Reasons) == 1 && last.Reasons[0].Code == memproxy.TrustAuthority && last.Reasons[0].Rule == "m1"
			expect.That(t, (len(f.sent) == 1) == tc.put && named == tc.named, "%s, late %v: sent %v, %+v", name, late, f.sent, last.Reasons)
			expect.Equal(t, len(j.dissent) == 1 && j.dissent[0].Text == "coffee" && j.dissent[0].Author == tc.author, tc.put, name, "late", late, j.dissent)
			row := j.rows["m1"]
			expect.That(t, !tc.put || row.Actor == tc.author && row.SHA256 == "", "%s: %+v", name, row)
		}
	}
}

// Proves EDGE-5, MFW-13: while the ledger cannot say whose word the backend's model
// changed, the answer is withheld and the change is not recorded as the caller's, so
// that readers see that the text is another; what is made later is asked for again.
func TestChangesOfUnknownAuthorsAreNotShown(t *testing.T) {
	fail := errors.New("the ledger is gone")
	for name, set := range map[string]func(*fakeLedger, error){
		"owners":      func(j *fakeLedger, err error) { j.broken = err },
		"corrections": func(j *fakeLedger, err error) { j.noCorrections = err },
	} {
		changed := []memproxy.Memory{{Pointer: "/0", ID: "m1", Text: "coffee", Before: "tea", Event: "UPDATE"}}
		start := func() (*rig, *fakeLedger, *fakeExtractor, *sender) {
			x, f := &fakeExtractor{over: true}, &sender{status: 200}
			r, j := anyAgent(t, func(r *rig) { r.adapter, r.fake = x, &x.fakeAdapter })
			j.rows["m1"] = by("human:ann", memproxy.TrustHuman, 900)
			return r, j, x, f
		}
		r, j, x, f := start()
		x.memories = changed
		a := r.admitWith(learn("Ann likes coffee."), f)
		set(j, fail)
		reply := r.gate.Return(context.Background(), a, memproxy.Reply{Status: 200, Body: []byte("[]")})
		row := j.rows["m1"]
		expect.That(t, reply.Status == 502 && row.Actor == "human:ann" && row.SHA256 == "" && len(j.versions) == 0, "%s: status %d, %+v, %+v", name, reply.Status, row, j.versions)

		r, j, x, f = start()
		x.memories = []memproxy.Memory{{Pointer: "/0", ID: "m2", Text: "beer", Event: "ADD"}}
		a = r.admitWith(learn("Ann likes beer."), f)
		set(j, fail)
		expect.Equal(t, r.gate.Return(context.Background(), a, memproxy.Reply{Status: 200, Body: []byte("[]")}).Status, 200, name, "a new memory is answered")

		r, j, x, f = start()
		x.events, x.became = []string{"e1"}, changed
		a = r.admitWith(learn("Ann likes coffee."), f)
		r.gate.Return(context.Background(), a, memproxy.Reply{Status: 200, Body: []byte("[]")})
		set(j, fail)
		expect.That(t, !r.gate.ReadFollowUp(context.Background(), a, memproxy.Reply{Status: 200}) && len(f.sent) == 0, "%s: over, %v", name, f.sent)
		set(j, nil)
		x.became[0].Drop = false
		expect.That(t, r.gate.ReadFollowUp(context.Background(), a, memproxy.Reply{Status: 200}) && len(f.sent) == 1 && len(j.dissent) == 1, "%s, later: %v, %+v", name, f.sent, j.dissent)
	}
}

// Proves TRL-5: a batch contests what is others', and not what is one's own.
func TestBatchesContestTheWordsOfOthers(t *testing.T) {
	r, j := anyAgent(t, func(r *rig) { r.rules.Policy = says(memproxy.Hold, memproxy.TrustAuthority) })
	own, others := by("agent:dev", memproxy.TrustAuthenticated, 700), by("human:ann", memproxy.TrustHuman, 900)
	own.ID, others.ID = "m1", "m2"
	j.rows["m1"], j.rows["m2"] = own, others
	r.admit(correct("coffee", "m1", "m2"))
	expect.That(t, len(j.dissent) == 1 && j.dissent[0].ID == "m2" && j.dissent[0].Text == "coffee" && j.dissent[0].Author == "human:ann" && j.dissent[0].Corrector == "agent:dev",
		"%+v", j.dissent)
}

// toolCall is a call of a tool that changes an agent's memory.
func toolCall(kind memproxy.Kind, target string) memproxy.ToolCall {
	return memproxy.ToolCall{ID: "c1", Tool: "rethink", Operation: &memproxy.Operation{
		Kind: kind, TargetKind: memproxy.TargetMemory,
		Items: []memproxy.Item{{Kind: memproxy.ItemContent, Text: "coffee", Field: "human", Target: target}},
	}}
}

// Proves EDGE-1, EDGE-5: a call of a running agent is weighed against the block
// that it names, found by its label; a backend or ledger that cannot say whose
// it is refuses it, and one that only adds asks nobody.
func TestCallsAreWeighed(t *testing.T) {
	for name, tc := range map[string]struct {
		kind   memproxy.Kind
		fetch  error
		ledger error
		want   memproxy.ReasonCode // "": passes
		trust  memproxy.PerMille
	}{
		"a replacement":         {kind: memproxy.Correct, trust: 900, want: memproxy.TrustCorrection},
		"a deletion":            {kind: memproxy.Forget, trust: 900, want: memproxy.TrustCorrection},
		"an addition":           {kind: memproxy.Learn, fetch: errBroken},
		"the backend is silent": {kind: memproxy.Correct, fetch: errBroken, want: memproxy.UpstreamUnavailable},
		"the ledger is silent":  {kind: memproxy.Correct, ledger: errBroken, want: memproxy.LedgerUnavailable},
	} {
		var asked memproxy.Question
		r, j := anyAgent(t, func(r *rig) {
			r.fake.located = map[string]memproxy.Memory{"a1/human": {ID: "m1", Text: "tea"}}
			r.rules.Policy = policy(func(q memproxy.Question) (memproxy.Ruling, error) { asked = q; return memproxy.Ruling{}, nil })
		})
		j.rows["m1"] = by("human:ann", memproxy.TrustHuman, 900)
		run := r.admit(memproxy.Operation{Kind: memproxy.Run})
		r.fetch.err, j.err = tc.fetch, tc.ledger
		a := r.gate.Agents().RuleOnCall(context.Background(), run, toolCall(tc.kind, "a1/human"))
		codes := fmt.Sprint(a.Decision.Recorded())
		if tc.want == "" && len(a.Decision.Recorded()) > 0 || tc.want != "" && !strings.Contains(codes, string(tc.want)) || asked.AuthorTrust != tc.trust {
			t.Errorf("%s: %v %s, asked with %d", name, a.Decision.Verdict, codes, asked.AuthorTrust)
		}
		if tc.want == memproxy.UpstreamUnavailable || tc.want == memproxy.LedgerUnavailable {
			expect.Equal(t, a.Decision.Verdict, memproxy.Deny, name)
			expect.Len(t, j.corrected, 0, name)
		}
		expect.That(t, tc.kind != memproxy.Correct || tc.trust == 0 || len(j.corrected) == 1, "%s: %+v", name, j.corrected)
	}
}
