// Package synapse is the content validation of ADR-SYNAPSE-001 for memory that
// agents edit themselves: its table of mandatory patterns, literally, and its
// heuristics. docs/adr/0009-synapse-pack.md has the tables and what was
// decided where they are silent.
//
// It promises that a pattern is found in the text as it is and in every way in
// which a model might read it, and that its work is linear in the text. It
// says what was found and gives no score: what a pattern means depends on the
// field and on the source, and is for the policy to say.
package synapse

import (
	"cmp"
	"regexp"
	"slices"

	"github.com/memproxy/memproxy/screen/normal"
)

// Fields are the governed fields, for whose content the ADR was written.
var fields = [...]string{"learnings", "preferences", "gotchas", "conventions", "decisions"}

// Governed reports whether a field is one of those of the ADR. The name is
// compared as policies compare it.
func Governed(field string) bool { return slices.Contains(fields[:], field) }

// Prefix begins the ids of all rules.
const Prefix = "synapse."

// Hit is a rule that holds for a span of the text, in bytes.
type Hit struct {
	Rule       string
	Severity   string // high for a pattern, medium for a heuristic
	Start, End int
}

type pattern struct {
	rule string
	re   *regexp.Regexp
}

var patterns = [...]pattern{
	{Prefix + "directive", regexp.MustCompile(`(?i)<system[-_]?`)},
	{Prefix + "importance", regexp.MustCompile(`(?i)\bIMPORTANT\s*:`)},
	{Prefix + "role", regexp.MustCompile(`(?i)\b(you are|act as|pretend to be|ignore previous)\b`)},
	{Prefix + "authority", regexp.MustCompile(`(?i)@(devops|pm|architect)\s+(confirmed|approved|authorized)`)},
	{Prefix + "markup", regexp.MustCompile(`(?i)</?[a-z][\w-]*[^>]*>`)},
	{Prefix + "encoded", regexp.MustCompile(`(?i)\\x[0-9a-f]{2}|\\u[0-9a-f]{4}`)},
	{Prefix + "line", regexp.MustCompile(`(?im)^(rule|instruction|directive|command)\s*:`)},
}

const maxHits = 32 // bounds the places of one pattern that are told apart; the last reaches over the rest

// Patterns finds the mandatory patterns in a text, read as it is and in every
// way of package normal.
func Patterns(text string) []Hit {
	var out []Hit
	find := func(in string, span func(int, int) (int, int)) {
		for _, p := range patterns {
			found := p.re.FindAllStringIndex(in, maxHits)
			for i, at := range found {
				start, end := span(at[0], at[1])
				if i == maxHits-1 {
					end = len(text)
				}
				out = append(out, Hit{p.rule, "high", start, end})
			}
		}
	}
	find(text, func(a, b int) (int, int) { return a, b })
	reading := normal.Read(text)
	for i := range reading.Views {
		if v := &reading.Views[i]; v.Text != text {
			find(v.Text, v.Span)
		}
	}
	slices.SortFunc(out, func(a, b Hit) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End), cmp.Compare(a.Rule, b.Rule))
	})
	return slices.Compact(out)
}
