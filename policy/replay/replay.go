package replay

import (
	"cmp"
	"context"
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

// Run replays the cases.
func Run(ctx context.Context, opt Options, cases []Case) (Report, error) {
	rep := Report{Decisions: len(cases)}
	ours, changes := opt.From.IDs(), map[string]*Change{}
	for i := range cases {
		if err := ctx.Err(); err != nil {
			return Report{}, err
		}
		c := &cases[i]
		switch {
		case !c.byPolicies(ours):
			rep.Others++
			continue
		case c.Facts == nil:
			rep.Unexplained++
			continue
		}
		q := opt.question(c)
		from := ask(ctx, opt.From, q)
		if !c.explainedBy(from, ours) {
			rep.Unexplained++
			continue
		}
		rep.Policies++
		to := ask(ctx, opt.To, q)
		if sameEffect(from.Verdict, to.Verdict) {
			continue
		}
		op := &c.Operation
		ch := Change{
			From: from.Verdict, To: to.Verdict, Rules: rulesOf(from, to), Principal: c.Principal.ID,
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

// byPolicies reports whether policies made the decision, whose ids are ours.
func (c *Case) byPolicies(ours []string) bool {
	approved, ruled := false, !c.Verdict.Stops()
	for _, r := range c.Reasons {
		approved = approved || r.Code == memproxy.ReviewApproved
		ruled = ruled || r.Code == memproxy.PolicyNoPermit || r.Code == memproxy.PolicyError || slices.Contains(ours, r.Rule)
	}
	return ruled && !approved
}

func sameEffect(a, b memproxy.Verdict) bool { return a == b || !a.Stops() && !b.Stops() }

// explainedBy reports whether a ruling reproduces the recorded verdict and its policy
// reasons.
func (c *Case) explainedBy(r memproxy.Ruling, ours []string) bool {
	if !sameEffect(c.Verdict, r.Verdict) {
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

// ask evaluates a question under a version. An error denies, as in the gate.
func ask(ctx context.Context, version Evaluator, q memproxy.Question) memproxy.Ruling {
	out, err := version.Rule(ctx, q)
	if err != nil {
		return memproxy.Ruling{Verdict: memproxy.Deny, Reasons: []memproxy.Reason{{Code: memproxy.PolicyError}}}
	}
	return out
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
