package directive

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/memproxy/memproxy/screen/rulefile"
)

// Rule is one kind of directive.
type Rule struct {
	rulefile.Rule
	seqs []sequence
}

// numbered is a sequence and the index of its rule.
type numbered struct {
	*sequence
	rule int
}

// sequence is a pattern: concepts in order, with a bounded number of words between them,
// or concepts in any order.
type sequence struct {
	slots    []slot
	not      Set  // concepts that must not occur in the span, or in the three words before it
	together int  // if not 0: any order, within this many words
	cross    bool // for together: one sentence end may lie in between
}

type slot struct {
	any   Set  // one of these concepts
	opens bool // only at the beginning of a sentence
	gap   int  // most words between the previous slot and this one
	cross bool // the gap may contain a sentence end
}

const maxGap = 16 // the largest gap

// Rules are compiled rules. They are immutable.
type Rules struct {
	List []Rule
	restraints
	loan Set // the concept LOAN of the vocabulary
	own  Set // the vocabulary's own concepts
	any  Set // concepts of tokens that are the same in every language
	// indexes of the sequences of List, and of the restraints
	directing, restraining *index
}

// index finds the sequences of some rules by concept (an inverted index).
type index struct {
	all []numbered
	// rarest has bit sets of sequences: for each concept, those that have it in the slot
	// with the fewest concepts, and those that have it in the slot with the second
	// fewest. Few sequences match a text in both.
	rarest [2][maxConcepts][]uint64
}

