package gate_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// teller is a fake whose answers are what its memories say, and relations.
type teller struct {
	noRuns
	*fakeReader
}

func (s teller) Rewrite(_ memproxy.Route, _ memproxy.Request, _ memproxy.Reply, rd *memproxy.Reading) ([]byte, error) {
	var out []string
	for i := range rd.Memories {
		m := &rd.Memories[i]
		switch {
		case m.Drop && m.Pointer == "":
			return nil, errBroken
		case m.Drop:
			continue
		case m.Show != nil:
			out = append(out, *m.Show)
		default:
			out = append(out, m.Text)
		}
		if m.Before != "" && !m.OmitBefore {
			out = append(out, m.Before)
		}
	}
	if !rd.Unrelated {
		out = append(out, rd.Relations...)
	}
	return []byte(strings.Join(out, ",")), nil
}

func (teller) Structured(memproxy.Route) bool { return true }

// Names are words of the form "tool-…"; every one is the whole of its place.
func (s teller) Names(_ memproxy.Route, r memproxy.Reply) ([]memproxy.Ref, error) {
	var refs []memproxy.Ref
	for _, word := range strings.FieldsFunc(string(r.Body), func(c rune) bool { return c == ',' || c == '"' || c == '{' || c == '}' || c == ':' || c == ' ' }) {
		if strings.HasPrefix(word, "tool-") {
			refs = append(refs, memproxy.Ref{Kind: memproxy.TargetMemory, ID: word, Pointer: "/" + word})
		}
	}
	return refs, nil
}

func (s teller) RemovePointers(r memproxy.Reply, gone []string) ([]byte, error) {
	body := r.Body
	for _, at := range gone {
		body = bytes.ReplaceAll(body, []byte(at[1:]), nil)
	}
	return body, nil
}

func (s teller) Withhold(_ memproxy.Route, body []byte, _ bool) ([]byte, error) {
	return bytes.ReplaceAll(body, []byte("sk-secret"), nil), nil
}

// briefly is a teller whose secrets have the length of null.
type briefly struct{ teller }

func (briefly) Withhold(_ memproxy.Route, body []byte, administers bool) ([]byte, error) {
	if administers {
		return body, nil
	}
	return bytes.ReplaceAll(body, []byte(`"ab"`), []byte("null")), nil
}

// An administrator sees what only administrators are shown, whatever its length.
func TestAdministratorsSeeShortValues(t *testing.T) {
	for verdict, want := range map[memproxy.Verdict]string{memproxy.Allow: `"ab"`, memproxy.Deny: "null"} {
		r, _ := anyAgent(t, func(r *rig) {
			r.adapter = briefly{teller{noRuns{}, r.adapter.(*fakeReader)}}
			r.rules.Policy = policy(func(q memproxy.Question) (memproxy.Ruling, error) {
				if q.Operation.Kind == memproxy.Admin {
					return memproxy.Ruling{Verdict: verdict}, nil
				}
				return memproxy.Ruling{}, nil
			})
		})
		r.fake.memories = []memproxy.Memory{{Pointer: "/0", ID: "m1", Text: `"ab"`}}
		got := r.gate.Return(t.Context(), r.admit(memproxy.Operation{Kind: memproxy.Recall}), memproxy.Reply{Status: 200, Body: []byte("everything")})
		expect.Equal(t, string(got.Body), want, verdict)
	}
}

