package cedar

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go"

	"github.com/memproxy/memproxy"
)

// RuleInfo is what a rule of a compiled bundle is.
type RuleInfo struct {
	ID     string
	Effect string // permit, deny, hold or mark
	Shadow bool   // it is reported and does not decide
	File   string
	Line   int
}

// Rules lists the rules that are not disabled, in the order of their ids.
func (p *Policy) Rules() []RuleInfo {
	shadowed := map[string]bool{}
	for _, r := range p.whole.shadowed {
		shadowed[r.id] = true
	}
	var out []RuleInfo
	for key, r := range p.rules {
		if string(key) != r.id {
			continue // disabled
		}
		out = append(out, RuleInfo{r.id, r.effect(), shadowed[r.id], r.file, r.line})
	}
	slices.SortFunc(out, func(a, b RuleInfo) int { return strings.Compare(a.ID, b.ID) })
	return out
}

func (r *rule) effect() string {
	switch {
	case r.policy.Effect() == cedar.Permit:
		return "permit"
	case r.mark:
		return "mark"
	case r.verdict == memproxy.Hold:
		return "hold"
	}
	return "deny"
}

// strictness orders the effects of what stops something.
var strictness = []string{"", "mark", "hold", "deny"}

// Looser names what a newer bundle loosens, a sentence each: prohibitions that
// are gone, that do not decide any more or decide less, permissions that are
// new, and both where they read otherwise, which may be looser.
func Looser(from, to *Policy) []string {
	var out []string
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	newer := map[string]RuleInfo{}
	for _, r := range to.Rules() {
		newer[r.ID] = r
	}
	older := map[string]bool{}
	for _, was := range from.Rules() {
		older[was.ID] = true
		is, there := newer[was.ID]
		switch {
		case was.Effect == "permit" && there && was.Shadow && !is.Shadow:
			say("policy %s permits: it was in shadow", was.ID)
		case was.Effect == "permit" || was.Shadow:
		case !there:
			say("policy %s (%s) is gone", was.ID, was.Effect)
		case is.Shadow:
			say("policy %s (%s) is in shadow: it does not decide any more", was.ID, was.Effect)
		case slices.Index(strictness, is.Effect) < slices.Index(strictness, was.Effect):
			say("policy %s: %s became %s", was.ID, was.Effect, is.Effect)
		}
		if there && !was.Shadow && !is.Shadow && was.Effect == is.Effect && from.text(was.ID) != to.text(was.ID) {
			say("policy %s (%s) reads otherwise", was.ID, was.Effect)
		}
	}
	for _, is := range to.Rules() {
		if !older[is.ID] && is.Effect == "permit" && !is.Shadow {
			say("policy %s (permit) is new", is.ID)
		}
	}
	return out
}

// text is a rule as it is written, without regard to white space.
func (p *Policy) text(id string) string {
	return string(p.rules[cedar.PolicyID(id)].policy.MarshalCedar())
}
