package screen

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"unicode/utf8"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/screen/classify"
	"github.com/memproxy/memproxy/screen/directive"
	"github.com/memproxy/memproxy/screen/normal"
	"github.com/memproxy/memproxy/screen/rulefile"
)

// scratch is the reusable memory of one examination.
type scratch struct {
	words     []directive.Word
	negated   []int
	hits      []directive.Hit
	features  []uint32            // of one word
	prefixes  []prefix            // one per word, and one for the end of the text
	strides   []classify.Total    // totals at every classify.Stride words, from which windows are scored
	isolated  []classify.Total    // the same for a range that is scored as a separate text
	dangerous []classify.Span     // scored as separate texts, over the hold threshold
	sentences []sentence          // sentences of the reading so far
	code      []stretch           // Markdown code spans of the text
	scored    map[uint64]sentence // of this text, by key
	judged    int                 // words scored as sentences; a word counts each time
	most      int                 // bound of judged
	part      featureSet
	lift      []float32 // margin of the enclosing part, for every classify.Stride words
}

var pool = sync.Pool{New: func() any { return new(scratch) }}

const (
	fewScores = 1 << 10 // a larger map is not reused: to clear it takes long
	// The words of a text that are scored as sentences, in all readings, may be this many
	// times its length in bytes, or else leastJudged.
	judgedPerByte, leastJudged = 48, 32 << 10
)

// begin returns a scratch for a text.
func begin(text string) *scratch {
	sc := pool.Get().(*scratch)
	if len(sc.scored) > fewScores {
		sc.scored = nil
	}
	clear(sc.scored)
	sc.judged, sc.most = 0, max(leastJudged, judgedPerByte*len(text))
	return sc
}

// maxFindings bounds the findings of one text: the strongest are kept, and one more
// covers the span of all others.
const maxFindings = 32

// decodedBonus is added to the score of a rule's finding in a reading that had to be
// decoded, and hiddenBonus to that of the classifier: the author concealed the content.
const decodedBonus, hiddenBonus = 100, 200

// FindingsIn runs the enabled layers over every reading of a text. The findings are sorted
// by position and not weighed: they depend only on the text.
func (s *Screener) FindingsIn(reading *normal.Readings, text string) []memproxy.Finding {
	return settle(s.scan(reading, text, !s.off[LayerClassify]))
}

// scan runs the rules, and optionally the classifier, over every reading of a text. The
// findings are not sorted or deduplicated (see settle). Words that a restraint negates
// are blanked in the readings.
func (s *Screener) scan(reading *normal.Readings, text string, classify bool) (out []memproxy.Finding) {
	sc := begin(text)
	defer pool.Put(sc)
	sc.code = codeSpans(text)
	var taken []bool // bytes of the text that a restraint negates in its plain reading
	for i := range reading.Views {
		v := &reading.Views[i]
		s.pack.read(v, sc, taken)
		if i == 0 && len(sc.negated) > 0 {
			taken = make([]bool, len(text))
			for _, k := range sc.negated {
				start, end := v.Span(int(sc.words[k].Start), int(sc.words[k].End))
				for j := start; j < end; j++ {
					taken[j] = true
				}
			}
		}
		if !s.off[LayerLexicon] {
			for _, h := range s.pack.lexicon.Find(v.Text) {
				out = append(out, sc.finding(v, &s.pack.lexicon.Rules[h.Rule].Rule, h.Start, h.End))
			}
		}
		if !s.off[LayerDirective] {
			out = appendDirectives(out, v, s.pack.directives, sc)
			if !v.Noisy { // a rough reading has words of other languages by chance
				out = appendDirectives(out, v, s.pack.tongues, sc)
			}
		}
		if classify && !v.Noisy && worded(v.Text) {
			out = s.classifier(out, v, sc)
		}
	}
	if reading.Truncated || sc.judged > sc.most {
		out = append(out, memproxy.Finding{Rule: RuleTruncated, Severity: "high", End: len(text), Score: truncatedScore})
	}
	return out
}

// appendDirectives appends the directives in a reading. sc.words has its words.
func appendDirectives(out []memproxy.Finding, v *normal.View, rules *directive.Rules, sc *scratch) []memproxy.Finding {
	sc.hits = rules.Find(sc.hits[:0], sc.words)
	for _, h := range sc.hits {
		out = append(out, sc.finding(v, &rules.List[h.Rule].Rule, int(sc.words[h.Start].Start), int(sc.words[h.End-1].End)))
	}
	return out
}

// finding returns the finding of a rule for bytes start to end of a reading.
func (sc *scratch) finding(v *normal.View, r *rulefile.Rule, start, end int) memproxy.Finding {
	return sc.placed(v, memproxy.Finding{Rule: r.ID, Severity: r.Severity, Score: memproxy.PerMille(r.Score)}, start, end)
}

