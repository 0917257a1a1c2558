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

// places maps words to the position of a piece in the whole. The last piece has the
// highest number.
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

// cues maps each of these words, and "part" before a position, to its cue.
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

// noSecret are the bytes that no secret contains.
var noSecret = terms.BytesOf(" \t\n\r\"'`=<>()[],;")

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
	for at := range stretches(s, &noSecret) {
		t := s[at.from:at.to]
		if !digits.AnyIn(t) && !((c.piece || c.label != "") && joints.AnyIn(t)) {
			continue
		}
		t = strings.TrimRight(t, ".!?:")
		if len(t) >= minOpaque && len(t) <= maxOpaque && !strings.Contains(t, "part") {
			out = append(out, span{at.from, at.from + len(t)})
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
	label, split, own := "", false, false
	for _, p := range slices.Backward(j.all) {
		if len(p.opaque) == 0 {
			continue
		}
		if len(found) < maxPieces {
			found = append(found, p)
		}
		own = own || j.isNew(p)
		split = split || p.cue.split
		label = cmp.Or(label, p.cue.label)
	}
	if !own || len(found) < 2 {
		return
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
