package similar

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/screen/terms"
)

// An Embedder returns one vector for each text, in order, all of one length. Similar
// texts have vectors in similar directions; a zero vector is similar to nothing. On an
// error there are no partial results. Implementations must be safe for concurrent use and
// have a deadline of their own. The vectors belong to the Embedder: callers must not
// modify them.
type Embedder interface {
	Embed(ctx context.Context, texts []string) ([][]float32, error)
}

// Exemplar is a known attack.
type Exemplar struct {
	Text string
	// Family groups exemplars in reports: "override", "exfiltration".
	Family string
}

// Thresholds are the scores from which a match counts, by the trust of the text's source.
// The less a source is trusted, the lower its threshold.
type Thresholds struct {
	Trusted, Verified, Untrusted, Hostile memproxy.PerMille
}

// DefaultThresholds returns the thresholds of the memory firewall literature.
func DefaultThresholds() Thresholds {
	return Thresholds{Trusted: 850, Verified: 750, Untrusted: 600, Hostile: 450}
}

// Check returns an error if a threshold is out of range, or higher for a less trusted
// source.
func (t Thresholds) Check() error {
	for _, n := range []memproxy.PerMille{t.Trusted, t.Verified, t.Untrusted, t.Hostile} {
		if n <= 0 || n > memproxy.Full {
			return fmt.Errorf("threshold %d is out of range, want 1 to 1000", n)
		}
	}
	if t.Trusted < t.Verified || t.Verified < t.Untrusted || t.Untrusted < t.Hostile {
		return errors.New("thresholds must not increase with less trusted sources: want trusted >= verified >= untrusted >= hostile")
	}
	return nil
}

// ErrUnfitted means that thresholds do not fit the measure in use: harmless texts are
// over them.
var ErrUnfitted = errors.New("the thresholds are too low")

// For returns the threshold for a source. An unstated or unknown source counts as
// untrusted.
func (t Thresholds) For(s memproxy.Source) memproxy.PerMille {
	switch s {
	case memproxy.SourceTrusted:
		return t.Trusted
	case memproxy.SourceVerified:
		return t.Verified
	case memproxy.SourceHostile:
		return t.Hostile
	}
	return t.Untrusted
}

// Options set up an Index.
type Options struct {
	Embedder  Embedder
	Exemplars []Exemplar
	// Thresholds default to DefaultThresholds when zero.
	Thresholds Thresholds
	// Harmless are texts that are no attack. Cosines of different models are not
	// comparable: New fails if one of these is over the threshold for untrusted sources.
	Harmless []string
}

const (
	windowSize = 320 // bytes of a window
	maxWindows = 32  // windows of one text that are compared, evenly spread over a longer one
)

// Index is a set of exemplars. It is immutable and safe for concurrent use.
type Index struct {
	opts    Options
	vectors [][]float32 // normalised to length one
}

// Match is the best match of a text.
type Match struct {
	Family    string // of the exemplar; "" if there is none, because the text is empty
	Score     memproxy.PerMille
	Threshold memproxy.PerMille
	Start     int // the window that matched, bytes of the text
	End       int
}

// OverThreshold reports whether the match counts.
func (m Match) OverThreshold() bool { return m.Family != "" && m.Score >= m.Threshold }

// New embeds the exemplars. It fails if an option is out of range, the embedder fails,
// the vector of an exemplar is zero, or the thresholds do not fit.
func New(ctx context.Context, o Options) (*Index, error) {
	if o.Embedder == nil {
		return nil, errors.New("similar: an embedder is required")
	}
	if len(o.Exemplars) == 0 {
		return nil, errors.New("similar: exemplars are required")
	}
	if o.Thresholds == (Thresholds{}) {
		o.Thresholds = DefaultThresholds()
	}
	if err := o.Thresholds.Check(); err != nil {
		return nil, fmt.Errorf("similar: %w", err)
	}
	texts := make([]string, len(o.Exemplars))
	for i, e := range o.Exemplars {
		texts[i] = e.Text
	}
	vectors, err := embed(ctx, o.Embedder, texts)
	if err != nil {
		return nil, err
	}
	for i, v := range vectors {
		if len(v) != len(vectors[0]) || dot(v, v) == 0 {
			return nil, fmt.Errorf("similar: the vector of exemplar %d is empty, zero, or of a different length", i)
		}
	}
	x := &Index{opts: o, vectors: vectors}
	for _, text := range o.Harmless {
		m, err := x.Match(ctx, text, memproxy.SourceUntrusted)
		if err != nil {
			return nil, err
		}
		if m.OverThreshold() {
			return nil, fmt.Errorf("similar: %w for this embedding model: a harmless text scores %d, with a threshold of %d: %.60q", ErrUnfitted, m.Score, m.Threshold, text)
		}
	}
	return x, nil
}

