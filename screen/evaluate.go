package screen

import (
	"math"
	"slices"

	"github.com/memproxy/memproxy/screen/classify"
	"github.com/memproxy/memproxy/screen/directive"
	"github.com/memproxy/memproxy/screen/normal"
)

// Margin returns the classifier's highest margin over all readings of a text, for
// evaluation. It is -Inf if there is nothing to classify.
func (s *Screener) Margin(text string) float64 {
	sc := begin(text)
	defer pool.Put(sc)
	reading := normal.Read(text)
	worst := math.Inf(-1)
	for i := range reading.Views {
		v := &reading.Views[i]
		if v.Noisy {
			continue
		}
		if s.pack.read(v, sc, nil); len(sc.words) == 0 {
			continue
		}
		sc.measure(s.pack.model)
		worst = max(worst, float64(s.worst(v, sc, s.lift(v, sc)).Margin))
	}
	return worst
}

// WithMargin returns the report for a text from the findings of a Screener without the
// classifier and the margin that another model gave. length is that of the text in bytes.
// The bonus for hidden readings is in the other findings only.
func (s *Screener) WithMargin(others Report, margin float64, length int) Report {
	findings := slices.Clip(others.Findings)
	if f, ok := s.pack.classified(margin); ok {
		f.End = length
		findings = append(findings, f)
	}
	return s.ReportOf(findings, "", "")
}

// Sample has the classifier's training features of a text, all readings together. Windows
// are for the model of windows; readings are spaced so that no window spans two of them.
// Whole are for the model of whole texts; Parts has the index in Whole at which each part
// ends.
type Sample struct {
	Words          int
	Windows, Whole []classify.Feature
	Parts          []int32
}

// Sample returns the training features of a text.
func (p *Pack) Sample(text string) (s Sample) {
	var sc scratch
	r := normal.Read(text)
	for i := range r.Views {
		if r.Views[i].Noisy {
			continue
		}
		if i > 0 {
			s.Words = (s.Words/classify.Stride + 3) * classify.Stride
		}
		sc.words = p.vocabulary.Read(sc.words[:0], r.Views[i].Text)
		last := noPrevious
		for i := range sc.words {
			for _, h := range last.features(&sc, 0, i) {
				s.Windows = append(s.Windows, classify.Feature{Hash: h, At: int32(s.Words + i)})
			}
		}
		s.Words += len(sc.words)
		parts(r.Views[i].Text, sc.words, func(t string, words []directive.Word, _ int) {
			sc.part.whole(t, words)
			for _, h := range sc.part.list {
				s.Whole = append(s.Whole, classify.Feature{Hash: h})
			}
			s.Parts = append(s.Parts, int32(len(s.Whole)))
		})
	}
	return s
}

// WithModels returns a copy of the pack with another classifier: an encoded model of
// windows, and one of whole texts.
func (p *Pack) WithModels(windows, whole []byte) (*Pack, error) {
	q := *p
	return &q, q.models(string(windows), string(whole))
}
