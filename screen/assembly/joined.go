package assembly

import "slices"

// Kind is the reason why texts were joined.
type Kind string

// The kinds of joined text.
const (
	Continued  Kind = "continued"  // a sentence that is split over two or more writes
	Parts      Kind = "parts"      // numbered parts
	Encoded    Kind = "encoded"    // pieces of one base64 or hex string
	Variable   Kind = "variable"   // a name that is defined in one write and used in another
	Trigger    Kind = "trigger"    // a condition in one write and its instruction in another
	Credential Kind = "credential" // pieces of one secret
)

// Segment is a part of a joined text that was taken from a write.
type Segment struct {
	Start, End int    // bytes of JoinedText.Text
	Write      string // the id of the write
	Text       int    // which of the write's texts
	From, To   int    // byte span in that text; its length differs from End-Start only if the text was decoded
}

// JoinedText is a text to screen in addition to the write's own texts. Bytes between its
// segments are glue that no write contains.
type JoinedText struct {
	Kind     Kind
	Text     string
	Segments []Segment
}

// same reports whether o joins the same segments to the same text.
func (j JoinedText) same(o JoinedText) bool {
	return j.Kind == o.Kind && j.Text == o.Text && slices.Equal(j.Segments, o.Segments)
}

// SpansTexts reports whether the span of a finding in j.Text touches two different texts. A
// finding within one text was reported when that text was screened.
func (j JoinedText) SpansTexts(start, end int) bool {
	first := -1
	for i, s := range j.Segments {
		if s.End <= start || end <= s.Start {
			continue
		}
		if first < 0 {
			first = i
		} else if f := j.Segments[first]; f.Write != s.Write || f.Text != s.Text {
			return true
		}
	}
	return false
}

// SegmentsOf returns the spans of the texts of write id that a finding touches, so that the
// finding is attributed to bytes that the caller sent.
func (j JoinedText) SegmentsOf(id string, start, end int) []Segment {
	var out []Segment
	for _, s := range j.Segments {
		if s.Write != id || s.End <= start || end <= s.Start {
			continue
		}
		if s.To-s.From == s.End-s.Start {
			from := s.From + max(0, start-s.Start)
			to := s.To - max(0, s.End-end)
			s.From, s.To = from, to
		}
		s.Start, s.End = max(s.Start, start), min(s.End, end)
		out = append(out, s)
	}
	return out
}

// joiner collects the joined texts of one call of Assemble.
type joiner struct {
	id  string
	all []*piece // the earlier ones, then those of the new write
	out []JoinedText
}

// isNew reports whether p is of the new write.
func (j *joiner) isNew(p *piece) bool { return p.write == j.id }

// draft is a joined text that is being put together.
type draft struct {
	text []byte
	segs []Segment
}

// take appends body[from:to] of a piece.
func (d *draft) take(p *piece, s span) {
	if s.to > s.from {
		d.decoded(p, s, p.body[s.from:s.to])
	}
}

// decoded appends text that body[from:to] of a piece decodes to.
func (d *draft) decoded(p *piece, s span, text string) {
	start := len(d.text)
	d.text = append(d.text, text...)
	d.segs = append(d.segs, Segment{Start: start, End: len(d.text), Write: p.write, Text: p.index, From: p.offset + s.from, To: p.offset + s.to})
}

// glue appends text that no write contains.
func (d *draft) glue(s string) { d.text = append(d.text, s...) }

// full reports whether there are as many joined texts of a kind as are returned.
func (j *joiner) full(kind Kind) bool {
	n := 0
	for i := range j.out {
		if j.out[i].Kind == kind {
			n++
		}
	}
	return n >= maxJoined
}

// emit appends a draft to j.out if it joins two different texts, one of them of the new
// write, is within the bounds, and is not in j.out yet.
func (j *joiner) emit(kind Kind, d *draft) {
	if j.full(kind) || len(d.text) > maxLength || len(d.segs) < 2 {
		return
	}
	made := JoinedText{Kind: kind, Text: string(d.text), Segments: d.segs}
	own := slices.ContainsFunc(d.segs, func(s Segment) bool { return s.Write == j.id })
	if own && made.SpansTexts(0, len(made.Text)) && !slices.ContainsFunc(j.out, func(o JoinedText) bool { return o.Text == made.Text }) {
		j.out = append(j.out, made)
	}
}