// Proves EDGE-13, DOL-5, MFW-8: one list of filters for reads, for the answers
// of writes and changes, and for runs: what a reader is not shown, nobody is.
func TestEveryAnswerGoesThroughOneListOfFilters(t *testing.T) {
	for _, kind := range []memproxy.Kind{memproxy.Recall, memproxy.Learn, memproxy.Correct, memproxy.Attach, memproxy.Forget, memproxy.Run} {
		var passed []string
		r, l := anyAgent(t, func(r *rig) {
			r.rules.OneTenant, r.rules.Withhold, r.rules.Screener = false, 500, screener{}
			r.adapter, r.fake.relations = teller{noRuns{}, r.adapter.(*fakeReader)}, []string{"evil evil canary"}
			r.filtered = func(_ memproxy.Route, name string) { passed = append(passed, name) }
		})
		l.rows["theirs"], l.rows["tool-theirs"], l.rows["old"] = owned("theirs", "globex", "dev"), owned("tool-theirs", "globex", "dev"), owned("old", "acme", "dev")
		l.statuses["bad"], l.statuses["old"] = memproxy.Status{State: memproxy.StateQuarantined}, memproxy.Status{State: memproxy.StateExpired}
		r.fake.memories = []memproxy.Memory{
			{Pointer: "/0", ID: "fine", Text: "tea", Scope: memproxy.Scope{User: "ann"}},
			{Pointer: "/1", ID: "theirs", Text: "canary 1", Before: "canary 2", Event: "UPDATE"},
			{Pointer: "/2", ID: "bad", Text: "canary 3", Event: "UPDATE"},
			{Pointer: "/3", ID: "old", Text: "canary 4", Before: "canary 5", Event: "NONE"},
			{Pointer: "/4", ID: "attack", Text: "evil evil canary", Event: "NONE"},
			{Pointer: "/4/inner", ID: "inner", Text: "canary 6"},
			{Pointer: "/41/inner", ID: "beside", Text: "milk"},
			{Pointer: "/5", ID: "named", Text: "tool-theirs sk-secret"},
		}
		op := memproxy.Operation{Kind: kind, Scope: memproxy.Scope{User: "ann"}}
		op.Claims = []memproxy.Claim{{Dim: memproxy.DimUser, Op: memproxy.ClaimIs, Values: []string{"ann"}, Pins: true}}
		a := r.admit(op)
		must.That(t, a.Reply == nil, "%s: %+v", kind, a.Decision)
		got := r.gate.Return(context.Background(), a, memproxy.Reply{Status: 200, Body: []byte("everything")})
		expect.Text(t, string(got.Body), kind, got.Status, got.Body).Lacks("canary", "theirs", "secret").Has("tea", "milk")
		var want []string
		for _, f := range gate.Filters() {
			want = append(want, f.Name)
		}
		expect.List(t, passed, want, kind, "went through")
		piece := r.gate.FilterRunAnswer(context.Background(), a, memproxy.Reply{Status: 200, Body: []byte("everything")})
		expect.Text(t, string(piece.Body), kind, "in a piece", piece.Status, piece.Body).Lacks("canary", "theirs", "secret")
		event := r.gate.Event(context.Background(), a, []byte("id: 1\ndata: {\"a\":\"tool-theirs\",\"b\":\"tool-ours\",\"key\":\"sk-secret\"}\n\n"))
		expect.Equal(t, string(event), "id: 1\ndata: {\"a\":\"\",\"b\":\"tool-ours\",\"key\":\"\"}\n\n", kind, "the event becomes")
	}
}

