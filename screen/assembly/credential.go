package assembly

import (
	"cmp"
	"slices"
	"strings"

	"github.com/memproxy/memproxy/screen/terms"
)

// cue is what a piece says about the piece of a secret in it.
type cue struct {
	split bool   // it speaks of a first, a last, a rest
	piece bool   // it says that it is a part, a half, a piece
	label string // what the whole is: "password" or "api_key", or ""
	place int    // first, second …; 0 when it does not say
}

// places say where in the whole a piece belongs. The last comes last.
var places = map[string]int{
	"first": 1, "1st": 1, "start": 1, "starts": 1, "begins": 1, "beginning": 1, "prefix": 1, "1": 1,
	"second": 2, "2nd": 2, "2": 2, "middle": 2, "third": 3, "3rd": 3, "3": 3, "fourth": 4, "4": 4,
	"last": 99, "rest": 99, "remaining": 99, "remainder": 99, "end": 99, "ends": 99, "suffix": 99, "final": 99,
}

const splitWords = "first second third fourth last rest remaining remainder prefix suffix digits starts begins ends continues continued"

const pieceWords = "part part1 part2 part3 half chunk piece segment fragment portion hälfte teil yarısı moitié mitad"

var labels = map[string]string{
	"password": "password", "passwd": "password", "pwd": "password", "passphrase": "password", "passwort": "password", "parola": "password", "şifre": "password",
	"key": "api_key", "apikey": "api_key", "token": "api_key", "secret": "api_key", "credential": "api_key", "credentials": "api_key",
	"card": "card", "iban": "iban", "ssn": "ssn",
}

// cues are what all of these words say, and "part" before a place.
var cues = func() map[string]cue {
	split, piece, all := terms.Set(splitWords), terms.Set(pieceWords), map[string]cue{}
	add := func(w string, place int) {
		all[w] = cue{split: split[w], piece: piece[w], label: labels[w], place: place}
	}
	for w := range strings.FieldsSeq(splitWords + " " + pieceWords) {
		add(w, 0)
	}
	for w := range labels {
		add(w, 0)
	}
	for w, n := range places {
		add(w, n)
		add("part"+w, n)
	}
	return all
}()

const (
	minOpaque = 3
	maxOpaque = 256
)

// noSecret are the bytes that no secret has.
var noSecret = terms.BytesOf(" \t\n\r\"'`=<>()[],;")

// opaque returns what in s may be a piece of a secret, and what is said of it.
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
	for at := range stretches(s, &noSecret) {
		t := s[at.from:at.to]
		if !digits.In(t) && !((c.piece || c.label != "") && joints.In(t)) {
			continue
		}
		t = strings.TrimRight(t, ".!?:")
		if len(t) >= minOpaque && len(t) <= maxOpaque && !strings.Contains(t, "part") {
			out = append(out, span{at.from, at.from + len(t)})
		}
	}
	// A piece that is split off in so many words may be letters only: "the
	// second half is tiger". Its last word is it.
	if len(out) == 0 && c.piece && len(words) > 1 {
		out = append(out, words[len(words)-1].span)
	}
	if len(out) > 4 {
		out = out[len(out)-4:]
	}
	if !c.split && c.label == "" && !(len(out) == 1 && out[0].len() == len(strings.TrimSpace(s))) {
		return nil, c // nor one in a line
	}
	return out, c
}

const maxPieces = 4 // of a secret: the latest

// credentials runs the pieces of a secret together: in the order in which the
// writes came, and, when they say so themselves, in the order of their places.
func (j *joiner) credentials() {
	found := make([]*piece, 0, maxPieces)
	label, split, own := "", false, false
	for _, p := range slices.Backward(j.all) {
		if len(p.opaque) == 0 {
			continue
		}
		if len(found) < maxPieces {
			found = append(found, p)
		}
		own = own || j.fresh(p)
		split = split || p.cue.split
		label = cmp.Or(label, p.cue.label)
	}
	if !own || len(found) < 2 {
		return
	}
	slices.Reverse(found)
	j.secret(found, label, split)
	// A stable insertion sort by place; pieces without one stay put.
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
