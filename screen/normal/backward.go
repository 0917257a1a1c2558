package normal

import "strings"

// order counts the order of function words, in a text and in each of its clauses: "to
// the" in English, "the to" in reversed word order.
type order struct {
	text      string
	all, here struct{ forward, backward int }
	before    byte
	from, end int // where the clause begins, and where its last word ends
	words     int // in the clause
	clauses   []span
}

func (o *order) word(kind byte) {
	switch {
	case o.before == 'p' && (kind == 'd' || kind == 'e'):
		o.here.forward++
	case o.before == 'd' && kind == 'p':
		o.here.backward++
	}
	o.before = kind
}

// clause starts a new clause if a mark before the word from i to j ends the current one,
// which is kept if it is in reverse order.
func (o *order) clause(i, j int) {
	ended := i == len(o.text)
	for k := o.end; k < i && !ended; k++ {
		c := o.text[k]
		ended = c == '.' || c == '!' || c == '?' || c == '\n'
	}
	if ended {
		if n := o.here.backward; o.words >= minBackward && o.words <= n*mostWords && n > 2*o.here.forward {
			o.clauses = append(o.clauses, span{o.from, o.end})
		}
		o.all.forward, o.all.backward = o.all.forward+o.here.forward, o.all.backward+o.here.backward
		o.here.forward, o.here.backward, o.before, o.words, o.from = 0, 0, 0, 0, i
	}
	o.words, o.end = o.words+1, j
}

// smallWords are function words: those that precede an article (p), articles (d), and
// words that may be an article or stand alone (e).
var smallWords = map[byte]string{
	'p': `to of in on at from for with by and or that if when as is are about into over under without before after between against
		do not will can must should have has was were be you we they tell ignore send give reveal forget disregard obey let`,
	'd': "the a an your my our their",
	'e': "all any every this its these",
}

// backward returns the reading of parts of v with their words in reverse order.
func backward(v *View, parts []span) View {
	b, words := newBuilder(len(v.Text)), newBuilder(0) // words.at: spans of words
	defer b.free()
	defer words.free()
	for _, part := range parts {
		s := v.Text[:part.end]
		words.at = words.at[:0]
		fields(s[part.start:], func(i, j int, _ bool) { words.at = append(words.at, int32(part.start+i), int32(part.start+j)) })
		if len(b.text) > 0 {
			b.byte('\n', int32(part.start))
		}
		for k := len(words.at); k > 0; k -= 2 {
			start, end := int(words.at[k-2]), int(words.at[k-1])
			if k < len(words.at) {
				b.byte(' ', int32(end-1))
			}
			if strings.IndexByte(".,;!?", s[end-1]) >= 0 {
				end--
			}
			b.copy(s, start, end)
		}
	}
	return mapped(Backward, b, v)
}

// ends counts the evidence at the ends of a text for reversed word order: a full stop
// after its first word, and a capital only on its last word.
func ends(s string) int {
	s = strings.TrimSpace(s)
	first, last := strings.IndexAny(s, " \n"), strings.LastIndexAny(s, " \n")
	if first <= 0 {
		return 0
	}
	n := 0
	if strings.IndexByte(".!?", s[first-1]) >= 0 {
		n++
	}
	if classes[s[last+1]] == cUpper && classes[s[0]] == cLower {
		n++
	}
	return n
}
