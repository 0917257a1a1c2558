package screen

import (
	"hash/maphash"
	"strings"

	"github.com/memproxy/memproxy/screen/classify"
	"github.com/memproxy/memproxy/screen/directive"
	"github.com/memproxy/memproxy/screen/normal"
)

// worst returns the window with the highest margin. Windows are scored in their part and,
// if the text has several sentences, also with each sentence alone and with neighbouring
// sentences as separate texts; in a Linked reading with each line alone. Benign prose
// around a payload then does not lower its score. A sentence alone has less evidence than
// one in context, so its margin is reduced, unless it differs from the text around it.
// sc.dangerous has the sentences over the threshold afterwards. The work ends when
// sc.judged exceeds sc.most: then the text was not read to its end.
func (s *Screener) worst(v *normal.View, sc *scratch, lift []float32) classify.Span {
	best := s.pack.model.BestWindow(sc.strides, len(sc.words), lift)
	sc.dangerous, sc.sentences = sc.dangerous[:0], sc.sentences[:0]
	linked, least, less := v.Name == normal.Linked, leastAlone, float32(s.pack.weights["apart"])/1000
	marks, most := ".!?\n", mostAlone
	switch {
	case linked:
		marks, most, least, less = "\n", len(sc.words), 1, 0
	case len(sc.words) < paragraph:
		return best
	}
	zero, all := s.pack.zero, sc.prefixes[len(sc.words)].Total
	alone := func(from, end int, less float32) (sentence, bool) {
		what := s.alone(v, sc, from, end, least)
		if end-from < least {
			return what, false
		}
		one := what.best
		rest := s.pack.model.Margin(all.Minus(what.Total))
		one.Margin -= less * max(0, min(steep, (rest-bland)/(middling-bland)))
		if one.Margin > best.Margin {
			best = one
		}
		if one.Margin >= zero {
			sc.dangerous = append(sc.dangerous, one)
		}
		return what, one.Margin >= zero
	}
	for from := 0; from < len(sc.words) && sc.judged <= sc.most; {
		end := passage(v.Text, sc.words, from, marks, most)
		what, found := alone(from, end, less)
		if !linked && !found {
			for k, cuts := from+1, 0; k < end && cuts < maxCuts && what.margin >= zero-hopeless; k++ {
				if begins(v.Text, sc.words, k) {
					_, before := alone(from, k, less)
					_, behind := alone(k, end, less)
					found = before || behind || found
					cuts++
				}
			}
		}
		sc.sentences = append(sc.sentences, what)
		sum, top := what.Total, what.margin
		for k := len(sc.sentences) - 2; !linked && !found && k >= 0; k-- {
			first := &sc.sentences[k]
			if end-first.from > mostTogether || len(sc.sentences)-k > mostSaid {
				break
			}
			sum, top = sum.Plus(first.Total), max(top, first.margin)
			if max(top, s.pack.model.Margin(sum)) >= zero-far {
				_, found = alone(first.from, end, less+lessForTwo*float32(len(sc.sentences)-1-k))
			}
		}
		if found {
			sc.sentences = sc.sentences[:0]
		}
		from = end
	}
	return best
}

// sentence is what scoring some words as a separate text gave. Its total is that of their
// features. Totals of several sentences add up to that of their concatenation, except for
// the features that cross from one into the next.
type sentence struct {
	classify.Total
	from   int           // index of its first word
	margin float32       // the highest of its windows
	best   classify.Span // that window, with the margin of the whole
}

// begins reports whether a sentence may begin at word i although no punctuation precedes
// it: prose after a payload may follow it without a full stop.
func begins(text string, words []directive.Word, i int) bool {
	first, before := text[words[i].Start], text[words[i-1].Start]
	return 'A' <= first && first <= 'Z' && words[i].Flags&directive.FlagCapitals == 0 && 'a' <= before && before <= 'z'
}

// alone scores words first to end as a separate text. The margin of the whole is added if
// there are at least least words and the windows are not far below zero. Words that
// several readings of the text have are scored once.
func (s *Screener) alone(v *normal.View, sc *scratch, first, end, least int) sentence {
	key := sc.key(v.Text, first, end, least)
	one, known := sc.scored[key]
	if !known {
		sc.judged += end - first
		apart := sc.isolate(s.pack.model, first, end)
		one.best = s.pack.model.BestWindow(apart, end-first, nil)
		one.Total, one.margin = apart[len(apart)-1], one.best.Margin
		if one.margin >= s.pack.zero-far && end-first >= least {
			sc.part.words(v.Text, sc.words, first, end)
			one.best.Margin += sc.part.margin(s.pack.whole) * s.pack.share
		}
		if sc.scored == nil {
			sc.scored = map[uint64]sentence{}
		}
		sc.scored[key] = one
	}
	one.from, one.best.Start, one.best.End = first, first+one.best.Start, first+one.best.End
	return one
}

var seed = maphash.MakeSeed()

// key identifies all that the score of words first to end of a text depends on. No words can
// be chosen to have the key of others.
func (sc *scratch) key(text string, first, end, least int) uint64 {
	h := maphash.String(seed, text[sc.words[first].Start:sc.words[end-1].End]) ^ uint64(least)
	for i := first; i < end; i++ {
		w := &sc.words[i]
		h = (h ^ w.Concepts.First ^ uint64(w.Flags)<<56) * 0x9e3779b97f4a7c15
		h ^= h >> 29
	}
	return h
}

const (
	paragraph = 16 // words of a text in which a payload may be buried: a shorter text is one sentence, mostly
	// The bounds, in words, of a sentence that is scored alone.
	leastAlone, mostAlone = 6, 48
	maxCuts               = 3  // bounds the positions within a sentence at which another may begin
	mostTogether          = 80 // bounds the words of sentences that are scored together
	mostSaid              = 16 // bounds the sentences that are scored together: 80 sentences of one word would be scored in every combination
	lessForTwo            = .4 // the reduction for each further sentence: among many combinations one resembles poison by chance
	// The reduction of a sentence's margin depends on the margin of the text around it:
	// none at bland, where that text is benign beyond doubt and the sentence stands out;
	// full at middling, where it is of the same kind; and at most steep times.
	bland, middling, steep = -11, -8, 1.1
	hopeless               = 6 // a sentence whose margin is this far below zero is not split
	// far is the distance below zero of a sentence's windows up to which its margin as a
	// whole is computed: that margin almost never makes up for more.
	far = 2.3
)

// passage returns the end of the sentence that begins at word i: the next word after a
// byte of marks that is not inside an address, or i+most.
func passage(text string, words []directive.Word, i int, marks string, most int) int {
	end := i + 1
	for end < len(words) && end-i < most && (text[words[end-1].End:words[end].Start] == " " || !strings.ContainsAny(text[words[end-1].End:words[end].Start], marks) || address(text, int(words[end].Start))) {
		end++
	}
	return end
}

const longAddress = 64 // bytes of a word in which signs of an address are looked for

// address reports whether text[i] continues a word that began as an address.
func address(text string, i int) bool {
	word := text[max(0, i-longAddress):i]
	word = word[strings.LastIndexAny(word, " \n\t\"(<")+1:]
	return strings.Contains(word, "@") || strings.HasPrefix(word, "www.")
}
