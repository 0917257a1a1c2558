// Each step is replaced by one that fails, which only a test in the package can do, so
// these tests are in the slow ring, where the package is compiled a second time for it.

//go:build slow

package gate_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

var update = flag.Bool("update", false, "write the table of steps into docs/design.md")

// The table of steps and modes in docs/design.md is the list that runs.
//
// Proves EDGE-1, CARD-10
func TestStepsAreInTheDesign(t *testing.T) {
	var b strings.Builder
	b.WriteString("| step | " + strings.Join(gate.ModeNames[:], " | ") + " | if it fails |\n|---|" + strings.Repeat(":-:|", len(gate.ModeNames)) + "---|\n")
	for _, r := range gate.Rows() {
		runs := 0
		name := r.Name
		if r.Final {
			name = "*" + name + "*"
		}
		fmt.Fprintf(&b, "| %s |", name)
		for _, in := range r.Modes {
			if in {
				runs++
				b.WriteString(" • |")
			} else {
				b.WriteString("   |")
			}
		}
		fmt.Fprintf(&b, " `%s` |\n", r.Broken)
		expect.That(t, runs != 0, "%s runs in no mode", r.Name)
	}
	const file, begin, end = "../docs/design.md", "<!-- steps: make docs -->\n\n", "\n<!-- /steps -->"
	raw := must.Get(os.ReadFile(file))(t)
	before, rest, ok := strings.Cut(string(raw), begin)
	was, after, closed := strings.Cut(rest, end)
	must.That(t, ok && closed, "%s has no place for the table", file)
	if was == b.String() {
		return
	}
	must.That(t, *update, "the table of steps in %s is not the list that runs: make docs", file)
	must.Do(t, os.WriteFile(file, []byte(before+begin+b.String()+end+after), 0o644))
}

// Proves EDGE-17: whatever step fails, in whatever mode, nothing is forwarded, no
// budget stays charged, and the reason is the step's own. A person is asked about a
// call that cannot be foreseen, and a held write waits on that cannot be ruled on.
func TestAStepThatFailsRefuses(t *testing.T) {
	ctx := context.Background()
	held := approved("fake.route")
	refused := func(t *testing.T, r *rig, a *gate.Admission, row gate.Row) {
		t.Helper()
		d := a.Decision
		expect.That(t, d.Verdict == memproxy.Deny && d.Status == 503 && len(a.Shown().Reasons) > 0 && a.Shown().Reasons[0].Code == row.Broken,
			"%v %d, %+v", d.Verdict, d.Status, a.Shown().Reasons)
		_, reply := a.Next.(gate.Reply)
		expect.That(t, reply || a.Call().Route.ID != "fake.route", "next is %T", a.Next)
		expect.Equal(t, r.budget.used, 0)
	}
	tool := func() memproxy.ToolCall {
		op := learn("x")
		return memproxy.ToolCall{ID: "c", Tool: "t", Arguments: []byte("x"), Operation: &op}
	}
	modes := map[string]func(*testing.T, *rig, gate.Backend, gate.Row, func()){
		"client": func(t *testing.T, r *rig, _ gate.Backend, row gate.Row, smash func()) {
			smash()
			refused(t, r, r.admit(learn("x")), row)
		},
		"call": func(t *testing.T, r *rig, _ gate.Backend, row gate.Row, smash func()) {
			a := r.admit(memproxy.Operation{Kind: memproxy.Run})
			smash()
			refused(t, r, r.gate.Agents().RuleOnCall(ctx, a, tool()), row)
		},
		"preview": func(t *testing.T, r *rig, _ gate.Backend, _ gate.Row, smash func()) {
			a := r.admit(memproxy.Operation{Kind: memproxy.Run})
			smash()
			f := r.gate.Agents().PreviewCall(ctx, a, tool())
			expect.That(t, f == nil, "foreseen: %+v", f)
		},
		"decline": func(t *testing.T, r *rig, _ gate.Backend, _ gate.Row, smash func()) {
			a := r.admit(memproxy.Operation{Kind: memproxy.Run})
			smash()
			d := r.gate.Agents().Decline(ctx, a, tool(), "because").Decision
			expect.That(t, d.Verdict == memproxy.Deny, "%+v", d)
		},
		"replay": func(t *testing.T, r *rig, b gate.Backend, row gate.Row, smash func()) {
			smash()
			a := must.Get(r.gate.Reviewed().Replay(ctx, b, held, memproxy.HoldContent{Body: []byte("body")}))(t)
			refused(t, r, a, row)
		},
		"restore": func(t *testing.T, r *rig, b gate.Backend, row gate.Row, smash func()) {
			smash()
			a := must.Get(r.gate.Reviewed().AdmitRestore(ctx, b, memproxy.SideRequest{Request: memproxy.Request{Method: "POST", EscapedPath: "/call"}}, "d1", "eve", "acme"))(t)
			refused(t, r, a, row)
		},
		"recheck": func(t *testing.T, r *rig, b gate.Backend, _ gate.Row, smash func()) {
			smash()
			expect.Error(t, expect.Err(r.gate.Reviewed().Reevaluate(ctx, b, held, memproxy.HoldContent{Body: []byte("body")})))
		},
		"explain": func(t *testing.T, r *rig, _ gate.Backend, row gate.Row, smash func()) {
			smash()
			r.fake.op = learn("x")
			ex := r.gate.Explain(ctx, r.call(r.fake.op))
			expect.That(t, ex.Decision.Verdict == memproxy.Deny && has(ex.Decision.Reasons, row.Broken), "%+v", ex.Decision)
		},
	}
	for i, mode := range gate.ModeNames {
		for _, row := range gate.Rows() {
			if !row.Modes[i] {
				continue
			}
			t.Run(mode+"/"+row.Name, func(t *testing.T) {
				r, _, _ := holdRig(t, func(r *rig, _ *fakeHoldReplier, _ *fakeHoldStore) {
					if row.Name != "reserve" && row.Name != "hold" {
						r.rules.Policy = policy(allowAll)
					}
				})
				r.fake.op, r.fake.knows = learn("x"), true
				modes[mode](t, r, r.call(r.fake.op).Backend, row, func() { gate.BreakStep(t, row.Name, errBroken) })
			})
		}
	}
}