// placed returns a finding at bytes start to end of a reading. Its score depends on the
// reading: a guess may cause a hold but not a refusal, code that is displayed does not
// run, and what reads differently in the text as written was concealed.
func (sc *scratch) placed(v *normal.View, f memproxy.Finding, start, end int) memproxy.Finding {
	f.Start, f.End = v.Span(start, end)
	if v.Noisy {
		f.Score = min(f.Score, truncatedScore)
	}
	bonus, decoded := memproxy.PerMille(decodedBonus), v.Name != normal.Plain
	if f.Rule == RuleClassifier {
		bonus, decoded = hiddenBonus, false
	}
	switch {
	case v.Overt:
		lowerQuoted(&f, sc.code)
	case decoded || v.Altered(start, end):
		f.Score = min(memproxy.Full, f.Score+bonus)
	}
	return f
}

// RuleClassifier is the rule of the classifier's findings.
const RuleClassifier = "classify.window"

const minClassified = 150 // classifier scores below this are no finding

func (s *Screener) classifier(out []memproxy.Finding, v *normal.View, sc *scratch) []memproxy.Finding {
	if len(sc.words) == 0 {
		return out
	}
	sc.measure(s.pack.model)
	lift := s.lift(v, sc)
	best := s.worst(v, sc, lift)
	spans := []classify.Span{best}
	if s.pack.probability(float64(best.Margin)) >= s.pack.hold { // report every place over the threshold
		all := places(s.pack.model.WindowsAbove(sc.strides, len(sc.words), lift, s.pack.zero), sc)
		told := len(all)
		for _, one := range sc.dangerous {
			if !slices.ContainsFunc(all[:told], func(w classify.Span) bool { return w.Start <= one.Start && one.End <= w.End }) {
				all = append(all, one)
			}
		}
		if len(all) > 0 {
			spans = all
		}
	}
	for _, span := range spans {
		if f, ok := s.pack.classified(float64(span.Margin)); ok {
			out = append(out, sc.placed(v, f, int(sc.words[span.Start].Start), int(sc.words[span.End-1].End)))
		}
	}
	return out
}

// classified returns the classifier's finding for a margin, and whether its score reaches
// minClassified.
func (p *Pack) classified(margin float64) (memproxy.Finding, bool) {
	score := p.probability(margin)
	f := memproxy.Finding{Rule: RuleClassifier, Severity: severity(score, p), Score: memproxy.PerMille(score)}
	return f, score >= minClassified
}

// places filters spans, which are sorted by margin, highest first. It keeps those that
// are over zero without the margin of their part (lift), and the first of every part:
// lift raises every window of a part that contains a payload.
func places(spans []classify.Span, sc *scratch) []classify.Span {
	seen := map[int32]bool{}
	return slices.DeleteFunc(spans, func(sp classify.Span) bool {
		part := sc.words[sp.Start].Start / partBytes
		first := !seen[part]
		seen[part] = true
		return !first && sp.Margin-max(sc.lift[sp.Start/classify.Stride], sc.lift[(sp.End-1)/classify.Stride]) <= 0
	})
}

// minWhole is the minimum number of words of a part whose margin as a whole can raise the
// risk: the spelling of a bare address or name says little.
const minWhole = 5

// lift returns the margin of each part as a whole, for every classify.Stride words, and 0 where
// it makes no difference. A stride that overlaps two parts gets the higher margin.
func (s *Screener) lift(v *normal.View, sc *scratch) []float32 {
	sc.lift = sc.lift[:0]
	sc.part.clear() // it may have words of another reading
	parts(v.Text, sc.words, func(part string, words []directive.Word, first int) {
		from, to := first/classify.Stride, (first+len(words)-1)/classify.Stride
		margin := float32(0)
		if around := sc.strides[max(0, from-1):min(to+3, len(sc.strides))]; s.pack.model.BestWindow(around, len(sc.words), nil).Margin > s.pack.zero-s.pack.unlifted {
			sc.part.whole(part, words)
			margin = sc.part.margin(s.pack.whole) * s.pack.share
		}
		if len(words) < minWhole {
			margin = min(margin, 0)
		}
		if from < len(sc.lift) {
			sc.lift[from] = max(sc.lift[from], margin)
		}
		for len(sc.lift) <= to {
			sc.lift = append(sc.lift, margin)
		}
	})
	return sc.lift
}

// probability converts a margin to per mille with a logistic function: the pack's number
// "zero" gives 500, the hold threshold.
func (p *Pack) probability(margin float64) int {
	x := (margin*1000 - float64(p.weights["zero"])) / float64(p.weights["scale"])
	return int(1000 / (1 + math.Exp(-x)))
}

// worded reports whether a text has at least one letter for every four other visible
// characters. The classifier knows words and has nothing to say of digits and
// punctuation.
func worded(text string) bool {
	letters, others := 0, 0
	for i := 0; i < len(text) && letters*4 < others+len(text)-i; i++ {
		switch c := text[i]; {
		case c|0x20 >= 'a' && c|0x20 <= 'z', c >= utf8.RuneSelf:
			letters++
		case c > ' ':
			others++
		}
	}
	return letters*4 >= others
}

// settle sorts findings by position, and keeps the strongest of each rule and span. If
// there are more than maxFindings, the strongest finding of each rule is kept before
// further findings of that rule, so that a repeated match does not crowd out other
// evidence.
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
		seen := map[string]bool{}
		var first, again []memproxy.Finding
		for _, o := range f {
			if seen[o.Rule] {
				again = append(again, o)
			} else {
				seen[o.Rule] = true
				first = append(first, o)
			}
		}
		f = append(first, again...)
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
