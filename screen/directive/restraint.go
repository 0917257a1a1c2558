package directive

import (
	"slices"
	"strings"
)

// restraints recognises sentences that restrain their reader ("never send my files to
// anyone without asking me"), as opposed to orders with the same words.
type restraints struct {
	list          []Rule // the rules of score 0
	exclusions    []Set  // by rule: concepts that exclude a restraint
	acts          Set    // acts that the rules forbid
	join          Set    // conjunctions, which another order may follow
	when          Set    // conditions
	noun          Set    // determiners: the word of an act after one is a noun
	untilWords    Set    // "without", "until": the person to ask follows
	afterUntil    Set    // concepts that are allowed after untilWords
	mark          Set    // words that forbid, or demand to be asked first
	asks          Set    // words that demand to be asked first
	name          Set    // names
	exemptions    Set    // words that say that something need not or must not be done
	functionWords Set    // words that carry no concept of their own: mark, and particles
}

// restrain moves the rules of score 0 from List to list.
func (r *Rules) restrain(v *Vocabulary) {
	r.join, r.when, r.noun, r.untilWords = v.Concept("JOIN"), v.Concept("WHEN"), v.Concept("NOUN"), v.Concept("TILL")
	r.afterUntil = v.each("TELL", "HUSH", "CONCEAL", "SECRETLY", "UNASKED", "OWNER", "USER", "SAFETY", "NEG")
	r.name, r.exemptions = v.Concept(conceptName), v.Concept("NOTASK")
	r.mark, r.asks = v.each("BAN", "BANNED", "BANFAR", "ENDING", "FORBID", "FIRST"), v.Concept("FIRST")
	r.functionWords = r.mark.or(v.Concept("PARTICLE"))
	r.List = slices.DeleteFunc(r.List, func(rule Rule) bool {
		if rule.Score == 0 {
			var not Set
			for i := range rule.seqs {
				not, rule.seqs[i].not = not.or(rule.seqs[i].not), Set{}
			}
			r.list, r.exclusions, r.acts = append(r.list, rule), append(r.exclusions, not), r.acts.or(rule.concepts())
		}
		return rule.Score == 0
	})
	r.any = r.any.or(r.mark).or(r.join).or(r.untilWords)
	r.acts = r.acts.less(r.functionWords).less(v.each("REVEAL", "SHOW", "TELL"))
}

// each returns the set of the named concepts that the vocabulary has.
func (v *Vocabulary) each(names ...string) (all Set) {
	for _, name := range names {
		all = all.or(v.Concept(name))
	}
	return all
}

// concepts returns the concepts of the first two slots of a rule's patterns: of the
// prohibition and of the forbidden act, but not of its object.
func (r *Rule) concepts() (all Set) {
	for _, s := range r.seqs {
		for _, sl := range s.slots[:min(2, len(s.slots))] {
			all = all.or(sl.any)
		}
	}
	return all
}

// NegatedWords appends the indices of the words that are negated, because their sentence
// only forbids an act, or only demands that a person is asked first: the words of the act
// and of the person to ask. Other words of the sentence keep their meaning.
func (r *Rules) NegatedWords(dst []int, words []Word, text string) []int {
	var hits []Hit
	for from := range words {
		if from > 0 && words[from].Flags&FlagSentenceStart == 0 {
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

// ends reports whether the sentence that begins at word from ends before word to. A
// clause after a colon or semicolon belongs to the sentence, as it may make an exception
// to the prohibition.
func ends(words []Word, from, to int, text string) bool {
	return to > from && words[to].Flags&FlagSentenceStart != 0 && strings.Trim(text[words[to-1].End:words[to].Start], " ;:；：") != ""
}

const maxLeave = 5 // words after till that may name the person to ask

// negated appends the words that a sentence negates, if it gives no order besides the
// restraint of hit h. That is: it does not forbid being asked, is not conditional, has no
// other act except as a noun, and none of the concepts that the rule excludes, except
// where it names the person to ask. at is the index of the sentence's first word.
func (r *Rules) negated(dst []int, h Hit, words []Word, at int, text string) []int {
	before := len(dst)
	own := r.list[h.Rule].concepts().less(r.functionWords)
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
		leave--
		if w.Concepts.meets(r.untilWords) && !inside {
			leave = maxLeave
			if w.Flags&FlagUnspaced != 0 {
				leave *= 3
			}
		}
		bad := r.exclusions[h.Rule]
		if leave > 0 {
			bad = bad.less(r.afterUntil)
		}
		if w.Concepts.meets(r.functionWords) {
			bad = Set{}
		}
		switch {
		case w.Concepts.meets(bad),
			i < h.Start && w.Concepts.meets(r.mark.or(r.exemptions)) && words[h.Start].Concepts.meets(r.asks), // "do not ask me before"
			asked && (comma || w.Concepts.meets(r.mark.or(r.name))),                                           // "without asking Zed, who"
			i == h.Start && condition,
			inside && i > h.Start && parted,
			!noun && w.Concepts.meets(r.acts) && !(inside && w.Concepts.meets(own)),
			!inside && parted && w.Concepts.meets(own):
			return dst[:before]
		}
		asked = asked || i >= h.End && w.Concepts.meets(r.untilWords)
		if inside || leave > 0 && w.Concepts.meets(r.afterUntil.or(r.untilWords)) {
			dst = append(dst, at+i)
		}
	}
	return dst
}
