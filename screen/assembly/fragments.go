package assembly

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// dangles are words after which a sentence cannot stop.
const dangles = `a an the and or but nor to of in on at by for from with without into onto upon about as than that which who whose
 this these those my your his her its our their every each any all some no not never always please must should shall will would can could may might
 is are was were be been if when whenever while until unless because before after then also whatever whichever so just only previous prior above
 von zu der die das und oder mit ohne immer nie el la los las de del que y o con sin siempre nunca le les des du et ou avec sans toujours jamais ve veya ile her asla`

const short = 3 // the longest unfinished text, in words, that counts as a fragment by its size alone

// goesOn reports whether t begins in the middle of something.
func goesOn(t string) bool {
	if strings.HasPrefix(t, "..") {
		return true
	}
	t = strings.TrimLeft(t, "\"'`“‘(*_ ")
	r, _ := utf8.DecodeRuneInString(t)
	return unicode.IsLower(r) || strings.ContainsRune("…,;:)]/-+=", r)
}

// left reports whether the sentence t, of these words, stops in the middle of
// something.
func left(t string, words []word) bool {
	r, _ := utf8.DecodeLastRuneInString(t)
	if strings.HasSuffix(t, "...") || strings.ContainsRune("…,;:([{/-+=&\\", r) {
		return true
	}
	if ends(r) {
		return false
	}
	return len(words) > 0 && (words[len(words)-1].in&dangling != 0 || len(words) <= short && len(t) <= 12*short)
}

// edges are the first and the last sentence of a text, for the cut between two
// writes.
type edges struct {
	head   span
	goesOn bool // the head begins in the middle
	open   span // the last sentence, when nothing ends it
	hangs  bool // its last word or sign says that it cannot stop there
}

// fragments returns the stretches of s, by its sentences, that are no whole sentence (a first one that
// goes on from somewhere, a last one that is left open), and its edges.
func fragments(s string, words []word, all []span) (out []span, e edges) {
	if len(all) == 0 {
		return nil, e
	}
	first, last := all[0], all[len(all)-1]
	t := s[last.from:last.to]
	words = inside(words, last)
	open := left(t, words)
	e.head, e.goesOn = first, goesOn(s[first.from:first.to])
	if len(all) > 1 && e.goesOn {
		out = append(out, first)
	}
	if open || len(all) == 1 && e.goesOn {
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

const maxCuts = 3 // how many earlier texts a text that goes on is tried with: the latest that were left open

// fragments joins the open sentences of the session in the order in which
// they came. Whole sentences between them are left out: an author who hides
// a payload puts innocent writes in between.
func (j *joiner) fragments() {
	chain := j.chain()
	if len(chain) >= 2 {
		j.continued(chain, " ")
	}
	j.cuts(chain)
	// Run together, for a cut inside a word.
	if len(chain) >= 2 && len(chain) <= 3 {
		j.continued(chain, "")
	}
}

// chain returns the fragments that are such by themselves, oldest first.
func (j *joiner) chain() []stretch {
	var out []stretch
	size := 0
	for i := len(j.all) - 1; i >= 0; i-- {
		p := j.all[i]
		for k := len(p.frags) - 1; k >= 0; k-- {
			if size += p.frags[k].len() + 1; size <= maxLength {
				out = append(out, stretch{p, p.frags[k]})
			}
		}
	}
	slices.Reverse(out)
	return out
}

// cuts joins what is a fragment only together with another: a text that begins in the
// middle with the latest that were not ended, and a whole sentence with the
// latest that could not stop where they did.
func (j *joiner) cuts(chain []stretch) {
	for i := len(j.all) - 1; i >= 0; i-- {
		p := j.all[i]
		from := slices.IndexFunc(chain, func(s stretch) bool { return s.p == p })
		rest := []stretch{{p, p.edges.head}}
		if from >= 0 && p.edges.goesOn {
			rest = chain[from:]
		}
		if p.edges.head.len() == 0 || !slices.ContainsFunc(rest, func(s stretch) bool { return j.fresh(s.p) }) {
			continue
		}
		tried := 0
		for k := i - 1; k >= 0 && tried < maxCuts; k-- {
			q := j.all[k]
			if q.edges.open.len() == 0 || !q.edges.hangs && !p.edges.goesOn {
				continue
			}
			tried++
			j.continued(append([]stretch{{q, q.edges.open}}, rest...), " ")
		}
	}
}

func (j *joiner) continued(parts []stretch, glue string) {
	var d draft
	for _, f := range parts {
		if len(d.text) > 0 {
			d.glue(glue)
		}
		d.take(f.p, trimDots(f.p.body, f.s))
	}
	j.emit(Continued, &d)
}

// trimDots takes the dots away that mark a text as to be continued.
func trimDots(s string, p span) span {
	t := s[p.from:p.to]
	if strings.HasSuffix(t, "...") || strings.HasSuffix(t, "…") {
		p.to -= len(t) - len(strings.TrimRight(t, ".… "))
	}
	t = s[p.from:p.to]
	p.from += len(t) - len(strings.TrimLeft(t, ".… "))
	return p
}
