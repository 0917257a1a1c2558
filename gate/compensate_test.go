package gate_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// Proves EDGE-1: a run that cannot be gated is refused, compensated or let through
// by what its backend is set to, by whether anybody can say what it changes,
// and by the profile; nothing but shadow mode lets it through unnoted.
func TestUngatedRuns(t *testing.T) {
	for name, tc := range map[string]struct {
		profile              gate.Profile
		mode                 gate.Ungated
		blind, shadow        bool // the adapter cannot look; rules are not enforced
		refused, compensated bool
	}{
		"production":                            {profile: gate.Production, refused: true},
		"production, deny":                      {profile: gate.Production, mode: gate.UngatedDeny, refused: true},
		"production, compensate":                {profile: gate.Production, mode: gate.UngatedCompensate, compensated: true},
		"production, compensate, nobody looks":  {profile: gate.Production, mode: gate.UngatedCompensate, blind: true, refused: true},
		"development":                           {profile: gate.Development},
		"development, deny":                     {profile: gate.Development, mode: gate.UngatedDeny, refused: true},
		"development, compensate":               {profile: gate.Development, mode: gate.UngatedCompensate, compensated: true},
		"development, compensate, nobody looks": {profile: gate.Development, mode: gate.UngatedCompensate, blind: true},
		"shadow, deny":                          {profile: gate.Production, mode: gate.UngatedDeny, shadow: true},
		"shadow, compensate":                    {profile: gate.Production, mode: gate.UngatedCompensate, shadow: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(r *rig) {
				r.rules.Profile, r.rules.Enforce = tc.profile, !tc.shadow
				if !tc.blind {
					r.adapter = driver{streamer: streamer{fakeReader: r.adapter.(*fakeReader)}, err: memproxy.ErrUngated}
				}
			})
			op := memproxy.Operation{Kind: memproxy.Run}
			r.fake.op = op
			call := r.call(op)
			call.Backend.Ungated = tc.mode
			a := r.gate.Admit(context.Background(), call)
			answered, refused := a.Next.(gate.Reply)
			reply := answered.Reply
			if tc.blind || tc.shadow { // as its listener does
				reply, refused = r.gate.Agents().RuleUngated(context.Background(), a, true)
			}
			if refused != tc.refused || a.IsCompensated() != tc.compensated || refused && reply.Status != 403 {
				t.Errorf("refused %v %d, compensated %v", refused, reply.Status, a.IsCompensated())
			}
			last := r.recorder.last()
			expect.That(t, tc.compensated || last.Type == memproxy.EventOutcome && len(last.Reasons) > 0 && last.Reasons[0].Code == memproxy.RunUngated, "recorded %+v", last)
			if !tc.compensated {
				return
			}
			// Looking fails: it is the profile's to say.
			reply, refused = r.gate.Agents().RuleUngated(context.Background(), a, false)
			if refused != (tc.profile == gate.Production) || a.IsCompensated() || refused && reply.Status != 403 {
				t.Errorf("blind: refused %v %d, compensated %v", refused, reply.Status, a.IsCompensated())
			}
		})
	}
}

// seer is a driver that can say what every run changed.
type seer struct{ driver }

func (seer) DiffRun(memproxy.Route, memproxy.Request, []byte) (memproxy.RunDiff, error) {
	return nil, nil
}

// The refusal of a run names the setting that allows it, if one does, and its record
// is a refusal's.
func TestARefusedRunSaysWhatAllowsIt(t *testing.T) {
	for _, covered := range []bool{true, false} {
		r := newRig(t, func(r *rig) {
			r.rules.Profile = gate.Production
			d := driver{streamer: streamer{fakeReader: r.adapter.(*fakeReader)}, err: memproxy.ErrUngated}
			if r.adapter = d; covered {
				r.adapter = seer{d}
			}
		})
		r.fake.op = memproxy.Operation{Kind: memproxy.Run}
		d := r.gate.Admit(context.Background(), r.call(r.fake.op)).Shown()
		wantCodes(t, *d, memproxy.Deny, memproxy.RunUngated)
		expect.That(t, strings.Contains(d.Reasons[0].Detail, "compensate") == covered, "%v: %s", covered, d.Reasons[0].Detail)
		last := r.recorder.last()
		expect.That(t, last.Verdict == memproxy.Deny && last.Type == memproxy.EventOutcome, "%v: recorded as %s with the verdict %s", covered, last.Type, last.Verdict)
	}
}

