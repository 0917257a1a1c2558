// Package likeness compares the sentences of a text with known attacks by their words:
// layer 2 of the memory firewall without a model. The score is a cosine similarity of
// weighted words and word pairs.
//
// Invariants: the work is linear in the text, every sentence is compared, and exemplars by
// which harmless sentences are taken for attacks are refused.
package likeness

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/screen/similar"
	"github.com/memproxy/memproxy/screen/terms"
)

// Options set up an Index.
type Options struct {
	Exemplars []similar.Exemplar
	// Harmless are sentences that are no attack from any source. New fails if one is over
	// the threshold for hostile sources.
	Harmless []string
}

// Index is a set of exemplars. It is immutable and safe for concurrent use.
type Index struct {
	exemplars []similar.Exemplar
	by        terms.Table[[]posting] // the exemplars that have a feature, by its hash
	aims      []bool                 // whether an exemplar names an address, which is its point
	scratch   sync.Pool              // of *scratch
}

type posting struct {
	exemplar int32
	weight   float32
}

// scratch is the reusable memory of a match. Counts and sums are zero between two
// sentences and between two matches.
type scratch struct {
	counts []uint8   // per exemplar: significant words in common, up to minShared
	sums   []float32 // per exemplar: the likeness
	vector
	words []token // of the current sentence
	pair  []token // of the previous sentence, then of both
}

// minShared is the number of significant words that similar sentences must share: many
// mails share an address and a word. Sentences with a likeness of at least nearlyTheSame
// need one less.
const (
	minShared     = 3
	nearlyTheSame = 0.85
)

// thresholds are fitted to this measure: no harmless row of the development data is over the
// one for untrusted sources.
var thresholds = similar.Thresholds{Trusted: 850, Verified: 750, Untrusted: 600, Hostile: 500}

// New returns the index of the exemplars. It fails without exemplars, for an exemplar
// without words, and for one that a harmless sentence is too similar to.
func New(o Options) (*Index, error) {
	if len(o.Exemplars) == 0 {
		return nil, errors.New("likeness: no exemplars")
	}
	x := &Index{exemplars: slices.Clone(o.Exemplars)}
	var v vector
	for i, e := range x.exemplars {
		words := tokens(nil, strings.ToLower(e.Text))
		x.aims = append(x.aims, aims(words))
		if v.fill(words); len(v.features) == 0 {
			return nil, fmt.Errorf("likeness: exemplar %d has no words", i)
		}
		for _, f := range v.features {
			at := x.by.At(f.hash)
			*at = append(*at, posting{int32(i), f.weight})
		}
	}
	for _, text := range o.Harmless {
		if m := x.Match(text, memproxy.SourceHostile); m.OverThreshold() {
			return nil, fmt.Errorf("likeness: an exemplar of the family %q is too general: a harmless sentence scores %d, with a threshold of %d for hostile sources: %.60q", m.Family, m.Score, m.Threshold, text)
		}
	}
	return x, nil
}

// Threshold returns the score from which a match counts for a source.
func Threshold(source memproxy.Source) memproxy.PerMille { return thresholds.For(source) }

// Match returns the best match of a sentence of the text, or of two consecutive ones,
// whether over the threshold or not.
func (x *Index) Match(text string, source memproxy.Source) similar.Match {
	m, _ := x.match(text, source)
	return m
}

// match also returns its work: the number of words it compared, each time it did.
func (x *Index) match(text string, source memproxy.Source) (best similar.Match, work int) {
	best = similar.Match{Threshold: Threshold(source)}
	with, ok := x.scratch.Get().(*scratch)
	if !ok {
		with = &scratch{counts: make([]uint8, len(x.exemplars)), sums: make([]float32, len(x.exemplars))}
	}
	with.pair = with.pair[:0]
	before, lower, plain := 0, text, terms.ASCII(text) // before: where the previous sentence begins
	if plain {
		lower = strings.ToLower(text) // once for all sentences: lower case keeps the offsets of ASCII
	}
	for from, to := range terms.Sentences(text, terms.ClauseMarks, " \n\t\"')", maxSentence) {
		sentence := lower[from:to]
		if !strings.ContainsFunc(sentence, unicode.IsLetter) {
			continue
		}
		if !plain {
			sentence = strings.ToLower(sentence)
		}
		with.words = tokens(with.words[:0], sentence)
		x.compare(&best, with.words, span{from, to}, with)
		work += len(with.words)
		if n := len(with.pair); n > 0 && n+len(with.words) <= maxPair {
			with.pair = append(with.pair, with.words...)
			x.compare(&best, with.pair, span{before, to}, with)
			work += len(with.pair)
		}
		with.words, with.pair, before = with.pair, with.words, from
	}
	x.scratch.Put(with)
	return best, work
}

const aimless = 0.7 // factor for a sentence without an address, for exemplars that name one

// address is the hash that stands for every address.
var address = terms.HashWord("\x00address")

func aims(words []token) bool {
	return slices.ContainsFunc(words, func(t token) bool { return t.hash == address })
}

const maxPair = 30 // the most words of two sentences that are compared as one

