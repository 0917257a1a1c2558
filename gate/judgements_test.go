// What each filter says and does is told apart inside of the package alone: whoever reads the
// answer sees their sum. So this is in the slow ring, which compiles the package once more.

//go:build slow

package gate

import (
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
)

// signs verifies stamps that say so in their id.
type signs struct{ Signer }

func (signs) Verify(s memproxy.Stamp) bool { return s.ID == "signed" }

// readerAnswer is an answer to a read by a principal of tenant "acme", with nothing
// found out about it.
func readerAnswer(set ...func(*answer)) *answer {
	a := &Admission{
		Principal: memproxy.Principal{ID: "agent:dev", Tenant: "acme"},
		call:      &Call{}, rules: &Rules{}, op: &memproxy.Operation{Kind: memproxy.Recall},
	}
	ret := &answer{Admission: a, g: &Gate{opt: Options{Signer: signs{}}}}
	ret.view = a.viewer(signs{}, nil)
	for _, s := range set {
		s(ret)
	}
	return ret
}

func written(ret *answer)   { ret.toWrite = true }
func settled(ret *answer)   { ret.targetsChecked = true; ret.op.Targets = []string{"m1"} }
func asksFor(ret *answer)   { ret.op.Targets = []string{"m1"} }
func wants(ret *answer)     { ret.call.ReadOptions.MinTrust = 500 }
func withholds(ret *answer) { ret.rules.Withhold, ret.rules.Sanitise = 800, 400; ret.screened = true }
func strict(ret *answer)    { ret.rules.Changed = ChangedWithhold }
func annOnly(ret *answer)   { ret.Principal.Users.Values = []string{"ann"} }

// memory is an item of an answer, of row's owner where it has one.
func memory(m memproxy.Memory, row *memproxy.Ownership, set ...func(*item)) *item {
	it := &item{Memory: &m, row: row, rec: new(memproxy.Record)}
	if row != nil {
		it.rec.Owner = *row
	}
	for _, s := range set {
		s(it)
	}
	return it
}

func of(tenant string) *memproxy.Ownership {
	return &memproxy.Ownership{ID: "m1", Scope: memproxy.Scope{Tenant: tenant}, Confidence: 700}
}

