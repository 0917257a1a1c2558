package assembly

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// dangling are words after which a sentence cannot stop.
var dangling = set(`a an the and or but nor to of in on at by for from with without into onto upon about as than that which who whose
 this these those my your his her its our their every each any all some no not never always please must should shall will would can could may might
 is are was were be been if when whenever while until unless because before after then also whatever whichever so just only previous prior above
 von zu der die das und oder mit ohne immer nie el la los las de del que y o con sin siempre nunca le les des du et ou avec sans toujours jamais ve veya ile her asla`)

// short is the longest unfinished text, in words, that counts as a fragment
// by its size alone.
const short = 3

// fragments returns the stretches of s that are no whole sentence: a first one
// that goes on from somewhere, a last one that is left open.
func fragments(s string) []span {
	all := sentences(s)
	if len(all) == 0 {
		return nil
	}
	var out []span
	first, last := all[0], all[len(all)-1]
	if len(all) > 1 && goesOn(s[first.from:first.to]) {
		out = append(out, first)
	}
	if t := s[last.from:last.to]; left(t) || len(all) == 1 && goesOn(t) {
		out = append(out, last)
	}
	return out
}

// goesOn reports whether t begins in the middle of something.
func goesOn(t string) bool {
	if strings.HasPrefix(t, "..") {
		return true
	}
	t = strings.TrimLeft(t, "\"'`“‘(*_ ")
	r, _ := utf8.DecodeRuneInString(t)
	return unicode.IsLower(r) || strings.ContainsRune("…,;:)]/-+=", r)
}

// left reports whether t stops in the middle of something.
func left(t string) bool {
	r, _ := utf8.DecodeLastRuneInString(t)
	if strings.HasSuffix(t, "...") || strings.ContainsRune("…,;:([{/-+=&\\", r) {
		return true
	}
	if ends(r) {
		return false
	}
	words := split(t)
	if len(words) == 0 {
		return false
	}
	return dangling[fold(t, words, len(words)-1)] || len(words) <= short && len(t) <= 12*short
}

// fragments joins the open sentences of the session in the order in which
// they came. Whole sentences between them are left out: an author who hides
// a payload puts innocent writes in between.
func (j *joiner) fragments() {
	var picked []struct {
		p *piece
		s span
	}
	size, own := 0, false
	for i := len(j.all) - 1; i >= 0; i-- {
		p := j.all[i]
		for k := len(p.frags) - 1; k >= 0; k-- {
			if size += p.frags[k].len() + 1; size > j.length {
				break
			}
			picked = append(picked, struct {
				p *piece
				s span
			}{p, p.frags[k]})
			own = own || j.fresh(p)
		}
	}
	if !own || len(picked) < 2 {
		return
	}
	// Once with the writes apart, as words are, and once run together, for a
	// cut inside a word.
	var apart, together draft
	for i := len(picked) - 1; i >= 0; i-- {
		f := picked[i]
		if len(apart.text) > 0 {
			apart.glue(" ")
		}
		apart.take(f.p, trimDots(f.p.body, f.s))
		together.take(f.p, trimDots(f.p.body, f.s))
	}
	j.emit(Continued, &apart)
	j.emit(Continued, &together)
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
