// Package synapse implements the content validation of ADR-SYNAPSE-001 for memory that
// agents edit themselves: its table of mandatory patterns with variants, and its
// heuristics. docs/adr/0009-synapse-pack.md has the tables and the decisions on what the
// ADR leaves open.
//
// Invariants: a pattern is found in the text as written and in every reading of package
// normal, and the work is linear in the text. Findings have no score: what a pattern
// means depends on the field and on the source, and is for the policy to decide.
package synapse

import (
	"cmp"
	_ "embed"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/screen/lexicon"
	"github.com/memproxy/memproxy/screen/normal"
	"github.com/memproxy/memproxy/screen/terms"
)

// Prefix is the prefix of all rule ids.
const Prefix = "synapse."

// patterns are the mandatory patterns, except for tags (see tags).
//
//go:embed patterns.txt
var patterns string

var lexiconOfPatterns = lexicon.Embedded("patterns.txt", patterns)

const maxTags = 32 // the most tags that are reported of a reading; the last extends to the end

// tags calls f for each tag in a text, maxTags at most.
func tags(in string, f func(from, to int)) {
	for from, n := 0, 1; n <= maxTags; {
		at := strings.IndexByte(in[from:], '<')
		if at < 0 {
			return
		}
		from += at
		if name := strings.TrimPrefix(in[from+1:], "/"); name == "" || terms.Lower(name[0]) < 'a' || terms.Lower(name[0]) > 'z' {
			from++
			continue
		}
		end := strings.IndexByte(in[from:], '>')
		if end < 0 {
			return
		}
		to := from + end + 1
		if n == maxTags {
			to = len(in)
		}
		f(from, to)
		from, n = to, n+1
	}
}

// Patterns returns the mandatory patterns in a text, as written and in every reading of it.
func Patterns(reading *normal.Readings, text string) []memproxy.Finding {
	var out []memproxy.Finding
	find := func(in string, span func(int, int) (int, int)) {
		add := func(rule string, from, to int) {
			from, to = span(from, to)
			out = append(out, memproxy.Finding{Rule: rule, Severity: "high", Start: from, End: to})
		}
		l := lexiconOfPatterns()
		for _, h := range l.Find(in) {
			add(l.Rules[h.Rule].ID, h.Start, h.End)
		}
		tags(in, func(from, to int) { add(Prefix+"markup", from, to) })
	}
	find(text, func(a, b int) (int, int) { return a, b })
	for i := range reading.Views {
		if v := &reading.Views[i]; v.Text != text {
			find(v.Text, v.Span)
		}
	}
	slices.SortFunc(out, func(a, b memproxy.Finding) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End), cmp.Compare(a.Rule, b.Rule))
	})
	return slices.Compact(out)
}

// The thresholds of the ADR, and numbers that it does not give.
const (
	maxEntropy       = 4.5 // bits per character
	minEntropyLength = 32  // characters; the entropy of a shorter text cannot be higher
	maxAgents        = 2   // other agents that a memory may mention
	orderPercent     = 60  // of the sentences
	minSentences     = 3   // with fewer a percentage says nothing
)

// Heuristics returns in which ways a text is suspicious as a whole. own has the names of
// the writing agent, which may mention itself.
func Heuristics(text string, own []string) []memproxy.Finding {
	var out []memproxy.Finding
	add := func(rule string) {
		out = append(out, memproxy.Finding{Rule: Prefix + rule, Severity: "medium", End: len(text)})
	}
	if entropy(text) > maxEntropy {
		add("entropy")
	}
	if len(mentions(text, own)) > maxAgents {
		add("agents")
	}
	all, orders := 0, 0
	for from, to := range terms.Sentences(text, terms.ClauseMarks, " \n\t\"')", len(text)) {
		for word := range strings.FieldsFuncSeq(text[from:to], func(r rune) bool { return !unicode.IsLetter(r) && r != '\'' }) {
			if word = strings.ToLower(word); !courtesies[word] {
				all++
				if imperatives[word] {
					orders++
				}
				break
			}
		}
	}
	if all >= minSentences && orders*100 > all*orderPercent {
		add("imperative")
	}
	return out
}

