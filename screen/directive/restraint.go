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
	name Set    // names
	skip Set    // what says that something need not, or must not, be done
	none Set    // words without a meaning of their own: mark, and particles
}

// restrain moves the rules of score 0 from List to list.
func (r *Rules) restrain(v *Vocabulary) {
	r.join, r.when, r.noun, r.till = v.Concept("JOIN"), v.Concept("WHEN"), v.Concept("NOUN"), v.Concept("TILL")
	r.told = v.each("TELL", "HUSH", "CONCEAL", "SECRETLY", "UNASKED", "OWNER", "USER", "SAFETY", "NEG")
	r.name, r.skip = v.Concept(conceptName), v.Concept("NOTASK")
	r.mark, r.asks = v.each("BAN", "BANNED", "BANFAR", "ENDING", "FORBID", "FIRST"), v.Concept("FIRST")
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
	r.acts = r.acts.less(r.none).less(v.each("REVEAL", "SHOW", "TELL"))
}

// each returns the set of the named concepts that the vocabulary has.
func (v *Vocabulary) each(names ...string) (all Set) {
	for _, name := range names {
		all = all.or(v.Concept(name))
	}
	return all
}

// concepts are those of a rule's patterns: of what forbids and what is forbidden, and not
// of what that is done to.
func (r *Rule) concepts() (all Set) {
	for _, s := range r.seqs {
		for _, sl := range s.slots[:min(2, len(s.slots))] {
			all = all.or(sl.any)
		}
	}
	return all
}

// Restraints appends the places of words that the sentences of text take back which only
// forbid an act, or only demand to be asked before it: those of the act, and of who is to
// be asked. The others of such a sentence say what they say elsewhere.
func (r *Rules) Restraints(dst []int, words []Word, text string) []int {
	var hits []Hit
	for from := range words {
		if from > 0 && words[from].Flags&Opens == 0 {
			continue
		}
		to, marked := from, false
		for ; to < len(words) && to-from <= block && !ends(words, from, to, text); to++ {
			marked = marked || words[to].Concepts.meets(r.mark)
		}
		if !marked || to-from > block {
			continue
		}
		hits = r.inBlock(hits[:0], r.restraining, words[from:to], 0)
		for _, h := range hits {
			dst = r.negated(dst, h, words[from:to], from, text)
		}
	}
	return dst
}

// ends reports whether a sentence from one word on ends before another. A clause behind a
// colon or semicolon may make an exception of what the one before forbids.
func ends(words []Word, from, to int, text string) bool {
	return to > from && words[to].Flags&Opens != 0 && strings.Trim(text[words[to-1].End:words[to].Start], " ;:；：") != ""
}

const maxLeave = 5 // how many words after till name the person to ask

// negated appends the words that a sentence takes back, if it orders nothing besides the
// restraint of a hit: it forbids no demand to be asked and is no condition, has no other
// act except as a noun, and no concept that the rule excludes, except where it names the
// person to ask.
func (r *Rules) negated(dst []int, h Hit, words []Word, at int, text string) []int {
	before := len(dst)
	own := r.list[h.Rule].concepts().less(r.none)
	leave, asked, condition := 0, false, false
	for i, w := range words {
		comma, parted, noun := false, false, false
		if i > 0 {
			gap := text[words[i-1].End:w.Start]
			if strings.Trim(gap, " ,'-’，、") != "" {
				return dst[:before]
			}
			comma = strings.ContainsAny(gap, ",，、")
			parted = comma || words[i-1].Concepts.meets(r.join)
			noun = words[i-1].Concepts.meets(r.noun)
		}
		if parted {
			leave, condition = 0, false
		}
		condition = condition || w.Concepts.meets(r.when)
		inside := i >= h.Start && i < h.End
		if leave--; w.Concepts.meets(r.till) && !inside {
			leave = maxLeave
			if w.Flags&Dense != 0 {
				leave *= 3
			}
		}
		bad := r.nots[h.Rule]
		if leave > 0 {
			bad = bad.less(r.told)
		}
		if w.Concepts.meets(r.none) {
			bad = Set{}
		}
		switch {
		case w.Concepts.meets(bad),
			i < h.Start && w.Concepts.meets(r.mark.or(r.skip)) && words[h.Start].Concepts.meets(r.asks), // "do not ask me before"
			asked && (comma || w.Concepts.meets(r.mark.or(r.name))),                                     // "without asking Zed, who"
			i == h.Start && condition,
			inside && i > h.Start && parted,
			!noun && w.Concepts.meets(r.acts) && !(inside && w.Concepts.meets(own)),
			!inside && parted && w.Concepts.meets(own):
			return dst[:before]
		}
		asked = asked || i >= h.End && w.Concepts.meets(r.till)
		if inside || leave > 0 && w.Concepts.meets(r.told.or(r.till)) {
			dst = append(dst, at+i)
		}
	}
	return dst
}
