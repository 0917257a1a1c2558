package screen

import (
	"strings"

	"github.com/memproxy/memproxy/screen/classify"
	"github.com/memproxy/memproxy/screen/directive"
	"github.com/memproxy/memproxy/screen/normal"
)

// worst is the window that is most like poison: in its part, or, in a text of
// several sentences, one by itself or with those around it, and in links a line.
// Whatever harmless prose somebody puts around it says nothing about it then. A
// sentence by itself says less than one in its place, and weighs less, unless it
// stands out. The scratch has those that are dangerous afterwards.
func (s *Screener) worst(v *normal.View, sc *scratch, lift []float32) classify.Span {
	best := s.pack.model.Score(sc.strides, len(sc.words), lift)
	sc.sentences, sc.said, sc.judged = sc.sentences[:0], sc.said[:0], 0
	linked, least, less := v.Name == normal.Linked, leastAlone, float32(s.pack.weights["apart"])/1000
	marks, most := ".!?\n", mostAlone
	switch {
	case linked:
		marks, most, least, less = "\n", len(sc.words), 1, 0
	case len(sc.words) < paragraph:
		return best
	}
	zero, all := s.pack.zero, sc.places[len(sc.words)].Total
	alone := func(from, end int, less float32) (said, bool) {
		what, one := s.alone(v, sc, from, end, least)
		if end-from < least {
			return what, false
		}
		rest := s.pack.model.Margin(all.Less(what.Total))
		one.Margin -= less * max(0, min(steep, (rest-bland)/(middling-bland)))
		if one.Margin > best.Margin {
			best = one
		}
		if one.Margin >= zero {
			sc.sentences = append(sc.sentences, one)
		}
		return what, one.Margin >= zero
	}
	for from := 0; from < len(sc.words); {
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
		sc.said = append(sc.said, what)
		sum, top := what.Total, what.margin
		for k := len(sc.said) - 2; !linked && !found && k >= 0; k-- {
			first := &sc.said[k]
			if end-first.from > mostTogether || len(sc.said)-k > mostSaid {
				break
			}
			sum, top = sum.Plus(first.Total), max(top, first.margin)
			if max(top, s.pack.model.Margin(sum)) >= zero-far {
				_, found = alone(first.from, end, less+lessForTwo*float32(len(sc.said)-1-k))
			}
		}
		if found {
			sc.said = sc.said[:0]
		}
		from = end
	}
	return best
}

// said is what the words of a sentence weigh: those of several add up to what they
// say together, but for what the last of one says with the first of the next.
type said struct {
	classify.Total
	from   int     // its first word
	margin float32 // of its windows
}

// begins reports whether a sentence may begin with word i although no mark stands
// before it: prose around a payload that ends without one runs on from it.
func begins(text string, words []directive.Word, i int) bool {
	first, before := text[words[i].Start], text[words[i-1].Start]
	return 'A' <= first && first <= 'Z' && words[i].Flags&directive.Capital == 0 && 'a' <= before && before <= 'z'
}

// alone is what the words from first to end are by themselves, the whole of them only
// where they are at least so many.
func (s *Screener) alone(v *normal.View, sc *scratch, first, end, least int) (said, classify.Span) {
	sc.judged += end - first
	apart := sc.apart(s.pack.model, first, end)
	one := s.pack.model.Score(apart, end-first, nil)
	what := said{apart[len(apart)-1], first, one.Margin}
	one.Start, one.End = first+one.Start, first+one.End
	if one.Margin < s.pack.zero-far || end-first < least {
		return what, one
	}
	sc.part.words(v.Text, sc.words, first, end)
	one.Margin += sc.part.margin(s.pack.whole) * s.pack.share
	return what, one
}

const (
	paragraph = 16 // how many words a text has in which something may be buried: fewer are one sentence, mostly
	// A sentence that is judged alone has so many words.
	leastAlone, mostAlone = 6, 48
	maxCuts               = 3  // bounds the places of a sentence at which another may begin
	mostTogether          = 80 // how many words sentences have that are judged together
	mostSaid              = 16 // how many sentences are: of a word each, 80 would be judged in every stretch of them
	lessForTwo            = .4 // how much less several sentences weigh than one: any of them are more like poison, here and there, than any one
	// The margin of what stands around them, where that is harmless beyond doubt, and
	// where it is of their kind: they stand out in one, and weigh less in the other, the
	// more so the more of it there is.
	bland, middling, steep = -11, -8, 1.1
	hopeless               = 6 // how far below zero the margin of a sentence is that is judged neither in parts nor with the next
	// far is how much less than zero the windows of a sentence may say that the
	// whole of it is asked: it makes up for more in next to none.
	far = 2.3
)

// passage is where the words from i on end before which a byte of marks stands, and
// not in an address: at most so many.
func passage(text string, words []directive.Word, i int, marks string, most int) int {
	end := i + 1
	for end < len(words) && end-i < most && (!strings.ContainsAny(text[words[end-1].End:words[end].Start], marks) || address(text, int(words[end].Start))) {
		end++
	}
	return end
}

const longAddress = 64 // how much of a word is looked at for signs of an address

// address reports whether the word in which text[i] stands began as an address, and
// goes on there.
func address(text string, i int) bool {
	word := text[max(0, i-longAddress):i]
	word = word[strings.LastIndexAny(word, " \n\t\"(<")+1:]
	return strings.Contains(word, "@") || strings.HasPrefix(word, "www.")
}
