package screen

import (
	"cmp"
	"math"
	"slices"
	"sync"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/screen/classify"
	"github.com/memproxy/memproxy/screen/directive"
	"github.com/memproxy/memproxy/screen/normal"
)

// scratch is what one examination needs and the next may use again.
type scratch struct {
	words    []directive.Word
	hits     []directive.Hit
	features []classify.Feature
}

var pool = sync.Pool{New: func() any { return new(scratch) }}

// maxFindings bounds what is kept of one text: the strongest, and one finding
// for the whole stretch in which the others lie.
const maxFindings = 32

// decodedBonus is added to what is found only in a reading that had to be
// decoded: somebody hid it.
const decodedBonus = 100

// examine runs the layers over every reading of a text.
func (s *Screener) examine(text string) ([]memproxy.Finding, error) {
	sc := pool.Get().(*scratch)
	defer pool.Put(sc)
	reading := normal.Read(text, s.limits)
	var out []memproxy.Finding
	for i := range reading.Views {
		v := &reading.Views[i]
		from := len(out)
		sc.words = s.pack.vocabulary.Read(sc.words[:0], v.Text)
		var err error
		if !s.off[LayerLexicon] {
			if out, err = s.lexicon(out, v); err != nil {
				return nil, err
			}
		}
		if !s.off[LayerDirective] {
			out = s.directives(out, v, sc)
		}
		if !s.off[LayerClassify] {
			out = s.classifier(out, v, sc)
		}
		if !s.off[LayerForm] && i == 0 {
			out = s.form(out, text, &reading, sc.words)
		}
		if v.Name != normal.Plain {
			for j := from; j < len(out); j++ {
				out[j].Score = min(memproxy.Full, out[j].Score+decodedBonus)
			}
		}
	}
	return settle(out), nil
}

func (s *Screener) lexicon(out []memproxy.Finding, v *normal.View) ([]memproxy.Finding, error) {
	hits, err := s.pack.lexicon.Find(v.Text)
	for _, h := range hits {
		r := &s.pack.lexicon.Rules[h.Rule]
		f := memproxy.Finding{Rule: r.ID, Severity: r.Severity, Score: memproxy.PerMille(r.Score)}
		f.Start, f.End = v.Span(h.Start, h.End)
		out = append(out, f)
	}
	return out, err
}

func (s *Screener) directives(out []memproxy.Finding, v *normal.View, sc *scratch) []memproxy.Finding {
	sc.hits = s.pack.directives.Find(sc.hits[:0], sc.words)
	for _, h := range sc.hits {
		r := &s.pack.directives.List[h.Rule]
		f := memproxy.Finding{Rule: r.ID, Severity: r.Severity, Score: memproxy.PerMille(r.Score)}
		f.Start, f.End = v.Span(int(sc.words[h.Start].Start), int(sc.words[h.End-1].End))
		out = append(out, f)
	}
	return out
}

// RuleClassifier is the rule of the classifier's finding.
const RuleClassifier = "classify.window"

// minClassified is the least score of the classifier that is a finding.
const minClassified = 150

func (s *Screener) classifier(out []memproxy.Finding, v *normal.View, sc *scratch) []memproxy.Finding {
	if len(sc.words) == 0 {
		return out
	}
	sc.features = features(sc.features[:0], sc.words, 0)
	best := s.pack.model.Score(sc.features, len(sc.words))
	spans := []classify.Span{best}
	if s.pack.probability(float64(best.Margin)) >= s.pack.hold { // then every such place is told
		spans = s.pack.model.Over(sc.features, len(sc.words), float32(float64(s.pack.weights["zero"])/1000))
	}
	for _, span := range spans {
		score := s.pack.probability(float64(span.Margin))
		if score < minClassified {
			continue
		}
		f := memproxy.Finding{Rule: RuleClassifier, Severity: severity(score, s.pack), Score: memproxy.PerMille(score)}
		f.Start, f.End = v.Span(int(sc.words[span.Start].Start), int(sc.words[span.End-1].End))
		out = append(out, f)
	}
	return out
}

// probability turns a margin into per mille: the hold threshold at zero.
func (p *Pack) probability(margin float64) int {
	x := (margin*1000 - float64(p.weights["zero"])) / float64(p.weights["scale"])
	return int(1000 / (1 + math.Exp(-x)))
}

// settle sorts findings by place, keeps the strongest of each rule and place,
// and the strongest of all.
func settle(f []memproxy.Finding) []memproxy.Finding {
	if len(f) == 0 {
		return nil
	}
	slices.SortFunc(f, func(a, b memproxy.Finding) int {
		return cmp.Or(cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End), cmp.Compare(b.Score, a.Score))
	})
	f = slices.CompactFunc(f, func(a, b memproxy.Finding) bool { return a.Rule == b.Rule && a.Start == b.Start && a.End == b.End })
	if len(f) > maxFindings {
		slices.SortStableFunc(f, func(a, b memproxy.Finding) int { return cmp.Compare(b.Score, a.Score) })
		rest := f[maxFindings-1]
		for _, o := range f[maxFindings:] {
			rest.Start, rest.End = min(rest.Start, o.Start), max(rest.End, o.End)
		}
		f = append(f[:maxFindings-1], rest)
	}
	slices.SortFunc(f, func(a, b memproxy.Finding) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End), cmp.Compare(a.Rule, b.Rule))
	})
	return slices.Clip(f)
}