// Proves EDGE-1, EDGE-4, EDGE-15, CARD-1, CARD-3, CARD-4, DOL-3, DOL-4, DOL-5, MFW-7, MFW-8: what each filter of the read
// says of one item. Judgements are pure: there is no ledger here, and no HTTP.
func TestJudgements(t *testing.T) {
	bare := memproxy.Memory{ID: "m1", Text: "Ann likes tea", Pointer: "/0", TextAt: "/0/text"}
	with := func(set func(*memproxy.Memory)) memproxy.Memory { m := bare; set(&m); return m }
	tests := map[string][]struct {
		name string
		ret  *answer
		it   *item
		want action
		code memproxy.ReasonCode
	}{
		"readable": {
			{"readable", readerAnswer(), memory(bare, nil), keep, ""},
			{"an element", readerAnswer(), memory(with(func(m *memproxy.Memory) { m.Unreadable = true }), nil), remove, ""},
			{"the whole answer", readerAnswer(), memory(memproxy.Memory{Unreadable: true}, nil), refuse, memproxy.UpstreamMalformed},
		},
		"deleted": {
			{"it is there", readerAnswer(), memory(bare, of("acme")), keep, ""},
			{"a copy is shown", readerAnswer(), memory(bare, &memproxy.Ownership{ID: "m1", Deleted: true}), expel, memproxy.OwnerForeign},
			{"the event says that it was deleted", readerAnswer(), memory(memproxy.Memory{ID: "m1", Event: memproxy.MemoryDeleted}, &memproxy.Ownership{Deleted: true}), keep, ""},
			{"the event shows its text", readerAnswer(), memory(with(func(m *memproxy.Memory) { m.Event = memproxy.MemoryDeleted }), &memproxy.Ownership{Deleted: true}), expel, memproxy.OwnerForeign},
			{"the event shows its old text", readerAnswer(), memory(memproxy.Memory{ID: "m1", Event: memproxy.MemoryDeleted, Before: "tea"}, &memproxy.Ownership{Deleted: true}), expel, memproxy.OwnerForeign},
			{"the event shows a text next to it", readerAnswer(), memory(memproxy.Memory{ID: "m1", Event: memproxy.MemoryDeleted, OtherTexts: []string{"tea"}}, &memproxy.Ownership{Deleted: true}), expel, memproxy.OwnerForeign},
			{"nothing is shown of it", readerAnswer(), memory(memproxy.Memory{ID: "m1"}, &memproxy.Ownership{Deleted: true}), expel, memproxy.OwnerForeign},
			{"the event says that it was written", readerAnswer(), memory(with(func(m *memproxy.Memory) { m.Event = memproxy.MemoryAdded }), &memproxy.Ownership{Deleted: true}), expel, memproxy.OwnerForeign},
			{"the event shows its metadata", readerAnswer(), memory(memproxy.Memory{ID: "m1", Event: memproxy.MemoryDeleted, Metadata: []byte(`{"a":1}`)}, &memproxy.Ownership{Deleted: true}), expel, memproxy.OwnerForeign},
		},
		"owners": {
			{"the tenant's", readerAnswer(), memory(bare, of("acme")), keep, ""},
			{"another tenant's in a list", readerAnswer(), memory(bare, of("globex")), expel, memproxy.OwnerForeign},
			{"another tenant's, asked for, not ruled on", readerAnswer(asksFor), memory(bare, of("globex")), refuse, memproxy.OwnerForeign},
			{"asked for and ruled on", readerAnswer(settled), memory(bare, of("acme")), keep, ""},
			{"another tenant's next to what was ruled on", readerAnswer(settled), memory(with(func(m *memproxy.Memory) { m.ID = "m2" }), of("globex")), expel, memproxy.OwnerForeign},
			{"ruled on, and now of a user that the caller may not name", readerAnswer(settled, annOnly), memory(with(func(m *memproxy.Memory) { m.Scope.User = "bob" }), of("acme")), expel, memproxy.OwnerForeign},
			{"next to what was ruled on, of such a user", readerAnswer(settled, annOnly), memory(with(func(m *memproxy.Memory) { m.ID, m.Scope.User = "m2", "bob" }), nil), expel, memproxy.OwnerForeign},
			{"next to what was ruled on", readerAnswer(settled, annOnly), memory(with(func(m *memproxy.Memory) { m.ID, m.Scope.User = "m2", "ann" }), nil), keep, ""},
			{"missing", readerAnswer(), memory(memproxy.Memory{ID: "m1", Missing: true}, of("globex")), keep, ""},
			{"another tenant's in the answer to a write", readerAnswer(written), memory(bare, of("globex")), expel, memproxy.OwnerUnknown},
			{"the target of a write", readerAnswer(written, asksFor), memory(bare, of("globex")), keep, ""},
		},
		"confidence": {
			{"enough", readerAnswer(wants), memory(bare, of("acme")), keep, ""},
			{"too little", readerAnswer(wants), memory(bare, &memproxy.Ownership{Confidence: 499}), drop, memproxy.TrustBelow},
			{"nothing is known", readerAnswer(wants), memory(bare, nil), drop, memproxy.TrustBelow},
			{"enough for another text", readerAnswer(wants), memory(bare, of("acme"), altered), drop, memproxy.TrustBelow},
			{"enough for another memory's stamp", readerAnswer(wants), memory(with(func(m *memproxy.Memory) { m.Stamp = &memproxy.Stamp{ID: "signed", Confidence: 900} }), nil, altered), drop, memproxy.TrustBelow},
			{"nothing was asked for", readerAnswer(), memory(bare, nil), keep, ""},
			{"it holds memories", readerAnswer(wants), memory(with(func(m *memproxy.Memory) { m.IsContainer = true }), nil), keep, ""},
			{"a message", readerAnswer(wants), memory(with(func(m *memproxy.Memory) { m.Layer = memproxy.Episodic }), nil), keep, ""},
			{"a stamp says enough", readerAnswer(wants), memory(with(func(m *memproxy.Memory) { m.Stamp = &memproxy.Stamp{ID: "signed", Confidence: 900} }), nil), keep, ""},
			{"a forged stamp says enough", readerAnswer(wants), memory(with(func(m *memproxy.Memory) { m.Stamp = &memproxy.Stamp{ID: "forged", Confidence: 900} }), nil), drop, memproxy.TrustBelow},
		},
		"integrity": {
			{"as written", readerAnswer(strict), memory(bare, nil), keep, ""},
			{"changed, and shown by the rules", readerAnswer(), memory(bare, nil, altered), keep, ""},
			{"changed", readerAnswer(strict), memory(bare, nil, altered), drop, memproxy.IntegrityMismatch},
		},
		"states": {
			{"shown", readerAnswer(), memory(bare, nil), keep, ""},
			{"withheld", readerAnswer(), memory(bare, nil, func(it *item) { it.display = withhold }), drop, memproxy.StateWithheld},
			{"its status is not known", readerAnswer(), memory(bare, nil, func(it *item) { it.statusUnknown = "not known" }), drop, memproxy.StateWithheld},
			{"the writer's own text", readerAnswer(written, saysIt), memory(bare, nil, func(it *item) { it.display = withhold }), keep, ""},
			{"sanitised later", readerAnswer(), memory(bare, nil, func(it *item) { it.display = sanitise }), keep, ""},
		},
		"compiled": {
			{"of nothing that is withheld", readerAnswer(), memory(with(compiledFrom), nil), keep, ""},
			{"of memories that are withheld", readerAnswer(func(ret *answer) { ret.hidesCompiled = true }), memory(with(compiledFrom), nil), drop, memproxy.StateWithheld},
			{"a memory of its own", readerAnswer(func(ret *answer) { ret.hidesCompiled = true }), memory(bare, nil), keep, ""},
		},
		"attacks": {
			{"harmless", readerAnswer(withholds), memory(bare, nil), keep, ""},
			{"the writer's own text", readerAnswer(withholds, written, saysIt), memory(bare, nil, risk(900)), keep, ""},
			{"an attack", readerAnswer(withholds), memory(bare, nil, risk(800)), drop, memproxy.ScreenWithheld},
			{"nothing is withheld by the rules", readerAnswer(), memory(bare, nil, risk(1000)), keep, ""},
			{"a dangerous span, written around the proxy", readerAnswer(withholds), memory(bare, nil, risk(500)), redact, ""},
			{"a dangerous span that cannot be replaced", readerAnswer(withholds), memory(with(func(m *memproxy.Memory) { m.TextAt = "" }), nil, risk(500)), drop, memproxy.ScreenWithheld},
			{"confirmed by a person", readerAnswer(withholds), memory(bare, nil, risk(900), confirmed), keep, ""},
			{"confirmed by a person, and changed since", readerAnswer(withholds), memory(bare, nil, risk(900), confirmed, altered), drop, memproxy.ScreenWithheld},
			{"confirmed, and found changed before", readerAnswer(withholds), memory(bare, nil, risk(900), confirmed, func(it *item) { it.rec.Status.Unverified = memproxy.IntegrityMismatch }), drop, memproxy.ScreenWithheld},
			{"confirmed, and quarantined since", readerAnswer(withholds), memory(bare, nil, risk(900), confirmed, func(it *item) { it.rec.Status.State = memproxy.StateQuarantined }), drop, memproxy.ScreenWithheld},
			{"confirmed, and it changes by itself", readerAnswer(withholds), memory(with(func(m *memproxy.Memory) { m.Mutable = true }), nil, risk(900), confirmed), drop, memproxy.ScreenWithheld},
			{"confirmed, and this is its history", readerAnswer(withholds), memory(with(func(m *memproxy.Memory) { m.OtherTexts = []string{"Ann likes rum"} }), nil, risk(900), confirmed), drop, memproxy.ScreenWithheld},
			{"confirmed, and danger next to its text", readerAnswer(withholds), memory(bare, nil, risk(500), confirmed, func(it *item) { it.judged.risk = 900 }), drop, memproxy.ScreenWithheld},
			{"confirmed, and changes are not looked for", readerAnswer(withholds, func(ret *answer) { ret.rules.Changed = ChangedIgnore }), memory(bare, nil, risk(900), confirmed), drop, memproxy.ScreenWithheld},
			{"validated by rules", readerAnswer(withholds), memory(bare, nil, risk(900), func(it *item) { it.rec.Status.State = memproxy.StateValidated }), drop, memproxy.ScreenWithheld},
			{"flagged, and its spans are not known", readerAnswer(), memory(bare, nil, func(it *item) { it.display = sanitise }), redact, ""},
		},
		"previous": {
			{"its author is known", readerAnswer(written), memory(bare, nil), keep, ""},
			{"its author is not known", readerAnswer(written), memory(bare, nil, func(it *item) { it.hidesBefore = true }), strip, ""},
		},
		"enclosed": {
			{"outside", readerAnswer(), memory(bare, nil), keep, ""},
			{"inside", readerAnswer(func(ret *answer) { ret.removed = map[string]bool{"/0": true} }), memory(bare, nil, func(it *item) { it.Pointer = "/0/blocks/1" }), remove, ""},
		},
		"provenance": {
			{"asked for", readerAnswer(func(ret *answer) { ret.call.ReadOptions.Provenance = true }), memory(bare, of("acme")), annotate, ""},
			{"not asked for", readerAnswer(), memory(bare, of("acme")), keep, ""},
		},
	}
	for i := range filters {
		f := &filters[i]
		if f.judge == nil {
			continue
		}
		acts := map[bool]bool{}
		for _, tc := range tests[f.Name] {
			got := f.judge(tc.ret, tc.it)
			expect.Equal(t, got.action, tc.want, f.Name, tc.name, "action")
			expect.Equal(t, got.code, tc.code, f.Name, tc.name, "action")
			acts[got.action != keep] = true
		}
		if !acts[true] || !acts[false] {
			t.Errorf("%s: no item that it keeps and one that it does not", f.Name)
		}
	}
}

