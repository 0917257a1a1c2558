package screen

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
)

const corroborates = 400 // a second family of findings counts as corroboration from this score on

// certain is the score from which one rule refuses without corroboration. No rule of the
// built-in pack reaches it by itself: it takes an operator's own rule, or a built-in rule
// with the bonus for hidden content.
const certain = 950

const agreement = 300 // per mille of its score that a finding of another family adds, of the remainder to 1000

// risk combines findings to one score: the strongest counts in full, and the strongest of
// every other family adds a share of the remainder to 1000. Sensitivity, source and trust
// then shift the sum. A text without findings has no risk, whoever wrote it.
//
// Evidence of one family holds and does not refuse, however strong it is: texts about an
// attack use the words of the attack. A refusal takes findings of two families, or a
// source known to be hostile, or a rule whose score reaches certain. A text that could
// not be read to its end is held at every sensitivity, whoever wrote it, and refused if
// the source is untrusted or hostile.
func (s *Screener) risk(findings []memproxy.Finding, source, trust string) memproxy.PerMille {
	if len(findings) == 0 {
		return 0
	}
	sum, two := s.pack.evidence(findings)
	if sum >= minClassified {
		shift, ok := s.shifts[cmp.Or(source, string(memproxy.SourceUnstated))]
		if !ok {
			shift = s.shift
		}
		sum += shift + s.pack.weights["source "+source] + s.pack.weights["trust "+trust]
	}
	hostile := source == string(memproxy.SourceHostile)
	sure := func(f memproxy.Finding) bool { return f.Score >= certain && f.Rule != RuleClassifier }
	if !hostile && !two && !slices.ContainsFunc(findings, sure) {
		sum = min(sum, s.pack.deny-1)
	}
	if slices.ContainsFunc(findings, isTruncated) {
		sum = max(sum, s.pack.hold)
		if hostile || source == string(memproxy.SourceUntrusted) {
			sum = max(sum, s.pack.deny)
		}
	}
	return memproxy.PerMille(max(0, min(1000, sum)))
}

// evidence returns the sum of findings before it is shifted, and whether two families of
// them corroborate each other.
func (p *Pack) evidence(findings []memproxy.Finding) (sum int, two bool) {
	strongest := make(map[string]int, 8) // by family
	for _, f := range findings {
		family := p.Family(f.Rule)
		strongest[family] = max(strongest[family], int(f.Score))
	}
	tops := slices.SortedFunc(maps.Values(strongest), func(a, b int) int { return cmp.Compare(b, a) })
	for i, t := range tops {
		if i == 0 {
			sum = t
			continue
		}
		sum += (1000 - sum) * t * agreement / 1_000_000
	}
	return sum, len(tops) > 1 && tops[1] >= corroborates
}

// isTruncated reports whether a finding says that a text was not read to its end.
func isTruncated(f memproxy.Finding) bool { return f.Rule == RuleTruncated }

// quotedScore is the most that markup, a query or a command scores inside of a Markdown
// code span: there it is displayed and not run.
const quotedScore = 350

// codeFamilies are the prefixes of rules that match code and not instructions to a
// reader.
var codeFamilies = []string{"markup.", "sql.", "shell.", "template."}

type stretch struct{ from, to int }

// codeSpans returns the Markdown code spans of text: fenced blocks, and text between
// equal numbers of backticks on one line. A fence that is never closed is not a code
// span: the text after it is read as text.
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
		if n < 3 { // an inline span ends on its line
			if end := strings.IndexByte(rest, '\n'); end >= 0 {
				rest = rest[:end]
			}
		}
		end := strings.Index(rest, text[from:from+n])
		at = from + n
		if end < 0 {
			if n >= 3 {
				return out // no later fence has an end either, unless it is longer
			}
			continue
		}
		out = append(out, stretch{from, at + end + n})
		at += end + n
	}
}

// lowerQuoted lowers the score of a finding of code that lies in one of the spans.
func lowerQuoted(f *memproxy.Finding, spans []stretch) {
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
