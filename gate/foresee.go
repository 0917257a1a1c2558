package gate

import (
	"context"

	"github.com/memproxy/memproxy"
)

// A Foreseen is a tool call that is refused whatever a person would say to it.
type Foreseen struct {
	Decision memproxy.Decision

	r *run
}

// Foresee rules on a tool call that a person is about to be asked about, so
// that nobody is asked for what would then be refused. It returns nil where the
// person is to be asked: the call may be made, it would wait for review, or it
// cannot be told now. Nothing is charged or recorded: the person's answer is
// ruled on by Ask, and what is foreseen goes on record with Refused.
func (g *Gate) Foresee(ctx context.Context, a *Admission, tc memproxy.ToolCall) *Foreseen {
	r := g.asked(a, tc)
	g.askSteps(ctx, r, a, tc, foreseeing[:])
	r.settle()
	if r.Decision.Verdict != memproxy.Deny || r.Decision.Status == StatusUnavailable {
		return nil
	}
	return &Foreseen{Decision: r.Decision, r: r}
}

// Refused records that a call was refused as foreseen, and counts it like any
// refused call of the run that admission a let through.
func (g *Gate) Refused(ctx context.Context, a *Admission, f *Foreseen) {
	g.record(ctx, f.r)
	g.called(ctx, f.r.Admission)
	g.discipline(ctx, f.r.Admission, a.namedSession(), a.endUser())
}
