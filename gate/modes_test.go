package gate_test

import (
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