// Proves EDGE-13, CARD-1: relations do not say from which memories they are
// drawn: they are shown to whoever names owners that are known to be its
// tenant's, or serves one tenant alone, and not where one of them looks like an
// attack or a memory of the answer is withheld.
func TestRelationsAreShownOfAnOwner(t *testing.T) {
	for name, tc := range map[string]struct {
		one      bool
		pins     string // whom the operation names
		limit    memproxy.Dimension
		relation string
		want     string
	}{
		"of an owner":            {false, "ann", "", "ann likes tea", "ann likes tea"},
		"of nobody":              {false, "", "", "ann likes tea", ""},
		"of a name nobody used":  {false, "new", "", "ann likes tea", ""},
		"of the only tenant":     {true, "", "", "ann likes tea", "ann likes tea"},
		"of the caller's user":   {true, "ann", memproxy.DimUser, "ann likes tea", "ann likes tea"},
		"of all users":           {true, "", memproxy.DimUser, "ann likes tea", ""},
		"of all agents":          {true, "ann", memproxy.DimAgent, "ann likes tea", ""},
		"an attack":              {false, "ann", "", "evil evil", ""},
		"an attack, one tenant":  {true, "ann", "", "evil evil", ""},
		"an attack among others": {true, "ann", "", "ann likes tea|evil evil", ""},
		"next to a withheld one": {true, "ann", "", "ann likes tea", ""},
	} {
		for _, kind := range []memproxy.Kind{memproxy.Recall, memproxy.Learn} {
			r := newRig(t, func(r *rig) {
				if name == "next to a withheld one" {
					r.fake.memories = []memproxy.Memory{{Pointer: "/0", ID: "bad", Scope: memproxy.Scope{User: "ann"}}}
				}
				r.rules.OneTenant, r.rules.Withhold, r.rules.Screener = tc.one, 500, screener{}
				r.adapter, r.fake.relations = teller{noRuns{}, r.adapter.(*fakeReader)}, strings.Split(tc.relation, "|")
				r.ledger.rows = map[string]memproxy.Ownership{"user:ann": {Kind: memproxy.TargetEntity, ID: "user:ann", Scope: memproxy.Scope{Tenant: "acme"}}}
				r.ledger.rows["bad"], r.ledger.statuses = owned("bad", "acme", "dev"), map[string]memproxy.Status{"bad": {State: memproxy.StateQuarantined}}
				limit := func(d memproxy.Dimension) memproxy.Limit {
					return memproxy.Limit{All: d != tc.limit, Values: []string{"ann"}}
				}
				r.who.ActsAs, r.who.Users, r.who.Apps, r.who.Runs = limit(memproxy.DimAgent), limit(memproxy.DimUser), limit(memproxy.DimApp), limit(memproxy.DimRun)
			})
			op := memproxy.Operation{Kind: kind, Scope: memproxy.Scope{User: tc.pins}}
			if tc.pins != "" {
				op.Claims = []memproxy.Claim{{Dim: memproxy.DimUser, Op: memproxy.ClaimIs, Values: []string{tc.pins}, Pins: true}}
			}
			a := r.admit(op)
			expect.Equal(t, string(r.gate.Return(context.Background(), a, memproxy.Reply{Status: 200, Body: []byte("x")}).Body), tc.want, name, kind)
		}
	}
}

// Proves EDGE-13: headers that nobody claims are counted and named once, without
// their values, and pass where they are set to, or nothing is enforced.
func TestHeadersOfAnswersAreRuledOn(t *testing.T) {
	for _, tc := range []struct {
		setting gate.Unclaimed
		enforce bool
		pass    bool
	}{{"", true, false}, {gate.UnclaimedDrop, true, false}, {gate.UnclaimedPass, true, true}, {gate.UnclaimedDrop, false, true}} {
		var log strings.Builder
		r := newRig(t, func(r *rig) {
			r.rules.Headers, r.rules.Enforce, r.log = tc.setting, tc.enforce, slog.New(slog.NewTextHandler(&log, nil))
		})
		a := r.admit(memproxy.Operation{Kind: memproxy.Recall})
		for range 2 {
			expect.That(t, r.gate.Headers(context.Background(), a, "fake", []string{"X-New"}) == tc.pass && r.gate.Headers(context.Background(), nil, "fake", nil) == tc.pass, "%+v", tc)
		}
		r.gate.Headers(context.Background(), a, "fake", []string{"X-New", "X-Newer", strings.Repeat("x", 65)})
		expect.Text(t, log.String(), tc).Times(2, "names=").Times(1, "names=[X-New]").Times(1, "names=[X-Newer]")
	}
}

// salvaged is a pruner one of whose elements cannot be read.
type salvaged struct{ teller }

