package lexicon

import (
	"cmp"
	"slices"
)

// maxHits bounds the reported matches of one rule in a text. More of the same would not
// change the outcome.
const maxHits = 16

type span struct{ from, to int }

// stretches is the state of one search: the ends of the literals of each part, then the spans
// in which it may match, and the parts that have any. Most parts have none in most texts.
type stretches struct {
	around [][]span // by part
	parts  []int
	rules  []int // number of its parts with spans, by rule
}

func (st *stretches) clear(l *Lexicon) {
	for _, part := range st.parts {
		st.around[part], st.rules[l.parts[part].rule] = st.around[part][:0], 0
	}
	st.parts = st.parts[:0]
}

// Find returns the matches of all rules in text, in order. If a rule has more than
// maxHits matches, its last hit extends to the end of the text.
func (l *Lexicon) Find(text string) []Hit {
	var st *stretches
	near := false // whether the rarest part of a "near" rule may match
	add := func(lit *literal, end int) {
		for _, e := range lit.ends {
			if _, ok := follows(text[end:], e.rest); !ok {
				continue
			}
			if st == nil {
				st = l.stretches.Get().(*stretches)
			}
			around, p := &st.around[e.part], &l.parts[e.part]
			if len(*around) == 0 {
				st.parts = append(st.parts, e.part)
				st.rules[p.rule]++
				near = near || p.near
			}
			*around = join(*around, span{end, end})
		}
	}
	if l.rarest.scan(text, add); st == nil {
		return nil
	}
	defer l.stretches.Put(st)
	defer st.clear(l)
	if near {
		l.nearby.scan(text, add)
	}
	var hits []Hit
	for ri, n := range st.rules {
		r := &l.Rules[ri]
		if n == 0 || r.Within > 0 && n < len(r.parts) {
			continue
		}
		around := st.around[r.first : r.first+len(r.parts)]
		for i := range around {
			around[i] = r.parts[i].reach(text, around[i])
		}
		if r.Within > 0 {
			r.together(around)
		}
		hits = r.hits(hits, ri, text, func(i int) []span { return r.parts[i].matches(text, around[i]) })
	}
	return sorted(hits)
}

// together keeps those spans of each part that have a span of every other part within the
// rule's distance.
func (r *Rule) together(parts [][]span) {
	for i := range parts {
		for j, others := range parts {
			if i == j {
				continue
			}
			parts[i] = slices.DeleteFunc(parts[i], func(s span) bool {
				at, _ := slices.BinarySearchFunc(others, s.from-r.Within, func(o span, from int) int { return cmp.Compare(o.to, from) })
				return at == len(others) || others[at].from > s.to+r.Within
			})
		}
	}
}

// matches returns the matches of a part in the spans around its literals, only the first
// ones if more cannot change the rule's hits. A match that touches the edge of its span
// is ignored: the cut made it, since no true match reaches so far from its literal.
func (p *part) matches(text string, around []span) []span {
	var out []span
	for _, in := range around {
		most := -1
		if !p.near {
			most = maxHits + 3 - len(out)
			if len(out) > maxHits { // two may touch an edge
				break
			}
		}
		if !p.any().in(text[in.from:in.to]) {
			continue
		}
		for _, m := range p.re.FindAllStringIndex(text[in.from:in.to], most) {
			m := span{in.from + m[0], in.from + m[1]}
			if (m.from > in.from || in.from == 0) && (m.to < in.to || in.to == len(text)) {
				out = append(out, m)
			}
		}
	}
	return out
}

// hits appends the hits of a rule, computed from the matches of its parts.
func (r *Rule) hits(hits []Hit, ri int, text string, matches func(i int) []span) []Hit {
	var found []span
	for i := range r.parts {
		own := matches(i)
		switch {
		case r.Within == 0:
			found = append(found, own...)
		case i == 0:
			found = own
		default:
			found = r.near(found, own)
		}
		if r.Within > 0 && len(found) == 0 {
			break
		}
	}
	slices.SortFunc(found, func(a, b span) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to)) })
	found = slices.Compact(found)
	if len(found) > maxHits {
		found = found[:maxHits]
		found[maxHits-1].to = len(text)
	}
	for _, s := range found {
		hits = append(hits, Hit{ri, s.from, s.to})
	}
	return hits
}

func sorted(hits []Hit) []Hit {
	slices.SortFunc(hits, func(a, b Hit) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.End, b.End))
	})
	return hits
}

// near extends each span to the closest match of one more part, and drops spans that have
// none within the rule's distance. places is sorted.
func (r *Rule) near(spans, places []span) []span {
	var wider []span
	for _, s := range spans {
		from, _ := slices.BinarySearchFunc(places, s.to-r.Within, func(p span, at int) int { return cmp.Compare(p.from, at) })
		best := span{0, r.Within + 1}
		for _, p := range places[from:] {
			if p.from > s.from+r.Within {
				break
			}
			if at := (span{min(s.from, p.from), max(s.to, p.to)}); at.to-at.from < best.to-best.from {
				best = at
			}
		}
		if best.to-best.from <= r.Within {
			wider = append(wider, best)
		}
	}
	return wider
}