// entropy returns the Shannon entropy of a text in bits per character. It is 0 for text
// in mostly non-Latin scripts: those with many letters exceed any threshold by nature.
func entropy(text string) float64 {
	n, other := 0, 0
	var ascii [utf8.RuneSelf]int
	counts := map[rune]int{} // of the others
	for _, r := range text {
		if n++; r < utf8.RuneSelf {
			ascii[r]++
			continue
		}
		counts[r]++
		if unicode.IsLetter(r) && !unicode.Is(unicode.Latin, r) {
			other++
		}
	}
	if n < minEntropyLength || other*2 > n {
		return 0
	}
	h := 0.0
	for _, c := range slices.AppendSeq(ascii[:], maps.Values(counts)) {
		if p := float64(c) / float64(n); p > 0 {
			h -= p * math.Log2(p)
		}
	}
	return h
}

// mentions returns the agents and roles that a text mentions: "@qa", "agent qa",
// "agent:qa", "agent-qa", "the qa agent". Mail addresses, package scopes and the author
// are none. The search stops after maxAgents+1.
func mentions(text string, own []string) []string {
	var out []string
	note := func(name string) {
		name = strings.ToLower(name)
		if name != "" && !slices.Contains(out, name) && !slices.ContainsFunc(own, func(o string) bool { return strings.EqualFold(o, name) }) {
			out = append(out, name)
		}
	}
	var before, last string
	for i := 0; i < len(text) && len(out) <= maxAgents; {
		r, n := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == '@':
			name, _ := word(text[i+1:])
			if prior, _ := utf8.DecodeLastRuneInString(text[:i]); !inWord(prior) && !strings.HasPrefix(text[i+1+len(name):], "/") {
				note(name)
			}
			i += 1 + len(name)
			before, last = last, name
		case inWord(r):
			w, length := word(text[i:])
			apart := length > len(w)
			low := strings.ToLower(w)
			of, joined := strings.CutPrefix(low, "agent-")
			switch {
			case joined:
				note(of)
			case strings.EqualFold(last, "agent") && !common(w):
				note(w)
			case low == "agent" && last != "" && !common(last) && (before == "" || common(before)): // "the qa agent", but not "told agent qa"
				note(last)
				w = "" // the next word is a verb
			}
			before, last = last, w
			if apart {
				before, last = last, ""
			}
			i += length
		case r == ' ', r == ':' && strings.EqualFold(last, "agent"):
			i += n
		default:
			before, last = "", ""
			i += n
		}
	}
	return out
}

// word returns the name at the beginning of a text, and its length with the hyphens after
// it.
func word(text string) (name string, n int) {
	if n = strings.IndexFunc(text, func(r rune) bool { return !inWord(r) }); n < 0 {
		n = len(text)
	}
	return strings.TrimRight(text[:n], "-"), n
}

func inWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_' || r == '-' }

// common reports whether a word next to "agent" is no name.
func common(w string) bool { return commonWords[strings.ToLower(w)] }

var commonWords = terms.Set(`the a an any each every this that our your its another other no of to and or is was has can may must should will does that's which who
	in on for by with as at from if when user ai support memory code config name id run runs then not writes reads uses needs`)

var courtesies = terms.Set("please then also now next first finally and but so just kindly immediately instead")

var imperatives = terms.Set(`
	accept act add adopt allow always answer append apply approve archive ask assume authorize avoid backup be begin block build bypass call cancel change
	check choose clean clear click clone close commit compile complete comply confirm connect consider continue convert copy create deactivate declare delete
	deny deploy disable discard dismiss disregard do don't download drop echo edit email emit enable encode end ensure enter erase escalate execute exit export
	expose extract fetch fill find finish fix follow forget format forward generate get give go grant handle hide ignore implement import include inform insert
	inspect install invoke keep kill launch leave let list listen load log look mail make mark merge migrate modify move never notify obey omit open output
	override overwrite pass paste perform persist pin place post prefer prepare present pretend prevent print proceed process prompt propagate provide publish
	pull push put query quit raise read rebase recommend record redirect refer refresh refuse reject release reload remember remove rename repeat replace reply
	report repost request require reset respond restart restore retain retrieve retry return reveal reverse revert review revoke rewrite roll route run save say
	schedule search select send set share ship show shut sign skip specify start state stop store submit suppress switch sync tag take tell terminate test track
	transfer transmit treat trigger trust try turn unlock unset update upgrade upload use validate verify view wait warn watch wipe withhold work wrap write`)