func (salvaged) Prune(memproxy.Route, memproxy.Reply) (memproxy.Pruned, error) {
	return memproxy.Pruned{Body: []byte("pruned"), Readable: []byte("readable"), Unreadable: 1}, nil
}

func (s salvaged) Rewrite(rt memproxy.Route, req memproxy.Request, r memproxy.Reply, rd *memproxy.Reading) ([]byte, error) {
	out, err := s.teller.Rewrite(rt, req, r, rd)
	return append(append(r.Body, ' '), out...), err
}

// Proves EDGE-13, SYN-10: an element that cannot be read, or not whose it is, is
// left out of its list and told, whatever is set for unclaimed members; an
// answer that is such an element alone is withheld.
func TestUnreadableElements(t *testing.T) {
	for setting, want := range map[gate.Unclaimed]string{gate.UnclaimedDrop: "pruned tea", gate.UnclaimedPass: "readable tea"} {
		for _, kind := range []memproxy.Kind{memproxy.Recall, memproxy.Learn} {
			r := newRig(t, func(r *rig) {
				r.rules.Unclaimed = setting
				r.who.ActsAs = all()
				r.adapter = salvaged{teller{fakeReader: r.adapter.(*fakeReader)}}
			})
			r.fake.memories = []memproxy.Memory{{Pointer: "/0", ID: "m1", Text: "tea"}, {Pointer: "/1", ID: "m2", Text: "canary", Unreadable: true}}
			a := r.admit(memproxy.Operation{Kind: kind, Scope: memproxy.Scope{User: "ann"}})
			expect.Equal(t, string(r.gate.Return(context.Background(), a, memproxy.Reply{Status: 200, Body: []byte("x")}).Body), want, setting, kind)
			out := r.recorder.last()
			if out.Filtered != 2 || !slices.ContainsFunc(out.Reasons, func(why memproxy.Reason) bool {
				return why.Code == memproxy.AnswerUnreadable && strings.HasPrefix(why.Detail, "2 ")
			}) {
				t.Errorf("%s, %s: %d filtered, %v", setting, kind, out.Filtered, out.Reasons)
			}
			r.fake.memories = []memproxy.Memory{{ID: "m2", Text: "canary", Unreadable: true}}
			a = r.admit(memproxy.Operation{Kind: kind, Scope: memproxy.Scope{User: "ann"}})
			got := r.gate.Return(context.Background(), a, memproxy.Reply{Status: 200, Body: []byte("x")})
			expect.That(t, got.Status == 502 && !strings.Contains(string(got.Body), "canary"), "%s, %s: %d %q", setting, kind, got.Status, got.Body)
		}
	}
}

// Proves EDGE-13: the adapter is told whether what the backend counted of an owner may be
// more than the caller may see, on a backend of one tenant too.
func TestCountsAreOfMoreThanALimitedCallerSees(t *testing.T) {
	everybody := memproxy.Limit{All: true}
	for _, tc := range []struct {
		limited bool
		claims  []memproxy.Claim
		want    bool
	}{{false, nil, false}, {true, nil, true}, {true, []memproxy.Claim{pinned(memproxy.DimUser, "ann")}, false}} {
		for _, alone := range []bool{false, true} {
			r := newRig(t, func(r *rig) {
				r.rules.OneTenant = alone
				r.who.ActsAs, r.who.Users, r.who.Apps, r.who.Runs = everybody, memproxy.Limit{All: !tc.limited, Values: []string{"ann"}}, everybody, everybody
			})
			r.fake.memories = []memproxy.Memory{{Pointer: "/0", ID: "m1", Scope: memproxy.Scope{User: "ann"}}}
			r.gate.Return(context.Background(), r.admit(memproxy.Operation{Kind: memproxy.Recall, Claims: tc.claims}), memproxy.Reply{Status: 200, Body: []byte("x")})
			expect.Equal(t, r.fake.rd.Limited, tc.want, tc, "alone", alone)
		}
	}
}

