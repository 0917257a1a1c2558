// Package screen judges content without a model server: it reads a text in
// every way in which a model might (package normal), looks for fixed
// expressions (lexicon) and directives (directive), asks a small classifier
// (classify), and adds the findings up to one risk per mille.
//
// It promises that the same text, pack and options give the same answer; that
// its work is linear in the text; that spans point into the text as it was
// written; and that a text which cannot be judged is a finding that holds,
// never silence. What it cannot see (a lie told as a fact, a convention that
// was planted) is for authority, provenance and review to stop.
package screen

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/screen/normal"
)

// The layers, by which they are switched off.
const (
	LayerLexicon   = "lexicon"
	LayerDirective = "directive"
	LayerClassify  = "classify"
)

var layers = []string{LayerLexicon, LayerDirective, LayerClassify}

// Options configure a Screener.
type Options struct {
	// Pack is what is looked for; nil is the built-in pack.
	Pack *Pack
	// Sensitivity is low, medium (the default) or high.
	Sensitivity string
	// Sources are sensitivities for content of certain sources (trusted,
	// verified, untrusted, hostile; "unstated" is for what states none).
	Sources map[string]string
	// Disable names layers that are left out.
	Disable []string
}

// Screener judges texts. It is safe for concurrent use.
type Screener struct {
	pack   *Pack
	shift  int
	shifts map[string]int // by source
	off    map[string]bool
}

// New returns a Screener.
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

// Report is what screening says of one text.
type Report struct {
	// Score is the risk, per mille, moved by sensitivity, source and trust.
	Score   memproxy.PerMille `json:"score"`
	Verdict memproxy.Verdict  `json:"verdict"` // allow, hold or deny
	// Findings are sorted by place. Their scores are not moved.
	Findings []memproxy.Finding `json:"findings"`
}

// RuleRisk is the rule of the finding that carries an item's whole risk.
const RuleRisk = "screen.risk"

// Text judges one text that comes from a source and a principal of a trust
// tier; both may be empty.
func (s *Screener) Text(text string, source, trust string) Report {
	return s.Weigh(s.Findings(text), source, trust)
}

// Joined is Text of what several texts say together. Where no rule holds in it, the
// classifier, which was trained on texts that people wrote in one piece, is not asked.
func (s *Screener) Joined(text string, source, trust string) Report {
	reading := normal.Read(text)
	found := s.look(&reading, text, false)
	if len(found) > 0 && !s.off[LayerClassify] {
		found = s.look(&reading, text, true)
	}
	return s.Weigh(settle(found), source, trust)
}

// Weigh is the report of findings for a sensitivity, a source and a trust tier that may
// be others than they were found with.
func (s *Screener) Weigh(findings []memproxy.Finding, source, trust string) Report {
	r := Report{Score: s.risk(findings, source, trust), Findings: findings}
	switch {
	case int(r.Score) >= s.pack.deny:
		r.Verdict = memproxy.Deny
	case int(r.Score) >= s.pack.hold:
		r.Verdict = memproxy.Hold
	}
	return r
}

// Judge appends to out what was found in an item of an operation and, if it is
// anything, RuleRisk with the sum for a source and a principal of a trust tier;
// both may be empty. No finding scores more than the sum.
func (s *Screener) Judge(out, found []memproxy.Finding, item int, source memproxy.Source, trust memproxy.Trust) []memproxy.Finding {
	if len(found) == 0 {
		return out
	}
	risk := s.risk(found, string(source), string(trust))
	top := slices.MaxFunc(found, func(a, b memproxy.Finding) int { return cmp.Compare(a.Score, b.Score) })
	for _, f := range found {
		f.Item, f.Score = item, min(f.Score, risk)
		out = append(out, f)
	}
	top.Item, top.Rule, top.Score, top.Severity = item, RuleRisk, risk, severity(int(risk), s.pack)
	return append(out, top)
}

// Version names the pack that judges.
func (s *Screener) Version() string { return s.pack.Version() }

// RuleBounds is the rule of the finding for a text that nests deeper, or gives
// more, than is read: what the rest says is unknown. No layer has it, and no
// setting switches it off.
const RuleBounds = "form.bounds"

const unreadScore = 700 // the score of RuleBounds

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
