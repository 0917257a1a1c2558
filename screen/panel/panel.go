// Package panel combines the layers of screening to one screener for the gate: the
// deterministic one (package screen), credentials and personal data (secrets), content
// validation of governed fields (synapse), payloads split over writes (assembly),
// likeness to known attacks (likeness) and, where configured, anomalies of a user's
// memories (baseline), embedding similarity to known attacks (similar), and a model's
// opinion on borderline texts (judge).
//
// Invariants: a layer beyond the deterministic one can raise a risk and never lower it. A
// layer that fails is reported by a finding without a score, and the others' findings
// stay. A write is charged only with what it adds itself. The texts of one caller are
// screened on at most half of the processors at once.
package panel

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/cache"
	"github.com/memproxy/memproxy/screen"
	"github.com/memproxy/memproxy/screen/assembly"
	"github.com/memproxy/memproxy/screen/baseline"
	"github.com/memproxy/memproxy/screen/judge"
	"github.com/memproxy/memproxy/screen/likeness"
	"github.com/memproxy/memproxy/screen/similar"
)

// A Matcher finds the known attack that a text is most similar to.
type Matcher interface {
	Match(ctx context.Context, text string, source memproxy.Source) (similar.Match, error)
}

// Options has the layers. Layers that are nil or false do not run. Base and Clock are
// required.
type Options struct {
	Base     *screen.Screener
	Secrets  bool
	Synapse  bool // content validation of governed fields
	Assembly *assembly.Store
	Recipes  *assembly.Recipes
	Baseline *baseline.Store
	Likeness *likeness.Index
	Similar  Matcher
	Judge    *judge.Judge
	Outages  *Outages // nil: the Panel's own
	Clock    func() time.Time
	Log      *slog.Logger
	// CacheSize is the number of texts whose results are cached: 0 means
	// DefaultCacheSize, a negative number disables the cache.
	CacheSize int
}

// Panel implements the gate's Screener. It is safe for concurrent
// use.
type Panel struct {
	opt     Options
	shares  *shares
	cache   *cache.Generations[textHash, *textFindings] // nil: no cache
	looking *singleflight.Group
	examine func(text string, governed bool) *textFindings
}

// New returns a Panel. It fails without Base or Clock.
func New(opt Options) (*Panel, error) {
	if opt.Base == nil || opt.Clock == nil {
		return nil, errors.New("panel: the screener and the clock are required")
	}
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	if opt.Outages == nil {
		opt.Outages = NewOutages()
	}
	p := &Panel{opt: opt, shares: &shares{most: max(1, runtime.GOMAXPROCS(0)/2)}, looking: new(singleflight.Group)}
	p.examine = p.opt.examine
	if opt.CacheSize >= 0 {
		p.cache = cache.NewGenerations[textHash, *textFindings](cmp.Or(opt.CacheSize, DefaultCacheSize))
		p.cache.Extra = (*textFindings).count
	}
	return p, nil
}

// Screen implements the gate's Screener.
func (p *Panel) Screen(ctx context.Context, s memproxy.Screening) ([]memproxy.Finding, error) {
	findings, err := p.compute(ctx, s)
	if err != nil {
		return nil, err
	}
	if p.opt.Similar != nil {
		findings = p.similar(ctx, s.Operation, findings)
	}
	if p.opt.Judge != nil && !s.FromBackend {
		findings = p.opinions(ctx, asker(&s.Principal), s.Operation, findings)
	}
	return p.moderate(s.Operation, findings), nil
}

// compute runs the layers that cost processor time, within the caller's fair share. A
// read of cached texts needs no share.
func (p *Panel) compute(ctx context.Context, s memproxy.Screening) ([]memproxy.Finding, error) {
	if s.Operation == nil {
		return nil, errors.New("panel: no operation")
	}
	if !s.FromBackend {
		leave, err := p.shares.enter(ctx, asker(&s.Principal))
		if err != nil {
			return nil, err
		}
		defer leave()
	}
	found, err := p.itemFindings(ctx, s)
	if err != nil {
		return nil, err
	}
	var findings []memproxy.Finding
	for i, l := range found {
		if l != nil {
			findings = p.opt.Base.AppendRisk(findings, l.danger, i, s.Operation.SourceClaim, s.Principal.Trust)
			for _, f := range l.personal {
				f.Item = i
				findings = append(findings, f)
			}
		}
	}
	if writes(s.Operation) {
		findings = p.persons(s.Operation, findings)
		if !s.FromBackend {
			if p.opt.Secrets {
				findings = labelled(s.Operation, findings)
			}
			findings = p.written(s, found, findings)
		}
	}
	for i, l := range found {
		if l != nil && p.opt.Likeness != nil {
			match := l.like // the match is cached; its threshold depends on the source
			match.Threshold = likeness.Threshold(s.Operation.SourceClaim)
			findings = resembles(findings, "likeness", match, i)
		}
	}
	return findings, nil
}