// shown says in a word what a reader is shown of a memory.
func shown(m memproxy.Memory) string {
	switch {
	case m.Drop:
		return "left out"
	case m.Show != nil && *m.Show == "":
		return "without its text"
	case m.Show != nil:
		return "in part"
	case m.OmitBefore:
		return "without what it was"
	}
	return "shown"
}

// Proves MFW-8, EDGE-3: what a reader is told about a memory is the ledger's, else a
// verified stamp's, else that nothing is known; what another tenant owns is
// left out, also of an answer about something of one's own. What was changed or copied in
// the backend has no known confidence and attestation, and a copied stamp says nothing.
// Messages, receipts and what is missing have no provenance.
func TestProvenance(t *testing.T) {
	r, _ := anyAgent(t, nil)
	mine := owned("mine", "acme", "dev")
	mine.Actor, mine.Confidence, mine.Decision = "agent:writer", 600, "d-mine"
	r.ledger.rows["mine"] = mine
	r.ledger.rows["theirs"] = owned("theirs", "globex", "dev")
	changed := mine
	changed.ID = "changed"
	r.ledger.rows["changed"] = changed
	r.ledger.statuses["changed"] = memproxy.Status{Tenant: "acme", Unverified: memproxy.IntegrityMismatch, Attestation: memproxy.HumanConfirmed}
	r.ledger.statuses["copied"] = memproxy.Status{State: memproxy.StateUntrusted, Tenant: "acme", Unverified: memproxy.IntegrityForged}
	stamp := func(signature string) *memproxy.Stamp {
		return &memproxy.Stamp{ID: "d-mine", Actor: "agent:stamped", Confidence: 800, Attestation: memproxy.ToolObserved, Signature: signature}
	}
	r.fake.memories = []memproxy.Memory{
		{Pointer: "/0", ID: "mine", Stamp: stamp("signed for acme")},
		{Pointer: "/1", ID: "stamped", Stamp: stamp("signed for acme")},
		{Pointer: "/2", ID: "forged", Stamp: stamp("no")},
		{Pointer: "/3", ID: "unknown"},
		{Pointer: "/4", ID: "theirs", Stamp: stamp("signed for globex")},
		{Pointer: "/5", ID: "said", Layer: memproxy.Episodic},
		{Pointer: "/6", ID: "receipt", Kind: memproxy.TargetEvent},
		{Pointer: "/7"},
		{Pointer: "/8", ID: "changed", Stamp: stamp("signed for acme")},
		{Pointer: "/9", ID: "copied", Stamp: stamp("signed for acme")},
	}
	r.fake.op = byID(memproxy.Recall, "mine") // it is settled: what nobody else owns of the answer is the target's
	for _, ask := range []bool{false, true} {
		c := r.call(r.fake.op)
		c.ReadOptions.Provenance = ask
		delete(r.ledger.rows, "copied") // this ledger does not know which memory a stamp belongs to
		r.gate.Return(context.Background(), r.gate.Admit(context.Background(), c), memproxy.Reply{Status: 200, Body: []byte("[]")})
		for i, want := range []string{"agent:writer 600 d-mine tool-observed", "agent:stamped 800 d-mine tool-observed", " 0  unknown integrity.forged", " 0  unknown", "-", "-", "-", "-", "agent:writer 0 d-mine unknown integrity.mismatch", " 0  unknown integrity.forged"} {
			got, p := "-", r.fake.rd.Memories[i].ShowProvenance
			if p != nil {
				got = join(p)
			}
			if !ask {
				want = "-"
			}
			expect.Equal(t, got, want, "asked", ask, r.fake.rd.Memories[i].ID)
		}
	}
}

func join(p *memproxy.Provenance) string {
	out := fmt.Sprintf("%s %d %s %s", p.Actor, p.Confidence, p.Decision, p.Attestation)
	if p.Unverified != "" {
		out += " " + string(p.Unverified)
	}
	return out
}
