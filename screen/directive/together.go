package directive

import "math/bits"

const around = 4 // words before and after a match that count for the language, too

const spoken = 2 // words that show that a language is spoken

// findTogether finds the first place at which distinct words fill all slots, in any
// order, near each other. Its work is bounded by the block.
func (s *sequence) findTogether(masks *[maxConcepts]uint64, opens, own, free uint64, stretch int) (start, end int, ok bool) {
	of, ok := s.places(masks, opens, free)
	if !ok {
		return 0, 0, false
	}
	var any uint64
	for _, words := range of {
		any |= words
	}
	bad := where(masks, s.not)
	for starts := any; starts != 0; starts &= starts - 1 {
		start = bits.TrailingZeros64(starts)
		here := span(start, min(block-1, start+s.together*stretch))
		here &= s.sentence(start, opens)
		end, filled := fill(of[:len(s.slots)], here)
		if !filled {
			continue
		}
		near := span(max(0, start-around), min(block-1, end+around))
		if bad&span(max(0, start-3), end) == 0 && bits.OnesCount64(own&near) >= spoken {
			return start, end, true
		}
	}
	return 0, 0, false
}

// sentence returns the words from start to the end of its sentence or, if the pattern may
// cross one, of the next sentence.
func (s *sequence) sentence(start int, opens uint64) uint64 {
	after := opens &^ span(0, start)
	if s.cross && after != 0 {
		after &= after - 1
	}
	if after == 0 {
		return ^uint64(0)
	}
	return 1<<bits.TrailingZeros64(after) - 1
}

// fill assigns to each slot, in order, the first free word that fits, and returns the
// last assigned word.
func fill(of []uint64, here uint64) (end int, ok bool) {
	for i := range of {
		w := of[i] & here
		if w == 0 {
			return 0, false
		}
		at := bits.TrailingZeros64(w)
		here &^= 1 << at
		end = max(end, at)
	}
	return end, true
}
