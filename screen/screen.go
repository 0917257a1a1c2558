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
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/cache"
)

// The layers, by which they are switched off.
const (
	LayerLexicon   = "lexicon"
	LayerDirective = "directive"
	LayerClassify  = "classify"
)

var layers = []string{LayerLexicon, LayerDirective, LayerClassify}

// DefaultCacheSize is how many verdicts are remembered.
const DefaultCacheSize = 4096

// Options configure a Screener.
type Options struct {
	// Pack is what is looked for; nil is the built-in pack.
	Pack *Pack
	// Sensitivity is low, medium (the default) or high.
	Sensitivity string
	// Sources are sensitivities for content of certain sources (trusted,
	// verified, untrusted, hostile; "unstated" is for what states none).
	Sources map[string]string
	// CacheSize is how many verdicts are remembered, by hash of the content:
	// 0 for the default, negative for none.
	CacheSize int
	// Disable names layers that are left out.
	Disable []string
}

// Screener judges texts. It is safe for concurrent use.
type Screener struct {
	pack   *Pack
	shift  int
	shifts map[string]int // by source
	off    map[string]bool
	cache  cache.Cache[[sha256.Size]byte, []memproxy.Finding]
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
	size := o.CacheSize
	if size == 0 {
		size = DefaultCacheSize
	}
	if size > 0 {
		s.cache = cache.New[[sha256.Size]byte, []memproxy.Finding](size)
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
	return s.report(slices.Clone(s.findings(text)), source, trust)
}

// report weighs findings.
func (s *Screener) report(findings []memproxy.Finding, source, trust string) Report {
	r := Report{Score: s.risk(findings, source, trust), Findings: findings}
	switch {
	case int(r.Score) >= s.pack.deny:
		r.Verdict = memproxy.Deny
	case int(r.Score) >= s.pack.hold:
		r.Verdict = memproxy.Hold
	}
	return r
}

// Judge finds what is dangerous in the items of an operation of a principal of
// a trust tier, which may be empty. An item with findings has one more, RuleRisk,
// with their sum. The only errors are the context's.
func (s *Screener) Judge(ctx context.Context, op *memproxy.Operation, trust memproxy.Trust) ([]memproxy.Finding, error) {
	if op == nil {
		return nil, errors.New("screen: no operation")
	}
	var out []memproxy.Finding
	for i := range op.Items {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		it := &op.Items[i]
		switch it.Kind {
		case memproxy.ItemURL, memproxy.ItemData, memproxy.ItemQuery:
			continue // not text, or not kept
		}
		r := s.Text(it.Text, string(op.SourceClaim), string(trust))
		if len(r.Findings) == 0 {
			continue
		}
		top := slices.MaxFunc(r.Findings, func(a, b memproxy.Finding) int { return cmp.Compare(a.Score, b.Score) })
		top.Rule, top.Score, top.Severity = RuleRisk, r.Score, severity(int(r.Score), s.pack)
		for _, f := range append(r.Findings, top) {
			f.Item = i
			if f.Rule != RuleRisk {
				f.Score = min(f.Score, r.Score)
			}
			out = append(out, f)
		}
	}
	return out, nil
}

// Version names the pack that judges.
func (s *Screener) Version() string { return s.pack.Version() }

// findings returns what the layers find, from memory when the same text was
// judged before.
func (s *Screener) findings(text string) []memproxy.Finding {
	if s.cache == nil {
		return s.examine(text)
	}
	key := sha256.Sum256([]byte(text))
	if f, ok := s.cache.Get(key); ok {
		return f
	}
	f := s.examine(text)
	s.cache.Add(key, f)
	return f
}

// RuleBounds is the rule of the finding for a text that nests deeper, or gives
// more, than is read: what the rest says is unknown. No layer has it, and no
// setting switches it off.
const RuleBounds = "form.bounds"

// unreadScore is the score of RuleBounds.
const unreadScore = 700

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