// A run does not wait for review, whether the policy holds it as a run or because it
// administers as well.
func TestHeldRunsAreRefused(t *testing.T) {
	for _, held := range []memproxy.Kind{memproxy.Run, memproxy.Admin} {
		r := newRig(t, func(r *rig) {
			r.adapter = driver{streamer: streamer{fakeReader: r.adapter.(*fakeReader)}, err: memproxy.ErrUngated}
			r.rules.Policy = holdsOnly(held)
		})
		r.fake.op = memproxy.Operation{Kind: memproxy.Run, Administers: true}
		d := r.gate.Admit(t.Context(), r.call(r.fake.op)).Decision
		wantCodes(t, d, memproxy.Deny, memproxy.RunUngated, memproxy.PolicyForbid)
	}
}

func changed(text string) memproxy.Change {
	return memproxy.Change{
		Key: "block 1", After: text, Before: "was",
		Call: memproxy.ToolCall{ID: "c", Tool: "block", Arguments: []byte(text), Operation: &memproxy.Operation{
			Kind: memproxy.Correct, Cost: 1, Targets: []string{"block-1"}, Items: []memproxy.Item{{Kind: memproxy.ItemContent, Text: text, Field: "human"}},
		}},
	}
}

// Proves EDGE-1: what an earlier process let through is ruled on in the name of
// who started it, under its decision, and charged to nobody else.
func TestAssumedRunsAreAskedAsTheirPrincipals(t *testing.T) {
	r := newRig(t, func(r *rig) {
		r.identify = func(context.Context, memproxy.Credentials) (memproxy.Principal, error) {
			return memproxy.Principal{}, errBroken // nobody is there to be identified
		}
	})
	who := memproxy.Principal{ID: "agent:then", Tenant: "acme", Trust: memproxy.TrustAuthenticated, ActsAs: all(), Users: all(), Apps: all(), Runs: all()}
	a := r.gate.Agents().AdmissionFor(r.call(memproxy.Operation{Kind: memproxy.Run}), who, "d-then")
	must.Len(t, r.recorder.events, 0)
	must.Equal(t, a.Decision.ID, "d-then")
	asked := r.gate.Agents().RuleOnCall(context.Background(), a, changed("tea").Call)
	wantCodes(t, asked.Decision, memproxy.Allow)
	ev := r.recorder.events[0]
	if ev.Principal.ID != "agent:then" || ev.Route != "fake.route/block" || ev.Kind != memproxy.Correct || r.budget.used != 1 || len(ev.Budget) == 0 || ev.Budget[0].Key != "principal/agent:then" {
		t.Errorf("%+v, %d charged", ev, r.budget.used)
	}
}

// What is declined is recorded as denied, costs nothing, and asks no policy.
func TestDeclinedCalls(t *testing.T) {
	r := newRig(t, func(r *rig) {
		r.rules.Policy = policy(func(memproxy.Question) (memproxy.Ruling, error) {
			t.Error("the policy is asked")
			return memproxy.Ruling{}, nil
		})
	})
	a := r.gate.Agents().AdmissionFor(r.call(memproxy.Operation{Kind: memproxy.Run}), memproxy.Principal{ID: "system:reconciler"}, "")
	for _, call := range []memproxy.ToolCall{changed("tea").Call, {ID: "c", Tool: "x", Arguments: []byte("{"), Flaw: &memproxy.Flaw{Detail: "no"}}} {
		d := r.gate.Agents().Decline(context.Background(), a, call, "nobody ruled on it").Decision
		wantCodes(t, d, memproxy.Deny, memproxy.RunUngated)
		expect.Equal(t, d.Reasons[0].Detail, "nobody ruled on it", d.Reasons)
	}
	expect.Equal(t, r.budget.used, 0)
	expect.Len(t, r.recorder.events, 2)
}

