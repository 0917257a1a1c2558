package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
)

// Evaluator is one version of the policies.
type Evaluator interface {
	Rule(context.Context, memproxy.Question) (memproxy.Ruling, error)
	// IDs returns the ids of its policies.
	IDs() []string
}

// Options are the versions to compare, and the settings to compare them with.
type Options struct {
	From, To Evaluator
	// Ceilings are the ceilings by tier, for the trust that policies see.
	Ceilings memproxy.Ceilings
	Profile  string
}

// Change is a group of decisions with the same difference.
type Change struct {
	From      memproxy.Verdict `json:"from"`
	To        memproxy.Verdict `json:"to"`
	Principal string           `json:"principal"`
	Kind      memproxy.Kind    `json:"kind"`
	Backend   string           `json:"backend"`
	Route     string           `json:"route"`
	Fields    []string         `json:"fields"`
	// Rules are the ids of the policies that refused and no longer do, or that newly
	// refuse.
	Rules []string `json:"rules"`
	Count int      `json:"count"`
	// Example is the id of the first such decision.
	Example string `json:"example"`
}

// NewlyAllows reports whether something that was refused is now allowed.
func (c Change) NewlyAllows() bool { return c.From.Stops() && !c.To.Stops() }

// NewlyRefuses reports whether something that was allowed is now refused.
func (c Change) NewlyRefuses() bool { return !c.From.Stops() && c.To.Stops() }

// String returns a sentence that describes the change.
func (c Change) String() string {
	what := fmt.Sprintf("%s: %s by %s at %s", c.Route, c.Kind, cmp.Or(c.Principal, "an anonymous caller"), c.Backend)
	if len(c.Fields) > 0 {
		what += " to " + strings.Join(c.Fields, ", ")
	}
	return fmt.Sprintf("%s: %s, was %s (%s); %d decision(s), first %s", what, c.To, c.From, strings.Join(c.Rules, ", "), c.Count, c.Example)
}

// Report is the outcome of a replay.
type Report struct {
	Decisions int `json:"decisions"` // number of decisions that were read
	Policies  int `json:"policies"`  // decided by policies, and reproduced
	Others    int `json:"others"`    // decided by a reviewer, or refused by something other than policies
	// Unexplained is the number of decisions that the older rules do not reproduce: other
	// rules or settings were in force, or a fact was not recorded.
	Unexplained int      `json:"unexplained"`
	Changes     []Change `json:"changes"` // changes that newly allow come first
}

type outcome struct {
	others, unexplained bool
	from, to            memproxy.Verdict
	rules               []string
	changed             bool
}

// Run replays the cases.
func Run(ctx context.Context, opt Options, cases []Case) (Report, error) {
	if opt.From == nil || opt.To == nil {
		return Report{}, errors.New("replay: two versions are required")
	}
	rep := Report{Decisions: len(cases)}
	ours, changes := opt.From.IDs(), map[string]*Change{}
	for i := range cases {
		c := &cases[i]
		out, err := opt.one(ctx, ours, c)
		if err != nil {
			return Report{}, err
		}
		switch {
		case out.others:
			rep.Others++
		case out.unexplained:
			rep.Unexplained++
		default:
			rep.Policies++
		}
		if !out.changed {
			continue
		}
		op := &c.Operation
		ch := Change{
			From: out.from, To: out.to, Rules: out.rules, Principal: c.Principal.ID,
			Kind: op.Kind, Backend: op.Backend, Route: op.Route, Fields: op.Fields,
		}
		group := fmt.Sprintf("%+v", ch)
		if changes[group] == nil {
			ch.Example = c.ID
			changes[group] = &ch
		}
		changes[group].Count++
	}
	for _, c := range changes {
		rep.Changes = append(rep.Changes, *c)
	}
	slices.SortFunc(rep.Changes, func(a, b Change) int {
		if a.NewlyAllows() != b.NewlyAllows() {
			if a.NewlyAllows() {
				return -1
			}
			return 1
		}
		return strings.Compare(a.String(), b.String())
	})
	return rep, nil
}