// near reports whether any exemplar shares enough words to be compared in full, which is
// rare. Counts are zero before and after.
func (x *Index) near(words []token, counts []uint8) bool {
	found := false
	for _, t := range words {
		if t.telling {
			for _, p := range x.by.Get(t.hash) {
				counts[p.exemplar] = min(counts[p.exemplar]+1, minShared)
				found = found || counts[p.exemplar] >= minShared-1
			}
		}
	}
	clear(counts)
	return found
}

// compare replaces best with the match of a sentence if it is better.
func (x *Index) compare(best *similar.Match, words []token, s span, with *scratch) {
	if !x.near(words, with.counts) {
		return
	}
	with.fill(words)
	for _, f := range with.features {
		for _, p := range x.by.Get(f.hash) {
			with.sums[p.exemplar] += f.weight * p.weight
			if f.telling {
				with.counts[p.exemplar] = min(with.counts[p.exemplar]+1, minShared)
			}
		}
	}
	aimed := aims(words)
	for i, sum := range with.sums {
		if x.aims[i] && !aimed {
			sum *= aimless
		}
		if shared := with.counts[i]; shared < minShared && (shared < minShared-1 || sum < nearlyTheSame) {
			continue
		}
		score := memproxy.PerMille(math.Round(float64(min(sum, 1)) * 1000))
		if score > best.Score {
			best.Score, best.Family, best.Start, best.End = score, x.exemplars[i].Family, s.from, s.to
		}
	}
	clear(with.sums)
	clear(with.counts)
}

type span struct{ from, to int }

const maxSentence = 400 // the longest sentence in bytes: text without full stops is cut

// between are the ASCII characters that separate words, and edges those that are trimmed
// from the ends of a word.
var between, edges = terms.BytesOf("\t\n\v\f\r ,;:!?()[]{}\""), terms.BytesOf(".'`*_<>-")

// token is a word of a sentence, or a pair of words.
type token struct {
	hash    uint32
	weight  float32
	telling bool // a single significant word that is no address
}

// tokens appends the words of a sentence in lower case. All addresses become the same
// token.
func tokens(dst []token, s string) []token {
	for i := 0; i < len(s); {
		from, n, marked := i, 0, false // marked: has a character of addresses
		for ; i < len(s); i += n {
			c := s[i]
			if n = 1; c < utf8.RuneSelf {
				if between[c] {
					break
				}
				marked = marked || c == '@' || c == '.'
			} else {
				var r rune
				if r, n = utf8.DecodeRuneInString(s[i:]); r == '“' || r == '”' || unicode.IsSpace(r) {
					break
				}
			}
		}
		w := s[from:i]
		i += n // skip the separator
		w = w[edges.End(w, 0):]
		w = w[:edges.Begin(w, len(w))]
		if w == "" {
			continue
		}
		t := token{hash: terms.HashWord(w), weight: 1}
		switch {
		case marked && (strings.IndexByte(w, '@') >= 0 || terms.IsAddress(w)):
			t.hash = address
		case light.Get(t.hash):
			t.weight = 0.25
		default:
			t.telling = true
			if s := stem(w); len(s) < len(w) {
				t.hash = terms.HashWord(s)
			}
		}
		dst = append(dst, t)
	}
	return dst
}

// vector has the features of a sentence, its words and pairs of neighbours, each once and
// sorted by hash. The weights are normalised to length one.
type vector struct {
	features []token
	all      []token  // with duplicates
	order    []uint64 // the hash of each, followed by its index in all
}

// fill sets v to the vector of a sentence with these words.
func (v *vector) fill(words []token) {
	v.all, v.order, v.features = v.all[:0], v.order[:0], v.features[:0]
	add := func(t token) {
		v.order = append(v.order, uint64(t.hash)<<32|uint64(len(v.all)))
		v.all = append(v.all, t)
	}
	for i, t := range words {
		add(t)
		if i > 0 {
			add(token{words[i-1].hash*31 ^ t.hash, t.weight / 2, false})
		}
	}
	slices.Sort(v.order)
	for _, at := range v.order {
		f := v.all[uint32(at)]
		if n := len(v.features); n > 0 && v.features[n-1].hash == f.hash {
			v.features[n-1].weight += f.weight
			continue
		}
		v.features = append(v.features, f)
	}
	sum := 0.0
	for _, f := range v.features {
		sum += float64(f.weight) * float64(f.weight)
	}
	length := float32(math.Sqrt(sum))
	for i := range v.features {
		v.features[i].weight /= length
	}
}

// light are words of little significance.
var light = func() (all terms.Table[bool]) {
	for w := range strings.FieldsSeq(`a an the to of in on at by for from with without into and or but is are was be been it its this that these those as if then so
	user users user's you your i my me we our they their them he she his her will would can could should may might do does did not no has have had all any
	some when where which who what how there here about just also now please`) {
		*all.At(terms.HashWord(w)) = true
	}
	return all
}()

// stem removes the most common endings.
func stem(w string) string {
	if strings.IndexByte("gnsde", w[len(w)-1]) < 0 {
		return w // most words have none
	}
	for _, end := range [...]string{"ing", "ions", "ion", "ed", "es", "s", "e"} {
		if rest, ok := strings.CutSuffix(w, end); ok && len(rest) > 3 {
			return rest
		}
	}
	return w
}