// An undoing is recorded with both hashes and no text, and so is one that
// failed.
func TestUndoingsAreRecorded(t *testing.T) {
	r := newRig(t, nil)
	a := r.gate.Agents().AdmissionFor(r.call(memproxy.Operation{Kind: memproxy.Run}), r.who, "")
	asked := r.gate.Agents().RuleOnCall(context.Background(), a, changed("tea").Call)
	for _, err := range []error{nil, errors.New("tea is what the server says")} {
		r.gate.Agents().RecordUndo(context.Background(), asked, changed("aa11"), err)
		ev := r.recorder.last()
		detail := ev.Reasons[0].Detail
		if ev.Type != memproxy.EventOutcome || !strings.Contains(detail, "aa11") || !strings.Contains(detail, "was") || strings.Contains(detail, "tea") ||
			strings.Contains(detail, "could not") != (err != nil) || (ev.Status == 200) != (err == nil) || ev.Memories[0] != "block-1" || ev.Decision != asked.Decision.ID {
			t.Errorf("%v: %+v", err, ev)
		}
	}
}

// Proves EDGE-1, TRL-1: a write of somebody's through memproxy, in the middle of a run,
// is known by its stamp, and what is new in an archive by the ledger, whoever's it is: it
// is neither ruled on again nor deleted. A stamp of another text, tenant or hand is none.
func TestVouchedChanges(t *testing.T) {
	r := newRig(t, nil)
	a := r.gate.Agents().AdmissionFor(r.call(memproxy.Operation{Kind: memproxy.Run}), r.who, "")
	stamp := func(sha, signature string) *memproxy.Stamp {
		return &memproxy.Stamp{ID: "d", SHA256: sha, Signature: signature}
	}
	for id, deleted := range map[string]bool{"passage-1": false, "passage-2": true} {
		r.ledger.rows[id] = memproxy.Ownership{Backend: "mem", Kind: memproxy.TargetMemory, ID: id, SHA256: "aa11", Decision: "d-1", Deleted: deleted, Scope: memproxy.Scope{Tenant: "other"}}
	}
	passage := func(id, event string) []memproxy.Memory { return []memproxy.Memory{{ID: id, Event: event}} }
	for name, tc := range map[string]struct {
		after    string
		stamp    *memproxy.Stamp
		memories []memproxy.Memory
		want     bool
	}{
		"ours":                           {"aa11", stamp("aa11", "signed for acme"), nil, true},
		"none":                           {"aa11", nil, nil, false},
		"of another text":                {"aa11", stamp("bb22", "signed for acme"), nil, false},
		"of another tenant":              {"aa11", stamp("aa11", "signed for other"), nil, false},
		"forged":                         {"aa11", stamp("aa11", ""), nil, false},
		"of nothing at all":              {"", stamp("", "signed for acme"), nil, false},
		"a passage":                      {"aa11", nil, passage("passage-1", "ADD"), true},
		"a passage with another text":    {"bb22", nil, passage("passage-1", "ADD"), false},
		"a passage, attached as a block": {"aa11", nil, passage("passage-1", ""), false},
		"a passage that was deleted":     {"aa11", nil, passage("passage-2", "ADD"), false},
		"a passage that nobody knows":    {"aa11", nil, passage("passage-3", "ADD"), false},
	} {
		c := changed(tc.after)
		c.Stamp, c.Memories = tc.stamp, tc.memories
		expect.Equal(t, r.gate.Agents().AlreadyRuledOn(context.Background(), a, c), tc.want, name)
	}
}