func (opt Options) one(ctx context.Context, ours []string, c *Case) (outcome, error) {
	ruled := slices.ContainsFunc(c.Reasons, func(r memproxy.Reason) bool {
		return r.Code == memproxy.PolicyNoPermit || r.Code == memproxy.PolicyError || slices.Contains(ours, r.Rule)
	})
	approved := slices.ContainsFunc(c.Reasons, func(r memproxy.Reason) bool {
		return r.Code == memproxy.ReviewApproved
	})
	if approved || c.Verdict.Stops() && !ruled {
		return outcome{others: true}, nil
	}
	if c.Facts == nil {
		return outcome{unexplained: true}, nil
	}
	if err := ctx.Err(); err != nil {
		return outcome{}, err
	}
	from, to := opt.ask(ctx, c)
	if !c.explainedBy(from, ours) {
		return outcome{unexplained: true}, nil
	}
	changed := from.Verdict.Stops() != to.Verdict.Stops() || from.Verdict.Stops() && from.Verdict != to.Verdict
	return outcome{from: from.Verdict, to: to.Verdict, changed: changed, rules: rulesOf(from, to)}, nil
}

// explainedBy reports whether a ruling reproduces the recorded verdict and its policy
// reasons.
func (c *Case) explainedBy(r memproxy.Ruling, ours []string) bool {
	if c.Verdict.Stops() != r.Verdict.Stops() || c.Verdict.Stops() && c.Verdict != r.Verdict {
		return false
	}
	if !c.Verdict.Stops() {
		return true
	}
	recorded := names(c.Reasons, func(r memproxy.Reason) string {
		if slices.Contains(ours, r.Rule) {
			return r.Rule
		}
		return ""
	})
	return slices.Equal(recorded, names(r.Reasons, func(r memproxy.Reason) string { return r.Rule }))
}

// names returns the names of reasons that have one, sorted.
func names(of []memproxy.Reason, name func(memproxy.Reason) string) []string {
	var out []string
	for _, r := range of {
		if n := name(r); n != "" {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// rulesOf returns the ids of the policies that make the difference: those that refused,
// or, if none did, those that newly refuse.
func rulesOf(from, to memproxy.Ruling) []string {
	r := from
	if !from.Verdict.Stops() {
		r = to
	}
	return names(r.Reasons, func(r memproxy.Reason) string { return cmp.Or(r.Rule, string(r.Code)) })
}

// ask evaluates a case under both versions. An error denies, as in the gate.
func (opt Options) ask(ctx context.Context, c *Case) (from, to memproxy.Ruling) {
	q := opt.question(c)
	rule := func(r Evaluator) memproxy.Ruling {
		out, err := r.Rule(ctx, q)
		if err != nil {
			return memproxy.Ruling{Verdict: memproxy.Deny, Reasons: []memproxy.Reason{{Code: memproxy.PolicyError}}}
		}
		return out
	}
	return rule(opt.From), rule(opt.To)
}

// maxItems and maxWrites bound what is evaluated of a case.
const (
	maxItems  = 10000
	maxWrites = 64
)

func (opt Options) question(c *Case) memproxy.Question {
	f := *c.Facts
	f.Writes, f.Claims = f.Writes[:min(len(f.Writes), maxWrites)], f.Claims[:min(len(f.Claims), maxWrites)]
	q := memproxy.Question{
		Principal: c.Principal, Profile: opt.Profile, Findings: c.Findings, Recorded: &f,
		Operation: &memproxy.Operation{
			Kind: c.Operation.Kind, Backend: c.Operation.Backend, Route: c.Operation.Route, Scope: c.Operation.Scope,
			Items: make([]memproxy.Item, min(max(c.Operation.Items, 0), maxItems)),
		},
		Ceiling:    cmp.Or(f.Ceiling, opt.Ceilings.Ceiling(c.Principal.Trust, memproxy.SourceUnstated)),
		Confidence: max(c.Confidence.Given, 0),
	}
	q.Principal.Roles = f.Roles
	if q.Claimed = c.Confidence.Claimed; q.Claimed < 0 {
		q.Claimed = q.Confidence
	}
	return q
}