// written runs the layers that look at a write together with earlier ones.
func (p *Panel) written(s memproxy.Screening, found []*textFindings, findings []memproxy.Finding) []memproxy.Finding {
	if p.opt.Synapse {
		findings = p.validated(s, found, findings)
	}
	if p.opt.Assembly != nil {
		findings = p.assembled(s, findings)
	}
	if p.opt.Recipes != nil {
		findings = p.recipes(s, findings)
	}
	if p.opt.Baseline != nil {
		findings = p.deviations(s, findings)
	}
	return findings
}

// moderate caps the score of text that instructs on purpose (system prompts, tool
// descriptions, instructions to an extractor), so that it is not held for instructing.
// Who may write such text is for the policy to decide. Scores from screen.DenyThreshold
// on stay.
func (p *Panel) moderate(op *memproxy.Operation, findings []memproxy.Finding) []memproxy.Finding {
	for i := range findings {
		f := &findings[i]
		if f.Item < 0 || f.Item >= len(op.Items) || f.Score >= screen.DenyThreshold {
			continue
		}
		if it := &op.Items[f.Item]; it.Kind == memproxy.ItemSteering || it.Role == "system" {
			f.Score = min(f.Score, screen.HoldThreshold-1)
		}
	}
	return findings
}

// RecordWrite implements the gate's Screener.
func (p *Panel) RecordWrite(s memproxy.Screening) {
	if s.Operation == nil || !writes(s.Operation) {
		return
	}
	written := texts(s.Operation)
	if p.opt.Assembly != nil {
		p.opt.Assembly.Commit(s.Decision, written, p.opt.Clock(), keysOf(s)...)
	}
	if p.opt.Recipes != nil {
		p.opt.Recipes.Commit(memoryOf(s), s.Decision, written, suspect(s.Operation), p.opt.Clock())
	}
	if p.opt.Baseline != nil {
		if list, _ := filled(s.Operation); len(list) > 0 {
			p.opt.Baseline.Learn(profileOf(s), list, p.opt.Clock())
		}
	}
}

// judged reports whether an item is text that is stored.
func judged(it *memproxy.Item) bool {
	switch it.Kind {
	case memproxy.ItemURL, memproxy.ItemData, memproxy.ItemQuery:
		return false
	}
	return it.Text != ""
}

// writes reports whether an operation puts texts into memory. A message to an agent does
// not: the agent's own writes are judged.
func writes(op *memproxy.Operation) bool {
	return op.Kind == memproxy.Learn || op.Kind == memproxy.Correct
}

// texts returns what an operation writes, by item index.
func texts(op *memproxy.Operation) []string {
	out := make([]string, len(op.Items))
	for i := range op.Items {
		if it := &op.Items[i]; it.Kind == memproxy.ItemContent && judged(it) {
			out[i] = it.Text
		}
	}
	return out
}

// prefixSecret is the prefix of credential rules; policies use it.
const prefixSecret = "secret."

// Text screens a text as if it were written from a source by a principal of a trust tier;
// both may be empty. It belongs to no session and no user, so assembly and the baseline
// do not run. The score is the highest of any layer. The error is the context's.
func (p *Panel) Text(ctx context.Context, text string, source memproxy.Source, trust memproxy.Trust) (screen.Report, error) {
	alone := *p
	alone.opt.Assembly, alone.opt.Baseline, alone.shares = nil, nil, nil
	found, err := alone.Screen(ctx, memproxy.Screening{
		Principal: memproxy.Principal{Trust: trust},
		Operation: &memproxy.Operation{
			Kind: memproxy.Learn, SourceClaim: source,
			Items: []memproxy.Item{{Kind: memproxy.ItemContent, Text: text, Layer: memproxy.Semantic}},
		},
	})
	if err != nil {
		return screen.Report{}, err
	}
	var r screen.Report
	for _, f := range found {
		r.Score = max(r.Score, f.Score)
		if f.Rule != string(memproxy.ScreenRisk) { // the total; the other findings explain it
			r.Findings = append(r.Findings, f)
		}
	}
	slices.SortStableFunc(r.Findings, func(a, b memproxy.Finding) int { return a.Start - b.Start })
	switch {
	case r.Score >= screen.DenyThreshold:
		r.Verdict = memproxy.Deny
	case r.Score >= screen.HoldThreshold:
		r.Verdict = memproxy.Hold
	}
	return r, nil
}
