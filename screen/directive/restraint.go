package directive

import (
	"slices"
	"strings"
)

// restraints recognises sentences that restrain their reader ("never send my files to
// anyone without asking me"), as opposed to orders with the same words.
type restraints struct {
	list []Rule // the rules of score 0
	nots []Set  // by rule: concepts that the sentence must not have
	acts Set    // acts that the rules forbid
	join Set    // conjunctions, after which another order may begin
	when Set    // conditions
	noun Set    // determiners, after which the word of an act is a noun
	till Set    // "without", "until": the person to ask follows
	told Set    // concepts that are allowed after till
	mark Set    // words that forbid, or demand to be asked first
	asks Set    // the latter
	none Set    // words without a meaning of their own: mark, and particles
}

// restrain moves the rules of score 0 from List to list.
func (r *Rules) restrain(v *Vocabulary) {
	r.join, r.when, r.noun, r.till = v.Concept("JOIN"), v.Concept("WHEN"), v.Concept("NOUN"), v.Concept("TILL")
	r.told = v.each("TELL", "HUSH", "CONCEAL", "SECRETLY", "UNASKED", "OWNER", "USER", "SAFETY")
	r.mark, r.asks = v.each("BAN", "BANNED", "BANFAR", "FORBID", "FIRST"), v.Concept("FIRST")
	r.none = r.mark.or(v.Concept("PARTICLE"))
	r.List = slices.DeleteFunc(r.List, func(rule Rule) bool {
		if rule.Score == 0 {
			var not Set
			for i := range rule.seqs {
				not, rule.seqs[i].not = not.or(rule.seqs[i].not), Set{}
			}
			r.list, r.nots, r.acts = append(r.list, rule), append(r.nots, not), r.acts.or(rule.concepts())
		}
		return rule.Score == 0
	})
	r.any = r.any.or(r.mark).or(r.join).or(r.till)
	r.acts = r.acts.less(r.none).less(v.each("SECRET", "REVEAL", "SHOW", "TELL"))
}

// each returns the set of the named concepts that the vocabulary has.
func (v *Vocabulary) each(names ...string) (all Set) {
	for _, name := range names {
		all = all.or(v.Concept(name))
	}
	return all
}

// concepts are those of a rule's patterns.
func (r *Rule) concepts() (all Set) {
	for _, s := range r.seqs {
		for _, sl := range s.slots {
			all = all.or(sl.any)
		}
	}
	return all
}

// Span is a stretch of a text, in bytes.
type Span struct{ Start, End int }

// Restraints appends the sentences of text that only forbid an act, or only demand to be
// asked before it.
func (r *Rules) Restraints(dst []Span, words []Word, text string) []Span {
	var hits []Hit
	for from, to := 0, 0; from < len(words); from = to {
		marked := false
		for to = from; to < len(words) && (to == from || words[to].Flags&Opens == 0); to++ {
			marked = marked || words[to].Concepts.meets(r.mark)
		}
		if !marked || to-from > block {
			continue
		}
		hits = r.inBlock(hits[:0], r.list, words[from:to], 0)
		if slices.ContainsFunc(hits, func(h Hit) bool { return r.restrains(h, words[from:to], text) }) {
			dst = append(dst, Span{int(words[from].Start), int(words[to-1].End)})
		}
	}
	return dst
}

const (
	maxBefore = 10 // how many words a restraint has before the one that forbids
	maxLeave  = 5  // how many words after till name the person to ask
)

// restrains reports whether a sentence is nothing but the restraint of a hit: no act
// precedes it, none follows where another order may begin, and it has no concept that
// the rule excludes, except where it names the person to ask.
func (r *Rules) restrains(h Hit, words []Word, text string) bool {
	again := r.list[h.Rule].concepts().less(r.none)
	leave, condition := 0, false
	for i, w := range words {
		parted, noun := false, false
		if i > 0 {
			gap := text[words[i-1].End:w.Start]
			if strings.Trim(gap, " ,'-’，、") != "" {
				return false
			}
			parted = strings.ContainsAny(gap, ",，、") || words[i-1].Concepts.meets(r.join)
			noun = words[i-1].Concepts.meets(r.noun)
		}
		if parted {
			leave, condition = 0, false
		}
		condition = condition || w.Concepts.meets(r.when)
		stretch := 1
		if w.Flags&Dense != 0 {
			stretch = 3
		}
		if leave--; w.Concepts.meets(r.till) {
			leave = maxLeave * stretch
		}
		bad := r.nots[h.Rule]
		if leave > 0 {
			bad = bad.less(r.told)
		}
		if w.Concepts.meets(r.none) {
			bad = Set{}
		}
		inside := i >= h.Start && i < h.End
		switch {
		case w.Concepts.meets(bad),
			i < h.Start && w.Concepts.meets(r.mark) && words[h.Start].Concepts.meets(r.asks), // "do not ask me before"
			i == h.Start && (condition || i > maxBefore*stretch),
			inside && i > h.Start && parted,
			!inside && !noun && w.Concepts.meets(r.acts),
			!inside && parted && w.Concepts.meets(again):
			return false
		}
	}
	return true
}