func altered(it *item)                { it.altered = memproxy.IntegrityMismatch }
func compiledFrom(m *memproxy.Memory) { m.Compiled = true }
func confirmed(it *item) {
	it.rec.Status.State, it.rec.Status.Attestation = memproxy.StateValidated, memproxy.HumanConfirmed
}

func risk(score memproxy.PerMille) func(*item) {
	return func(it *item) {
		it.judged = judged{risk: score, score: score, spans: []memproxy.Finding{{Rule: "directive", Score: score, End: 3}}}
	}
}

// Proves EDGE-3, EDGE-13, DOL-5: what an action does to an element of a list, to a member, and to what is the
// whole answer, of a read and of a write.
func TestApply(t *testing.T) {
	const (
		whole   = ""
		member  = "/memory"
		element = "/results/0"
	)
	shown, left, blank, refused := "shown", "left out", "without its text", "refused"
	for _, tc := range []struct {
		action                  action
		pointer                 string
		ofRead, ofWrite, noText string // noText: of a write, where the text has no place
	}{
		{keep, whole, shown, shown, shown},
		{annotate, element, shown, shown, shown},
		{remove, element, left, left, left},
		{drop, element, left, left, left},
		{drop, member, left, blank, refused},
		{drop, whole, refused, blank, refused},
		{expel, element, left, left, left},
		{expel, member, left, refused, refused},
		{expel, whole, refused, refused, refused},
		{refuse, element, refused, refused, refused},
	} {
		for i, want := range []string{tc.ofRead, tc.ofWrite, tc.noText} {
			ret := readerAnswer(func(ret *answer) { ret.call.Backend.Adapter = wordless{}; ret.toWrite = i > 0 })
			it := memory(memproxy.Memory{ID: "m1", Text: "tea", Pointer: tc.pointer, TextAt: "/text"}, nil)
			if i == 2 {
				it.TextAt = ""
			}
			no := ret.apply(it, outcome{action: tc.action, code: memproxy.OwnerForeign})
			got := shown
			switch {
			case no:
				got = refused
			case it.Drop:
				got = left
			case it.Show != nil && *it.Show == "":
				got = blank
			}
			expect.Equal(t, got, want, "action", tc.action, tc.pointer, "case", i)
			if no && (ret.AnswerRefusal == nil || ret.AnswerRefusal.Status != memproxy.StatusNotFound || ret.filtered != 1) {
				t.Errorf("action %d at %q: refused as %+v, filtered %d", tc.action, tc.pointer, ret.AnswerRefusal, ret.filtered)
			}
		}
	}
}

// wordless refuses with an empty reply.
type wordless struct{ Adapter }

func (wordless) Refuse(memproxy.Request, memproxy.Decision) memproxy.Reply { return memproxy.Reply{} }