// Match returns the best match of text, whether over the threshold or not. An error is
// the embedder's.
func (x *Index) Match(ctx context.Context, text string, source memproxy.Source) (Match, error) {
	best := Match{Threshold: x.opts.Thresholds.For(source)}
	spans := windows(text, windowSize, maxWindows)
	if len(spans) == 0 {
		return best, nil
	}
	texts := make([]string, len(spans))
	for i, s := range spans {
		texts[i] = text[s.from:s.to]
	}
	vectors, err := embed(ctx, x.opts.Embedder, texts)
	if err != nil {
		return Match{}, err
	}
	top := float32(math.Inf(-1))
	for i, v := range vectors {
		if len(v) != len(x.vectors[0]) {
			return Match{}, fmt.Errorf("similar: a vector of %d dimensions, the exemplars have %d", len(v), len(x.vectors[0]))
		}
		for k, e := range x.vectors {
			if d := dot(v, e); d > top {
				top = d
				best.Family, best.Start, best.End = x.opts.Exemplars[k].Family, spans[i].from, spans[i].to
			}
		}
	}
	best.Score = memproxy.PerMille(math.Round(float64(min(max(top, 0), 1)) * 1000))
	return best, nil
}

// embed calls the embedder, checks that there is a vector for every text, and returns
// normalised copies.
func embed(ctx context.Context, e Embedder, texts []string) ([][]float32, error) {
	vectors, err := e.Embed(ctx, texts)
	if err != nil {
		return nil, fmt.Errorf("similar: %w", err)
	}
	if len(vectors) != len(texts) {
		return nil, fmt.Errorf("similar: %d vectors for %d texts", len(vectors), len(texts))
	}
	out := make([][]float32, len(vectors))
	for i, v := range vectors {
		if out[i], err = normal(v); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// normal returns v normalised to length one, or a copy of a zero vector.
func normal(v []float32) ([]float32, error) {
	sum := 0.0
	for _, f := range v {
		sum += float64(f) * float64(f)
	}
	if math.IsNaN(sum) || math.IsInf(sum, 0) {
		return nil, errors.New("similar: a vector is not finite")
	}
	out := make([]float32, len(v))
	if sum == 0 {
		return out, nil
	}
	scale := 1 / math.Sqrt(sum)
	for i, f := range v {
		out[i] = float32(float64(f) * scale)
	}
	return out, nil
}

func dot(a, b []float32) float32 {
	sum := float32(0)
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}

type span struct{ from, to int }

// windows splits text into spans of at most size bytes: at the ends of sentences if
// possible, else between words, else between characters. If there are more than limit, it
// returns limit of them, evenly spread, including the first and the last; limit must be
// at least 2.
func windows(text string, size, limit int) []span {
	var out []span
	for from := 0; from < len(text); {
		head := terms.Truncate(text[from:], size)
		to := from + len(head)
		if to < len(text) {
			to = from + cut(head)
		}
		if strings.ContainsFunc(text[from:to], func(r rune) bool { return !unicode.IsSpace(r) }) {
			out = append(out, span{from, to})
		}
		from = to
	}
	if len(out) <= limit {
		return out
	}
	picked := make([]span, limit)
	for i := range picked {
		picked[i] = out[i*(len(out)-1)/(limit-1)]
	}
	return picked
}

// cut returns the end of a window in s: after its last sentence, or else its last word,
// if that keeps a quarter of s; else at its end.
func cut(s string) int {
	if at := strings.LastIndexAny(s, ".!?\n。！？"); at >= len(s)/4 {
		_, n := utf8.DecodeRuneInString(s[at:])
		return at + n
	}
	if at := strings.LastIndexByte(s, ' '); at >= len(s)/4 {
		return at + 1
	}
	return len(s)
}
