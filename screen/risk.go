package screen

import (
	"cmp"
	"slices"

	"strings"

	"github.com/memproxy/memproxy"
)

const corroborates = 400 // the least score of a finding that counts as evidence of its own kind next to another's

// certain is the score from which a rule refuses by itself: more than any of the
// built-in pack has, so that it takes a person's own rule, or one of these in what
// somebody hid.
const certain = 950

const agreement = 300 // how much, in per mille, a finding of another family adds of what is left to certainty

// risk adds findings up: the strongest counts whole, the strongest of every
// other family adds a share of what is left. Then sensitivity, source and
// trust move the sum. Text without findings has no risk, whoever wrote it.
//
// One kind of evidence holds and does not refuse, however strong it is: who
// writes about an attack uses its words. A refusal takes findings of two
// families, or one and a source that is known to be hostile, or a rule of a
// person who is certain. What nobody could read to its end is held at every sensitivity, whoever wrote it, and
// refused from a source that is not to be trusted.
func (s *Screener) risk(findings []memproxy.Finding, source, trust string) memproxy.PerMille {
	if len(findings) == 0 {
		return 0
	}
	var tops []int
	seen := make(map[string]int, 8)
	for _, f := range findings {
		fam := s.pack.Family(f.Rule)
		if i, ok := seen[fam]; ok {
			tops[i] = max(tops[i], int(f.Score))
			continue
		}
		seen[fam] = len(tops)
		tops = append(tops, int(f.Score))
	}
	slices.Sort(tops)
	slices.Reverse(tops)
	sum := tops[0]
	for _, t := range tops[1:] {
		sum += (1000 - sum) * t * agreement / 1_000_000
	}
	if sum >= minClassified {
		shift, ok := s.shifts[cmp.Or(source, string(memproxy.SourceUnstated))]
		if !ok {
			shift = s.shift
		}
		sum += shift + s.pack.weights["source "+source] + s.pack.weights["trust "+trust]
	}
	hostile := source == string(memproxy.SourceHostile)
	sure := func(f memproxy.Finding) bool { return f.Score >= certain && f.Rule != RuleClassifier }
	if !hostile && (len(tops) < 2 || tops[1] < corroborates) && !slices.ContainsFunc(findings, sure) {
		sum = min(sum, s.pack.deny-1)
	}
	if slices.ContainsFunc(findings, unread) {
		sum = max(sum, s.pack.hold)
		if hostile || source == string(memproxy.SourceUntrusted) {
			sum = max(sum, s.pack.deny)
		}
	}
	return memproxy.PerMille(max(0, min(1000, sum)))
}

// unread reports findings that say that a text was not read to its end.
func unread(f memproxy.Finding) bool { return f.Rule == RuleBounds }

// quotedScore is the most that markup, a query or a command counts which stands
// in code as Markdown sets it: it is shown there, and does nothing.
const quotedScore = 350

// codeFamilies are those of what is code, and not an instruction to a reader.
var codeFamilies = []string{"markup.", "sql.", "shell.", "template."}

type stretch struct{ from, to int }

// codeSpans are the stretches of text between backticks: fences, and what stands
// between as many backticks on one line. An open fence is none: what follows it
// is read as text.
func codeSpans(text string) []stretch {
	var out []stretch
	for at := 0; ; {
		i := strings.IndexByte(text[at:], '`')
		if i < 0 {
			return out
		}
		from := at + i
		n := 1
		for from+n < len(text) && text[from+n] == '`' {
			n++
		}
		rest := text[from+n:]
		if n < 3 { // a line
			if end := strings.IndexByte(rest, '\n'); end >= 0 {
				rest = rest[:end]
			}
		}
		end := strings.Index(rest, text[from:from+n])
		at = from + n
		if end < 0 {
			if n >= 3 {
				return out // no fence further on has an end either, but for longer ones
			}
			continue
		}
		out = append(out, stretch{from, at + end + n})
		at += end + n
	}
}

// shown lowers a finding of code that stands in one of the spans.
func shown(f *memproxy.Finding, spans []stretch) {
	if f.Score <= quotedScore || !slices.ContainsFunc(codeFamilies, func(family string) bool { return strings.HasPrefix(f.Rule, family) }) {
		return
	}
	at, exact := slices.BinarySearchFunc(spans, f.Start, func(s stretch, start int) int { return cmp.Compare(s.from, start) })
	if !exact {
		at--
	}
	if at >= 0 && f.End <= spans[at].to {
		f.Score = quotedScore
	}
}