// ParseRules parses rules. A pattern looks like CONCEPT 3 OTHER|THIRD 0 ^LAST. A number
// is the most words in between, 4 if absent; followed by ~ the gap may cross sentences. ^
// requires the beginning of a sentence. "not A|B" at the end rejects spans with those
// concepts. A pattern that begins with "together 8" matches its concepts in any order
// within eight words, of which at least two are of the vocabulary and not LOAN; with ~
// one sentence may end in between. A rule of score 0 is no directive: it recognises
// restraints.
func ParseRules(file, src string, v *Vocabulary) (*Rules, error) {
	r := &Rules{loan: v.Concept(conceptLoan), own: v.own, any: v.url.or(v.email).or(v.tld).or(v.numbers)}
	err := rulefile.Parse(file, src, func(head rulefile.Rule) { r.List = append(r.List, Rule{Rule: head}) }, func(pattern string) error {
		pattern, _, _ = strings.Cut(pattern, "#")
		f := strings.Fields(pattern)
		if len(f) == 0 {
			return nil
		}
		s, err := parseSequence(f, v)
		last := &r.List[len(r.List)-1]
		last.seqs = append(last.seqs, s)
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, rule := range r.List {
		if len(rule.seqs) == 0 {
			return nil, fmt.Errorf("%s:%d: rule %s has no pattern", file, rule.Line, rule.ID)
		}
	}
	r.restrain(v)
	r.directing, r.restraining = indexOf(r.List), indexOf(r.list)
	return r, nil
}

func indexOf(list []Rule) *index {
	x := &index{}
	for ri := range list {
		for i := range list[ri].seqs {
			x.all = append(x.all, numbered{&list[ri].seqs[i], ri})
		}
	}
	for n, s := range x.all {
		slots := slices.Clone(s.slots)
		slices.SortStableFunc(slots, func(a, b slot) int { return cmp.Compare(a.any.count(), b.any.count()) })
		for k := range x.rarest {
			for c := range maxConcepts {
				if !slots[min(k, len(slots)-1)].any.meets(bit(c)) {
					continue
				}
				if x.rarest[k][c] == nil {
					x.rarest[k][c] = make([]uint64, len(x.all)/64+1)
				}
				x.rarest[k][c][n/64] |= 1 << (n % 64)
			}
		}
	}
	return x
}

// possible returns a bit set of the sequences that can match these concepts.
func (x *index) possible(dst []uint64, present Set) []uint64 {
	dst = append(dst, make([]uint64, 2*(len(x.all)/64+1))...)
	a, b := dst[:len(dst)/2], dst[len(dst)/2:]
	for half, of := range present.words() {
		for ; of != 0; of &= of - 1 {
			c := half<<6 + bits.TrailingZeros64(of)
			for i, with := range x.rarest[0][c] {
				a[i] |= with
			}
			for i, with := range x.rarest[1][c] {
				b[i] |= with
			}
		}
	}
	for i := range a {
		a[i] &= b[i]
	}
	return a
}

func parseSequence(f []string, v *Vocabulary) (sequence, error) {
	var s sequence
	if f[0] == "together" {
		if err := s.within(f); err != nil {
			return s, err
		}
		f = f[2:]
	}
	gap, cross := 4, false
	for i := 0; i < len(f); i++ {
		t := f[i]
		if t == "not" {
			if i+2 != len(f) {
				return s, fmt.Errorf("want one list of concepts after not")
			}
			var err error
			if s.not, err = v.set(f[i+1]); err != nil {
				return s, err
			}
			break
		}
		if t[0] >= '0' && t[0] <= '9' {
			if s.together > 0 {
				return s, fmt.Errorf("a pattern with together must not have gaps")
			}
			t, cross = strings.CutSuffix(t, "~")
			g, err := strconv.Atoi(t)
			if err != nil || g > maxGap {
				return s, fmt.Errorf("a gap must be from 0 to %d", maxGap)
			}
			gap = g
			continue
		}
		t, opens := strings.CutPrefix(t, "^")
		set, err := v.set(t)
		if err != nil {
			return s, err
		}
		s.slots = append(s.slots, slot{any: set, opens: opens, gap: gap, cross: cross})
		gap, cross = 4, false
	}
	if len(s.slots) == 0 || len(s.slots) > maxSlots {
		return s, fmt.Errorf("a pattern must have 1 to %d slots", maxSlots)
	}
	return s, nil
}

// within parses "together 8~".
func (s *sequence) within(f []string) error {
	if len(f) < 3 {
		return fmt.Errorf("want: together, a number of words, and concepts")
	}
	number, cross := strings.CutSuffix(f[1], "~")
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 || n > maxGap {
		return fmt.Errorf("together requires a number of words from 1 to %d", maxGap)
	}
	s.together, s.cross = n, cross
	return nil
}

// set parses A|B|C.
func (v *Vocabulary) set(list string) (set Set, err error) {
	for _, name := range strings.Split(list, "|") {
		c := v.Concept(name)
		if c.empty() {
			return set, fmt.Errorf("unknown concept %q", name)
		}
		set = set.or(c)
	}
	return set, nil
}

const maxSlots = 6

// Hit is a match of a rule.
type Hit struct {
	Rule       int // index in List
	Start, End int // words
}

// block is the number of words that are matched together, one bit each. Blocks overlap by
// half, so that no span of up to 32 words is cut.
const block = 64

// Find appends the matches of rules in words to dst. Overlapping matches of one rule are
// merged. Each rule has at most as many hits as there are words.
func (r *Rules) Find(dst []Hit, words []Word) []Hit {
	for at := 0; at < len(words); at += block / 2 {
		dst = r.inBlock(dst, r.directing, words[at:min(len(words), at+block)], at)
		if at+block >= len(words) {
			break
		}
	}
	return dst
}

// minDense is the number of characters of a script without spaces from which a block is
// measured in characters: a word is about three of them.
const minDense = 4

func (r *Rules) inBlock(dst []Hit, x *index, words []Word, at int) []Hit {
	var masks [maxConcepts]uint64
	var present Set
	var opens, own uint64
	dense := 0
	for i := range words {
		bit := uint64(1) << i
		if words[i].Flags&FlagSentenceStart != 0 {
			opens |= bit
		}
		dense += int(words[i].Flags & FlagUnspaced)
		of := words[i].Concepts.and(r.own)
		if of.empty() {
			continue // most words have no concept
		}
		for half, c := range of.words() {
			for ; c != 0; c &= c - 1 {
				masks[half<<6+bits.TrailingZeros64(c)] |= bit
			}
		}
		present = present.or(of)
		if !of.less(r.any).empty() && !of.meets(r.loan) {
			own |= bit
		}
	}
	stretch := 1
	if dense >= minDense*int(FlagUnspaced) {
		stretch = 3
	}
	if present.empty() || !r.loan.empty() && bits.OnesCount64(own) < spoken {
		return dst
	}
	var buf [16]uint64
	for i, some := range x.possible(buf[:0], present) {
		for ; some != 0; some &= some - 1 {
			s := x.all[i*64+bits.TrailingZeros64(some)]
			for free := ^uint64(0); free != 0; {
				start, end, ok := s.find(&masks, opens, own, free, stretch)
				if !ok {
					break
				}
				free = ^uint64(0) << end << 1
				if s.together == 0 {
					start, end = s.whole(words, start, end)
				}
				dst = addHit(dst, Hit{Rule: s.rule, Start: at + start, End: at + end + 1})
			}
		}
	}
	return dst
}

// whole extends a span to the whole phrases at its ends.
func (s *sequence) whole(words []Word, start, end int) (int, int) {
	first, last := s.slots[0].any, s.slots[len(s.slots)-1].any
	for start > 0 && words[start-1].Concepts.and(words[start].Concepts).meets(first) && words[start].Flags&FlagSentenceStart == 0 {
		start--
	}
	for end+1 < len(words) && words[end+1].Concepts.and(words[end].Concepts).meets(last) && words[end+1].Flags&FlagSentenceStart == 0 {
		end++
	}
	return start, end
}

// addHit appends a hit, or merges it with an overlapping one of its rule, which another
// sequence or the previous block found.
func addHit(hits []Hit, h Hit) []Hit {
	for i := len(hits) - 1; i >= 0; i-- {
		o := &hits[i]
		if o.Rule == h.Rule && o.End > h.Start && o.Start < h.End {
			o.Start, o.End = min(o.Start, h.Start), max(o.End, h.End)
			return hits
		}
		if o.End <= h.Start-block {
			break
		}
	}
	return append(hits, h)
}

// where returns the words of a block that have any of some concepts.
func where(masks *[maxConcepts]uint64, concepts Set) (words uint64) {
	for half, c := range concepts.words() {
		for ; c != 0; c &= c - 1 {
			words |= masks[half<<6+bits.TrailingZeros64(c)]
		}
	}
	return words
}

// places returns the free words that may fill each slot, if every slot has one.
func (s *sequence) places(masks *[maxConcepts]uint64, opens, free uint64) (of [maxSlots]uint64, ok bool) {
	for i := range s.slots {
		of[i] = where(masks, s.slots[i].any) & free
		if s.slots[i].opens {
			of[i] &= opens
		}
		if of[i] == 0 {
			return of, false
		}
	}
	return of, true
}

// find matches the sequence against the free words of a block, as bit sets of positions.
// Its work does not depend on the content of the block.
func (s *sequence) find(masks *[maxConcepts]uint64, opens, own, free uint64, stretch int) (start, end int, ok bool) {
	if s.together > 0 {
		return s.findTogether(masks, opens, own, free, stretch)
	}
	reach, ok := s.places(masks, opens, free)
	for i := 1; ok && i < len(s.slots); i++ {
		sl := &s.slots[i]
		barrier := opens
		if sl.cross {
			barrier = 0
		}
		reach[i] &= smear(reach[i-1], (sl.gap+1)*stretch, barrier)
		ok = reach[i] != 0
	}
	if !ok {
		return 0, 0, false
	}
	bad := where(masks, s.not)
	last := len(s.slots) - 1
	for ends := reach[last]; ends != 0; ends &= ends - 1 {
		end = bits.TrailingZeros64(ends)
		start = end
		for i := last - 1; i >= 0; i-- {
			start = max(0, 63-bits.LeadingZeros64(reach[i]&(1<<start-1)))
		}
		around := span(max(0, start-3), end)
		if bad&around == 0 {
			return start, end, true
		}
	}
	return 0, 0, false
}

func span(from, to int) uint64 {
	return (^uint64(0) >> (63 - to)) &^ (1<<from - 1)
}

// smear returns the positions up to n after one in m, not across a barrier.
func smear(m uint64, n int, barrier uint64) uint64 {
	var out uint64
	for range n {
		m = m << 1 &^ barrier
		out |= m
	}
	return out
}
