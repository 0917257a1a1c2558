package gate

import (
	"context"
	"slices"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate/content"
	"github.com/memproxy/memproxy/telemetry/signal"
)

// StepAnswer is what one step said about a call.
type StepAnswer struct {
	Step    string            `json:"step"`
	Verdict memproxy.Verdict  `json:"verdict"`
	Reasons []memproxy.Reason `json:"reasons,omitempty"`
	Error   string            `json:"error,omitempty"`
	// Findings are what the step found and where, the worst first.
	Findings []FoundAt `json:"findings,omitempty"`
}

// FoundAt is a finding with the place of its item in the payload.
type FoundAt struct {
	memproxy.Finding
	Pointer string `json:"pointer"`
}

// foundAt are the findings of a call.
func foundAt(r *run) []FoundAt {
	out := make([]FoundAt, 0, len(r.findings))
	items := content.Screened(r.op, brings(r.call, r.op))
	for _, f := range slices.Concat(worst(r.findings, len(r.findings)), r.configured) {
		at := FoundAt{Finding: f}
		if f.Item >= 0 && f.Item < len(items) {
			at.Pointer = items[f.Item].Pointer
		}
		out = append(out, at)
	}
	return out
}

// Explanation is what the gate would do with a call, step by step. Nothing was
// charged, recorded or sent.
type Explanation struct {
	Decision  memproxy.Decision
	Principal memproxy.Principal
	Operation *memproxy.Operation
	Question  memproxy.Question
	Lines     []memproxy.Line
	// Track is the caller's record, as far as it was asked for: TrackKnown.
	// Question.Track is its factor.
	Track      memproxy.Track
	TrackKnown bool
	Steps      []StepAnswer
	Enforced   bool
	// Locks are the ids of the records of rejections that could lock the write,
	// and Lock is the one that does, if any.
	Locks []string
	Lock  memproxy.Lock
	// Filters are what an answer would go through, in order; none where the
	// answer is passed on unread.
	Filters []Filter
}

// Explain runs the steps without effect. Unlike Admit it goes on after a
// refusal, so that every step's answer can be read.
func (g *Gate) Explain(ctx context.Context, c *Call) Explanation {
	r := g.begin(explain, c)
	ex := Explanation{Enforced: r.enforced()}
	reasons, notes, worst := 0, 0, memproxy.Allow
	r.after = func(s *step, err error) {
		answer := StepAnswer{Step: s.name, Verdict: r.verdict.worst}
		if err != nil {
			answer.Error = err.Error()
		}
		if s.name == signal.SpanScreen && len(r.findings)+len(r.configured) > 0 {
			answer.Findings = foundAt(r)
		}
		answer.Reasons = append(append(answer.Reasons, r.verdict.reasons[reasons:]...), r.verdict.notes[notes:]...)
		ex.Steps = append(ex.Steps, answer)
		reasons, notes, worst = len(r.verdict.reasons), len(r.verdict.notes), max(worst, r.verdict.worst)
		r.verdict.worst = memproxy.Allow
	}
	r.walk(ctx)
	r.verdict.worst = worst
	r.settle()
	ex.Track, ex.TrackKnown = r.track, r.trackKnown
	ex.Decision, ex.Principal, ex.Operation, ex.Question = r.Decision, r.Principal, r.op, r.q
	ex.Filters = answerFilters(r)
	if !unlocked(r) {
		ex.Locks = recordsOf(&r.Principal, sessionOf(r), r.endUser())
		if lock, err := g.opt.Ledger.SessionLocked(ctx, r.Principal.Tenant, ex.Locks...); err == nil {
			ex.Lock = lock
		}
	}
	if r.bill != nil {
		ex.Lines = r.bill.charge.Lines
	}
	return ex
}

// answerFilters are the filters that an answer to the call goes through.
func answerFilters(r *run) []Filter {
	if r.op == nil || !r.inspects() {
		return nil
	}
	return Filters()
}
