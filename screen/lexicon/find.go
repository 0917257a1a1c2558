package lexicon

import (
	"cmp"
	"fmt"
	"slices"
)

const (
	// chunk is how much text is looked at to say where a pattern matched, and
	// overlap how much of it the next chunk sees again: expressions are short.
	chunk   = 1024
	overlap = 192
	// maxHits bounds the places that are told apart in one text. More of the
	// same would not change what is done.
	maxHits = 16
)

// Find returns where rules hold in text. Where they hold in more places than
// are told apart, the last hit reaches over all the rest, to the text's end.
// The error means that the text could not be judged; it is breakage, never
// "nothing found".
func (l *Lexicon) Find(text string) ([]Hit, error) {
	if l.set == nil || text == "" {
		return nil, nil
	}
	ids, err := l.set.FindAllStringWithError(text, -1)
	if err != nil {
		return nil, fmt.Errorf("lexicon: %w", err)
	}
	if len(ids) == 0 {
		return nil, nil
	}
	slices.Sort(ids)
	var hits []Hit
	for start := 0; start < len(text) && len(hits) < maxHits; start += chunk - overlap {
		end := min(len(text), start+chunk)
		here := ids
		if len(text) > chunk {
			if here, err = l.set.FindAllStringWithError(text[start:end], -1); err != nil {
				return nil, fmt.Errorf("lexicon: %w", err)
			}
			slices.Sort(here)
		}
		hits = l.inChunk(hits, text[start:end], start, here)
		if len(hits) >= maxHits {
			last := &hits[len(hits)-1]
			last.Start, last.End = min(last.Start, start), len(text)
		}
		if end == len(text) {
			break
		}
	}
	slices.SortFunc(hits, func(a, b Hit) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.End, b.End))
	})
	return slices.Compact(hits), nil
}

// inChunk adds the hits in one chunk of which the patterns ids match.
func (l *Lexicon) inChunk(hits []Hit, text string, at int, ids []int) []Hit {
	last := -1
	for _, id := range ids {
		ri := l.owner[id]
		if len(hits) >= maxHits {
			break
		}
		r := &l.Rules[ri]
		if r.Within > 0 {
			if ri == last {
				continue
			}
			last = ri
			for _, s := range r.near(text, ids) {
				hits = append(hits, Hit{ri, at + s[0], at + s[1]})
			}
			continue
		}
		for _, p := range r.parts {
			if p.id != id {
				continue
			}
			for _, m := range p.re.FindAllStringIndex(text, maxHits-len(hits)) {
				hits = append(hits, Hit{ri, at + m[0], at + m[1]})
			}
		}
	}
	return hits
}

// maxPlaces bounds the positions of one part that near compares.
const maxPlaces = 32

// near finds the places in which every part of the rule matches, each time the
// closest. Where a part matches in more places than are compared, the chunk is
// one place.
func (r *Rule) near(text string, ids []int) [][2]int {
	for _, p := range r.parts {
		if _, found := slices.BinarySearch(ids, p.id); !found {
			return nil
		}
	}
	crowded := false
	var spans [][2]int
	for i, p := range r.parts {
		places := p.re.FindAllStringIndex(text, maxPlaces)
		crowded = crowded || len(places) == maxPlaces
		if i == 0 {
			for _, q := range places {
				spans = append(spans, [2]int{q[0], q[1]})
			}
			continue
		}
		var wider [][2]int
		for _, s := range spans {
			best := [2]int{0, r.Within + 1}
			for _, q := range places {
				if lo, hi := min(s[0], q[0]), max(s[1], q[1]); hi-lo < best[1]-best[0] {
					best = [2]int{lo, hi}
				}
			}
			if best[1]-best[0] <= r.Within {
				wider = append(wider, best)
			}
		}
		spans = wider
	}
	if crowded && len(spans) > 0 {
		return [][2]int{{0, len(text)}}
	}
	return spans
}
