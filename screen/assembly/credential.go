package assembly

import (
	"cmp"
	"slices"
	"strings"

	"github.com/memproxy/memproxy/screen/terms"
)

// cue has what a text says about a piece of a secret in it.
type cue struct {
	split bool   // it mentions a first, a last, a rest …
	piece bool   // it calls itself a part, a half, a piece …
	label string // the kind of the whole secret: "password", "api_key" …, or ""
	place int    // the position in the secret; 0 if not stated
}

// cues maps words to their cues. A position may follow "part": part2.
var cues = func() map[string]cue {
	all := map[string]cue{}
	add := func(words string, set func(*cue)) {
		for w := range strings.FieldsSeq(words) {
			c := all[w]
			set(&c)
			all[w] = c
		}
	}
	for place, words := range map[int]string{
		1:         "first 1st start starts begins beginning prefix 1",
		2:         "second 2nd 2 middle",
		3:         "third 3rd 3",
		4:         "fourth 4",
		lastPlace: "last rest remaining remainder end ends suffix final",
	} {
		add(words+" part"+strings.ReplaceAll(words, " ", " part"), func(c *cue) { c.place = place })
	}
	for label, words := range map[string]string{
		"password": "password passwd pwd passphrase passwort parola şifre",
		"api_key":  "key apikey token secret credential credentials",
		"card":     "card", "iban": "iban", "ssn": "ssn",
	} {
		add(words, func(c *cue) { c.label = label })
	}
	add(`first second third fourth last rest remaining remainder prefix suffix digits starts begins ends
		continues continued`, func(c *cue) { c.split = true })
	add("part part1 part2 part3 half chunk piece segment fragment portion hälfte teil yarısı moitié mitad",
		func(c *cue) { c.piece = true })
	return all
}()

const lastPlace = 99 // more than that of any other piece

const (
	minOpaque = 3
	maxOpaque = 256
)

// inSecret are the bytes that a secret may contain.
var inSecret = terms.BytesOf(" \t\n\r\"'`=<>()[],;").Not()

// opaque returns the spans of s that may be pieces of a secret, at most 4, and the cue of
// the text.
func opaque(s string, words []word) ([]span, cue) {
	var c cue
	for i := range words {
		if words[i].in&cueing == 0 {
			continue
		}
		for w := range strings.SplitSeq(fold(s, words, i), "_") {
			said := cues[w]
			c.piece = c.piece || said.piece
			c.split = c.split || said.split || c.piece
			c.label = cmp.Or(said.label, c.label)
			c.place = cmp.Or(c.place, said.place)
		}
	}
	if !c.split && c.label == "" && strings.IndexByte(strings.TrimSpace(s), ' ') >= 0 {
		return nil, c // a number or an identifier in a sentence
	}
	var out []span
	for from, to := range inSecret.Runs(s) {
		t := s[from:to]
		if !digits.AnyIn(t) && !((c.piece || c.label != "") && joints.AnyIn(t)) {
			continue
		}
		t = strings.TrimRight(t, ".!?:")
		if len(t) >= minOpaque && len(t) <= maxOpaque && !strings.Contains(t, "part") {
			out = append(out, span{from, from + len(t)})
		}
	}
	// A piece that is explicitly called a part may be letters only: "the second half is
	// tiger". Then the last word is the piece.
	if len(out) == 0 && c.piece && len(words) > 1 {
		out = append(out, words[len(words)-1].span)
	}
	if len(out) > 4 {
		out = out[len(out)-4:]
	}
	if !c.split && c.label == "" && !(len(out) == 1 && out[0].len() == len(strings.TrimSpace(s))) {
		return nil, c // other text surrounds it
	}
	return out, c
}

const maxPieces = 4 // the latest pieces of a secret that are joined

// credentials joins the pieces of a secret: in the order of the writes and, if the texts
// state positions, in the order of those.
func (j *joiner) credentials() {
	found := make([]*piece, 0, maxPieces)
	label, split := "", false
	for _, p := range slices.Backward(j.all) {
		if len(p.opaque) == 0 {
			continue
		}
		if len(found) < maxPieces {
			found = append(found, p)
		}
		split = split || p.cue.split
		label = cmp.Or(label, p.cue.label)
	}
	slices.Reverse(found)
	j.secret(found, label, split)
	// A stable insertion sort by position; pieces without one keep their place.
	ordered, moved := slices.Clone(found), false
	for i := 1; i < len(ordered); i++ {
		for k := i; k > 0 && ordered[k].cue.place > 0 && ordered[k-1].cue.place > ordered[k].cue.place; k-- {
			ordered[k], ordered[k-1] = ordered[k-1], ordered[k]
			moved = true
		}
	}
	if moved {
		j.secret(ordered, label, split)
	}
	if len(found) > 2 { // the last two alone
		j.secret(found[len(found)-2:], label, split)
	}
}

func (j *joiner) secret(pieces []*piece, label string, split bool) {
	d := draft{segs: make([]Segment, 0, len(pieces))}
	if split && (label == "password" || label == "api_key") {
		d.glue(label + ": ")
	}
	for _, p := range pieces {
		for _, o := range p.opaque {
			d.take(p, o)
		}
	}
	j.emit(Credential, &d)
}
