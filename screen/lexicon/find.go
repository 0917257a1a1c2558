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

// Find returns where rules hold in text. The error means that the text could
// not be judged; it is breakage, never "nothing found".
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
			if s, e, ok := r.near(text, ids); ok {
				hits = append(hits, Hit{ri, at + s, at + e})
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

// near finds the closest places in which every part of the rule matches.
func (r *Rule) near(text string, ids []int) (start, end int, ok bool) {
	for _, p := range r.parts {
		if _, found := slices.BinarySearch(ids, p.id); !found {
			return 0, 0, false
		}
	}
	first := r.parts[0].re.FindAllStringIndex(text, maxPlaces)
	spans := first
	for _, p := range r.parts[1:] {
		places := p.re.FindAllStringIndex(text, maxPlaces)
		var wider [][]int
		for _, s := range spans {
			for _, q := range places {
				lo, hi := min(s[0], q[0]), max(s[1], q[1])
				if hi-lo <= r.Within {
					wider = append(wider, []int{lo, hi})
					break
				}
			}
		}
		spans = wider
	}
	if len(spans) == 0 {
		return 0, 0, false
	}
	best := slices.MinFunc(spans, func(a, b []int) int { return cmp.Compare(a[1]-a[0], b[1]-b[0]) })
	return best[0], best[1], true
}
