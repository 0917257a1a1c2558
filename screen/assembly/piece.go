package assembly

import (
	"strings"
	"time"
	"unicode/utf8"
)

// maxText is how much of one text is kept: of a longer one the head, where a
// sentence can go on, and the tail, where one can be left open.
const maxText = 2048

const overhead = 256 // what a piece costs besides its text, roughly

type span struct{ from, to int }

func (s span) len() int { return s.to - s.from }

// piece is one text of one write, or the head or tail of a long one, with
// everything that joining asks about it worked out once.
type piece struct {
	write  string
	index  int // of the text in its write
	offset int // of body in that text
	body   string
	at     time.Time
	reading
}

// reading is what a text says by itself. Its slices are never changed.
type reading struct {
	frags  []span // stretches that are no whole sentence
	edges  edges
	part   part
	run    span // the longest encoded stretch
	defs   []def
	uses   []use
	cond   span // a condition without its consequence
	action span // a sentence that begins with an instruction
	opaque []span
	cue    cue
}

func (p *piece) size() int { return len(p.body) + len(p.write) + overhead }

// pieces takes a write apart. At most bounds.writes pieces come of one write,
// the last ones: a larger write would push out everything else anyway.
func (s *Store) pieces(id string, texts []string, now time.Time) []*piece {
	var out []*piece
	for i := max(0, len(texts)-s.bounds.writes); i < len(texts); i++ {
		t := texts[i]
		if len(t) <= maxText {
			out = append(out, s.newPiece(id, i, 0, t, now))
			continue
		}
		head, tail := maxText/2, len(t)-maxText/2
		for head > 0 && !utf8.RuneStart(t[head]) {
			head--
		}
		for tail < len(t) && !utf8.RuneStart(t[tail]) {
			tail++
		}
		first, last := s.newPiece(id, i, 0, t[:head], now), s.newPiece(id, i, tail, t[tail:], now)
		// Where the text was cut here, nobody left it open.
		if n := len(first.frags); n > 0 && first.frags[n-1].to >= len(strings.TrimSpace(first.body)) {
			first.frags = first.frags[:n-1]
		}
		first.edges.open, first.edges.hangs = span{}, false
		if len(last.frags) > 0 && last.frags[0].from <= 1 {
			last.frags = last.frags[1:]
		}
		last.edges.head, last.edges.goesOn = span{}, false
		out = append(out, first, last)
	}
	return out[max(0, len(out)-s.bounds.writes):]
}

func (s *Store) newPiece(id string, index, offset int, body string, now time.Time) *piece {
	p := &piece{write: id, index: index, offset: offset, body: body, at: now}
	var known bool
	if p.reading, known = s.read.Get(body); !known {
		p.reading = read(body)
		s.read.Add(body, p.reading)
	}
	return p
}

func read(body string) reading {
	words := split(body)
	r := reading{
		part: findPart(body), run: longestRun(body), defs: definitions(body),
		uses: uses(body), cond: condition(body, words), action: action(body, words),
	}
	r.frags, r.edges = fragments(body)
	r.opaque, r.cue = opaque(body, words)
	return r
}
