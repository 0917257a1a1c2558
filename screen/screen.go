// Package screen judges content without a model server. It produces every reading of a
// text that a model might see (package normal: the text as written and its decoded
// forms), looks for fixed expressions (lexicon) and directives (directive), asks a small
// linear classifier (classify), and combines the findings into one risk score per mille.
//
// Invariants: the same text, pack and options give the same answer; the work is linear in
// the length of the text; spans point into the text as it was written; a text that cannot
// be judged produces a finding that holds it, never silence. Screening cannot see a lie
// told as a fact or a planted convention; authority, provenance and review have to stop
// those.
package screen

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/screen/normal"
)

// The names of the layers in Options.Disable.
const (
	LayerLexicon   = "lexicon"
	LayerDirective = "directive"
	LayerClassify  = "classify"
)

var layers = []string{LayerLexicon, LayerDirective, LayerClassify}

// Options configure a Screener.
type Options struct {
	// Pack has the rules and models; nil means the built-in pack.
	Pack *Pack
	// Sensitivity is low, medium (the default) or high.
	Sensitivity string
	// Sources maps a source (trusted, verified, untrusted, hostile, or "unstated" for
	// content without a source) to the sensitivity for its content.
	Sources map[string]string
	// Disable names layers that do not run.
	Disable []string
}

// Screener judges texts. It is immutable and safe for concurrent use.
type Screener struct {
	pack   *Pack
	shift  int
	shifts map[string]int // by source
	off    map[string]bool
}

// New returns a Screener. It fails if the options name an unknown sensitivity, source or
// layer.
func New(o Options) (*Screener, error) {
	if o.Pack == nil {
		p, err := builtin()
		if err != nil {
			return nil, err
		}
		o.Pack = p
	}
	return newScreener(o)
}

func newScreener(o Options) (*Screener, error) {
	s := &Screener{pack: o.Pack, off: map[string]bool{}}
	sensitivity := cmp.Or(o.Sensitivity, "medium")
	shift, ok := s.pack.weights["sensitivity "+sensitivity]
	if !ok {
		return nil, fmt.Errorf("screen: unknown sensitivity %q: want low, medium or high", sensitivity)
	}
	s.shift, s.shifts = shift, map[string]int{}
	for source, name := range o.Sources {
		shift, ok := s.pack.weights["sensitivity "+name]
		if _, known := s.pack.weights["source "+source]; !ok || !known && source != string(memproxy.SourceUnstated) {
			return nil, fmt.Errorf("screen: sensitivity %q for source %q: want low, medium or high for trusted, verified, untrusted, hostile or unstated", name, source)
		}
		s.shifts[source] = shift
	}
	for _, d := range o.Disable {
		if !slices.Contains(layers, d) {
			return nil, fmt.Errorf("screen: unknown layer %q: want one of %v", d, layers)
		}
		s.off[d] = true
	}
	return s, nil
}

// Report is the result of screening one text.
type Report struct {
	// Score is the risk per mille, adjusted for sensitivity, source and trust.
	Score   memproxy.PerMille `json:"score"`
	Verdict memproxy.Verdict  `json:"verdict"` // allow, hold or deny
	// Findings are sorted by position. Their scores are not adjusted.
	Findings []memproxy.Finding `json:"findings"`
}

// Text screens one text from a source, written by a principal of a trust tier. Both may
// be empty.
func (s *Screener) Text(text string, source, trust string) Report {
	reading := normal.Read(text)
	return s.ReportOf(s.FindingsIn(&reading, text), source, trust)
}

// AssembledText screens a text that was assembled from several texts. The classifier was
// trained on texts written in one piece, so it runs only if a rule matched the assembled
// text.
func (s *Screener) AssembledText(text string, source, trust string) Report {
	reading := normal.Read(text)
	found := s.scan(&reading, text, false)
	if len(found) > 0 && !s.off[LayerClassify] {
		found = s.scan(&reading, text, true)
	}
	return s.ReportOf(settle(found), source, trust)
}

// ReportOf returns the report for findings, for any sensitivity, source and trust tier.
func (s *Screener) ReportOf(findings []memproxy.Finding, source, trust string) Report {
	r := Report{Score: s.risk(findings, source, trust), Findings: findings}
	switch {
	case int(r.Score) >= s.pack.deny:
		r.Verdict = memproxy.Deny
	case int(r.Score) >= s.pack.hold:
		r.Verdict = memproxy.Hold
	}
	return r
}

// AppendRisk appends to out the findings of an item of an operation and, if there are
// any, one ScreenRisk finding with the total risk for the source and the trust tier of the
// principal. Both may be empty. No finding scores more than the total.
func (s *Screener) AppendRisk(out, found []memproxy.Finding, item int, source memproxy.Source, trust memproxy.Trust) []memproxy.Finding {
	if len(found) == 0 {
		return out
	}
	risk := s.risk(found, string(source), string(trust))
	top := slices.MaxFunc(found, func(a, b memproxy.Finding) int { return cmp.Compare(a.Score, b.Score) })
	for _, f := range found {
		f.Item, f.Score = item, min(f.Score, risk)
		out = append(out, f)
	}
	top.Item, top.Rule, top.Score, top.Severity = item, string(memproxy.ScreenRisk), risk, severity(int(risk), s.pack)
	return append(out, top)
}

// RuleTruncated is the rule of the finding for a text that nests more deeply, expands to
// more, or has more combinations of sentences, than is read: the content of the rest is
// unknown. The rule belongs to no layer and cannot be disabled.
const RuleTruncated = "form.bounds"

const truncatedScore = 700 // the score of RuleTruncated

func severity(score int, p *Pack) string {
	switch {
	case score >= p.deny:
		return "critical"
	case score >= p.hold:
		return "high"
	case score >= p.hold/2:
		return "medium"
	}
	return "low"
}
