package assembly

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// dangles are words after which a sentence cannot end.
const dangles = `a an the and or but nor to of in on at by for from with without into onto upon about as than that which who whose
 this these those my your his her its our their every each any all some no not never always please must should shall will would can could may might
 is are was were be been if when whenever while until unless because before after then also whatever whichever so just only previous prior above
 von zu der die das und oder mit ohne immer nie el la los las de del que y o con sin siempre nunca le les des du et ou avec sans toujours jamais ve veya ile her asla`

const short = 3 // up to this many words, a text without an end mark counts as a fragment

// continues reports whether t begins in the middle of a sentence.
func continues(t string) bool {
	if strings.HasPrefix(t, "..") {
		return true
	}
	t = strings.TrimLeft(t, "\"'`“‘(*_ ")
	r, _ := utf8.DecodeRuneInString(t)
	return unicode.IsLower(r) || strings.ContainsRune("…,;:)]/-+=", r)
}

// unfinished reports whether the sentence t, which has these words, is unfinished.
func unfinished(t string, words []word) bool {
	r, _ := utf8.DecodeLastRuneInString(t)
	if strings.HasSuffix(t, "...") || strings.ContainsRune("…,;:([{/-+=&\\", r) {
		return true
	}
	if ends(r) {
		return false
	}
	return len(words) > 0 && (words[len(words)-1].in&dangling != 0 || len(words) <= short && len(t) <= 12*short)
}

// edges has the first and the last sentence of a text, for sentences that are cut between
// two writes.
type edges struct {
	head      span
	continues bool // head begins in the middle of a sentence
	open      span // the last sentence, if no end mark closes it
	hangs     bool // the last word or character of open cannot end a sentence
}

// fragments returns the incomplete sentences of s, of which all has the spans: a first
// one that continues an earlier text and a last one that is unfinished. It also returns
// the edges of s.
func fragments(s string, words []word, all []span) (out []span, e edges) {
	if len(all) == 0 {
		return nil, e
	}
	first, last := all[0], all[len(all)-1]
	t := s[last.from:last.to]
	words = inside(words, last)
	open := unfinished(t, words)
	e.head, e.continues = first, continues(s[first.from:first.to])
	if len(all) > 1 && e.continues {
		out = append(out, first)
	}
	if open || len(all) == 1 && e.continues {
		out = append(out, last)
	}
	if r, _ := utf8.DecodeLastRuneInString(t); open || !ends(r) {
		e.open = last
		e.hangs = open && len(words) > 0 && (len(words) > short || words[len(words)-1].in&dangling != 0)
	}
	return out, e
}

type stretch struct {
	p *piece
	s span
}

const (
	maxCuts = 3 // bounds the unfinished earlier texts, latest first, that a continuing text is joined with
	// A finding that spans two texts is near the boundary between them: of the first and the last text
	// of a joined one, and of all that was written before the new write, this many words next to the
	// boundary, and at least this many bytes, are screened. A directive has up to 32 words.
	edgeWords, edgeBytes = 32, 256
)

// spaces returns how often words of t are separated.
func spaces(t string) (n int) {
	for i := 1; i < len(t); i++ {
		if t[i-1] <= ' ' && t[i] > ' ' {
			n++
		}
	}
	return n
}

// edge returns the index in t at which its words next to a boundary begin, where t ends at the
// boundary, or end, where t begins at it (step 1).
func edge(t string, step int) int {
	i, words := 0, 0
	if step < 0 {
		i = len(t)
	}
	for n := 0; (n < edgeBytes || words < edgeWords) && i+step >= 0 && i+step <= len(t); n++ {
		at := min(i, i+step)
		if t[at] <= ' ' && at+1 < len(t) && t[at+1] > ' ' { // before a word
			words++
		}
		i += step
	}
	for i > 0 && i < len(t) && !utf8.RuneStart(t[i]) {
		i += step
	}
	return i
}

// fragments joins the incomplete sentences of the session in the order of the writes.
// Whole sentences between them are skipped: an author who splits a payload puts harmless
// writes in between.
func (j *joiner) fragments() {
	chain := j.chain()
	if len(chain) >= 2 {
		j.continued(chain, " ")
	}
	// Joined without a space, for a cut inside a word.
	if len(chain) >= 2 && len(chain) <= 3 {
		j.continued(chain, "")
	}
	j.cuts(chain)
}

// chain returns the sentences that are incomplete by themselves, oldest first: those of the
// new write up to maxLength bytes, and before them the latest that an edge of it needs.
func (j *joiner) chain() []stretch {
	var out []stretch
	size, bytes, words := 0, 0, 0 // bytes and words of earlier writes
	for _, p := range slices.Backward(j.all) {
		for _, f := range slices.Backward(p.frags) {
			if size += f.len() + 1; size <= maxLength && (bytes < edgeBytes || words < edgeWords) {
				out = append(out, stretch{p, f})
			}
			if !j.isNew(p) {
				bytes += f.len() + 1
				words += 1 + spaces(p.body[f.from:f.to])
			}
		}
	}
	slices.Reverse(out)
	return out
}

// cuts joins sentences that are incomplete only in pairs: a text that begins in the
// middle of a sentence with the latest texts that have no end mark, and a whole sentence
// with the latest texts whose last word cannot end a sentence. Earlier texts that are
// incomplete by themselves are joined in the chain.
func (j *joiner) cuts(chain []stretch) {
	for i := len(j.all) - 1; i >= 0 && !j.full(Continued); i-- {
		p := j.all[i]
		from := slices.IndexFunc(chain, func(s stretch) bool { return s.p == p })
		rest := []stretch{{p, p.edges.head}}
		if from >= 0 && p.edges.continues {
			rest = chain[from:]
		}
		if p.edges.head.len() == 0 || !slices.ContainsFunc(rest, func(s stretch) bool { return j.isNew(s.p) }) {
			continue
		}
		tried := 0
		for k := i - 1; k >= 0 && tried < maxCuts; k-- {
			q := j.all[k]
			if q.edges.open.len() == 0 || !q.edges.hangs && !p.edges.continues {
				continue
			}
			tried++
			j.continued(append([]stretch{{q, q.edges.open}}, rest...), " ")
		}
	}
}

func (j *joiner) continued(parts []stretch, glue string) {
	var d draft
	for i, f := range parts {
		s := trimDots(f.p.body, f.s)
		switch t := f.p.body[s.from:s.to]; i {
		case 0:
			s.from += edge(t, -1)
		case len(parts) - 1:
			s.to = s.from + edge(t, 1)
		}
		if len(d.text) > 0 {
			d.glue(glue)
		}
		d.take(f.p, s)
	}
	j.emit(Continued, &d)
}

// trimDots removes the dots that mark a text as continued.
func trimDots(s string, p span) span {
	t := s[p.from:p.to]
	if strings.HasSuffix(t, "...") || strings.HasSuffix(t, "…") {
		t = strings.TrimRight(t, ".… ")
	}
	p.to = p.from + len(t)
	p.from = p.to - len(strings.TrimLeft(t, ".… "))
	return p
}
