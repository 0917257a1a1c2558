package gate_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/internal/expect"
)

// driver is a fake whose backend runs agents.
type driver struct {
	streamer
	turn         memproxy.Turn
	err          error
	rearms, runs string
}

func (d driver) Turn(memproxy.Route, memproxy.Request, []byte) (memproxy.Turn, error) {
	return d.turn, d.err
}
func (d driver) ChangesToolsOf(memproxy.Route) string { return d.rearms }
func (d driver) Probe(memproxy.Route, memproxy.Request) (string, memproxy.Request, bool) {
	return d.runs, memproxy.Request{}, d.runs != ""
}
func (driver) ReadProbe(memproxy.Route, memproxy.Reply) error { return nil }

type turn struct{ memproxy.Turn }

// Proves EDGE-1: what is left to do is data, and no run of an agent is forwarded
// as an ordinary request is.
func TestWhatIsNext(t *testing.T) {
	stream := memproxy.Resumption{Names: []string{"x"}}
	for name, tc := range map[string]struct {
		d      driver
		kind   memproxy.Kind
		change func(*rig)
		want   string
	}{
		"an ordinary request":  {driver{}, memproxy.Learn, nil, "gate.Forward"},
		"an agent runs":        {driver{turn: turn{}}, memproxy.Run, nil, "gate.RunAgent"},
		"no agent runs":        {driver{}, memproxy.Run, nil, "gate.Forward"},
		"it cannot be paused":  {driver{err: memproxy.ErrUngated}, memproxy.Run, nil, "gate.Reply"},
		"nor while developing": {driver{err: memproxy.ErrUngated}, memproxy.Run, func(r *rig) { r.rules.Profile = gate.Development }, "gate.Forward"},
		"the adapter breaks":   {driver{err: errBroken}, memproxy.Run, nil, "gate.Reply"},
		"a tool is run":        {driver{runs: "a"}, memproxy.Learn, nil, "gate.Probe"},
		"tools are changed":    {driver{rearms: "a"}, memproxy.Admin, nil, "gate.ChangeTools"},
		"a stream again":       {driver{streamer: streamer{again: stream}}, memproxy.Recall, nil, "gate.Resume else gate.Forward"},
		"a stream, or a run":   {driver{streamer: streamer{again: stream}, turn: turn{}}, memproxy.Run, nil, "gate.Resume else gate.RunAgent"},
		"shadow mode":          {driver{turn: turn{}, rearms: "a", runs: "a"}, memproxy.Run, func(r *rig) { r.rules.Enforce = false }, "gate.Forward"},
		"refused": {driver{turn: turn{}}, memproxy.Run, func(r *rig) {
			r.rules.Policy = policy(func(memproxy.Question) (memproxy.Ruling, error) { return memproxy.Ruling{Verdict: memproxy.Deny}, nil })
		}, "gate.Reply"},
		"no record can be made":   {driver{turn: turn{}}, memproxy.Run, func(r *rig) { r.recorder.err = errBroken }, "gate.Reply"},
		"the stream of a refusal": {driver{streamer: streamer{again: stream}}, memproxy.Recall, func(r *rig) { r.recorder.err = errBroken }, "gate.Reply"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(r *rig) {
				tc.d.fakeReader = r.adapter.(*fakeReader)
				r.adapter = tc.d
				if tc.change != nil {
					tc.change(r)
				}
			})
			a := r.admit(memproxy.Operation{Kind: tc.kind, Cost: 1})
			got := fmt.Sprintf("%T", a.Next)
			if again, ok := a.Next.(gate.Resume); ok {
				got += fmt.Sprintf(" else %T", again.Else)
			}
			expect.That(t, got == tc.want && (a.Reply != nil) == (got == "gate.Reply"), "%s with %v, want %s", got, a.Reply, tc.want)
			expect.That(t, a.Reply == nil || !strings.Contains(string(a.Reply.Body), "ledger"), "the ledger is blamed, which works: %+v", a.Reply)
		})
	}
}

// Proves TRL-10: a call that is only observed leaves exactly what shadow mode
// leaves (record, charge, ledger), whatever the rules enforce, and the next call
// at the same gate is enforced again.
func TestWatchedIsShadow(t *testing.T) {
	hint := learn("x")
	hint.ConfidenceClaims = []memproxy.ConfidenceClaim{{Pointer: "/confidence", Claimed: 990, Legible: true}}
	recall := memproxy.Operation{Kind: memproxy.Recall}
	for _, tc := range []struct {
		name   string
		change func(*rig)
		op     memproxy.Operation
		would  memproxy.Verdict
	}{
		{"allowed", nil, learn("x"), memproxy.Allow},
		{"amended", nil, hint, memproxy.Amend},
		{"held", func(r *rig) { r.rules.Policy = says(memproxy.Hold, memproxy.PolicyForbid) }, learn("x"), memproxy.Hold},
		{"denied", func(r *rig) { r.rules.Policy = says(memproxy.Deny, memproxy.PolicyForbid) }, learn("x"), memproxy.Deny},
		{"over budget", func(r *rig) { r.budget.limit = 0 }, learn("x"), memproxy.Deny},
		{"unrecorded", func(r *rig) { r.recorder.err = errBroken }, learn("x"), memproxy.Allow},
		{"a read", nil, recall, memproxy.Allow},
	} {
		t.Run(tc.name, func(t *testing.T) {
			through := func(watch bool) (*rig, *gate.Admission) {
				r := newRig(t, func(r *rig) {
					if tc.change != nil {
						tc.change(r)
					}
					r.holds = newHoldStore()
					r.rules.Enforce = watch
				})
				r.fake.op, r.fake.memories = tc.op, []memproxy.Memory{{ID: "m1", Text: "x"}}
				c := r.call(tc.op)
				c.ObserveOnly = watch
				a := r.gate.Admit(context.Background(), c)
				r.gate.Return(context.Background(), a, memproxy.Reply{Status: 200, Body: []byte("m1")})
				return r, a
			}
			shadow, want := through(false)
			watched, got := through(true)
			expect.That(t, got.Decision.ShadowVerdict == tc.would && got.Decision.Verdict == memproxy.Allow && got.Shadow() && got.Reply == nil && !got.Changed && !got.Inspect, "%+v", got)
			expect.Deep(t, got.Decision, want.Decision, "decided")
			expect.Deep(t, watched.recorder.events, shadow.recorder.events, "recorded")
			expect.Equal(t, watched.budget.used, shadow.budget.used, "charged")
			expect.Deep(t, watched.ledger.rows, shadow.ledger.rows, "charged")
			if a := watched.admit(tc.op); a.Shadow() || a.Decision.Verdict < tc.would {
				t.Errorf("the next call: %+v", a.Decision)
			}
		})
	}
}
