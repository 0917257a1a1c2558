package cedar

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go"
)

// Rules lists the enabled rules, sorted by id.
func (p *Policy) Rules() []RuleInfo {
	var out []RuleInfo
	for _, r := range p.rules {
		out = append(out, r.RuleInfo)
	}
	slices.SortFunc(out, func(a, b RuleInfo) int { return strings.Compare(a.ID, b.ID) })
	return out
}

// backendName matches the name of a backend in a policy's text, where a quote within a
// string has a backslash.
var backendName = regexp.MustCompile(`\bMemory::"([^"\\]*)"`)

// Unmatched lists, in sentences, the policies that name a backend which does not exist.
func (p *Policy) Unmatched(exists func(backend string) bool) (out []string) {
	for _, r := range p.Rules() {
		for _, m := range backendName.FindAllStringSubmatch(p.text(r.ID), -1) {
			if name := m[1]; !exists(name) {
				out = append(out, fmt.Sprintf("%s:%d: policy %s names the backend %q, and there is none", r.File, r.Line, r.ID, name))
			}
		}
	}
	return out
}

// strictness lists effects, from the least strict to the strictest.
var strictness = []string{"", "mark", "hold", "deny"}

// Loosened describes, in sentences, what a newer bundle loosens: prohibitions that were
// removed, shadowed or weakened, new permissions, and rules whose text changed, because
// these may be looser.
func Loosened(from, to *Policy) []string {
	var out []string
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	for _, was := range from.Rules() {
		is := to.rules[cedar.PolicyID(was.ID)]
		switch {
		case is != nil && is.Effect == "permit" && !is.Shadow && was.Shadow:
			say("policy %s permits: it was in shadow", was.ID)
		case was.Effect == "permit" || was.Shadow:
		case is == nil:
			say("policy %s (%s) was removed", was.ID, was.Effect)
		case is.Shadow:
			say("policy %s (%s) is in shadow: it no longer decides", was.ID, was.Effect)
		case slices.Index(strictness, is.Effect) < slices.Index(strictness, was.Effect):
			say("policy %s: %s became %s", was.ID, was.Effect, is.Effect)
		}
		if is != nil && !was.Shadow && !is.Shadow && was.Effect == is.Effect && from.text(was.ID) != to.text(was.ID) {
			say("policy %s (%s) was changed", was.ID, was.Effect)
		}
	}
	for _, is := range to.Rules() {
		if from.rules[cedar.PolicyID(is.ID)] == nil && is.Effect == "permit" && !is.Shadow {
			say("policy %s (permit) is new", is.ID)
		}
	}
	return out
}

// text returns a rule's source with normalized white space.
func (p *Policy) text(id string) string {
	return string(p.rules[cedar.PolicyID(id)].policy.MarshalCedar())
}
