package jsondoc

import (
	"bytes"
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/memproxy/memproxy"
)

// Edits collects changes to a document. Apply splices them into the source. All changes of
// one object or list combine.
type Edits struct {
	// Unwanted, if set, reports whether every object that loses or gets members also loses
	// those of this name.
	Unwanted func(name string) bool

	doc     *Doc
	ops     []splice
	sorted  int // number of ops when they were sorted
	holders []*holder
	byValue map[*Value]*holder
}

type splice struct {
	start, end int
	text       []byte
}

// holder is an object or a list that loses or gets members or elements.
type holder struct {
	*Value
	spans []span // its members or elements
	added [][]byte
}

type span struct {
	start, end int
	drop       bool
}

var comma = []byte(",")

// Edit begins a set of edits.
func (d *Doc) Edit() *Edits {
	return &Edits{doc: d, ops: make([]splice, 0, 4), byValue: map[*Value]*holder{}}
}

// Empty reports whether there are no edits.
func (e *Edits) Empty() bool { return len(e.ops)+len(e.holders) == 0 }

// Replace replaces a value by raw JSON text.
func (e *Edits) Replace(v *Value, raw []byte) {
	e.ops = append(e.ops, splice{v.Start, v.End, raw})
}

// AddTo adds to a number, which becomes no less than zero. Nil and other values are unchanged.
func (e *Edits) AddTo(v *Value, n int) {
	if v == nil || v.Kind != Number {
		return
	}
	if was, err := strconv.Atoi(string(e.doc.Raw(v))); err == nil {
		e.Replace(v, strconv.AppendInt(nil, int64(max(0, was+n)), 10))
	}
}

// Kept returns the members of an object with their JSON text after the edits so far, without
// those that are removed and those of which an edit changes a part.
func (e *Edits) Kept(v *Value) []memproxy.Member {
	e.sort()
	h := e.byValue[v]
	out := make([]memproxy.Member, 0, len(v.Members))
	for i, m := range v.Members {
		if raw, whole := e.kept(m.Value); whole && !(h != nil && h.spans[i].drop) {
			out = append(out, memproxy.Member{Name: m.Name, Value: raw})
		}
	}
	return out
}

func (e *Edits) kept(v *Value) (raw []byte, whole bool) {
	raw = e.doc.Src[v.Start:v.End]
	first, _ := slices.BinarySearchFunc(e.ops, v.Start, func(op splice, at int) int { return op.start - at })
	if e.holds(v) || first > 0 && e.ops[first-1].end > v.Start {
		return nil, false
	}
	for _, op := range e.ops[first:] {
		switch {
		case op.start >= v.End:
			return raw, true
		case op.start == v.Start && op.end == v.End:
			raw = op.text
		default:
			return nil, false
		}
	}
	return raw, true
}

// sort puts the edits in the order in which Apply makes them.
func (e *Edits) sort() {
	if e.sorted == len(e.ops) {
		return
	}
	slices.SortStableFunc(e.ops, func(a, b splice) int {
		removalFirst := min(len(a.text), 1) - min(len(b.text), 1) // of two edits of the same bytes
		return cmp.Or(a.start-b.start, b.end-a.end, removalFirst)
	})
	e.sorted = len(e.ops)
}

// Object removes the members for which drop returns true, and appends added (whole
// members, `"name":value`, without commas).
func (e *Edits) Object(v *Value, drop func(*Member) bool, added [][]byte) {
	for i := range v.Members {
		if drop(&v.Members[i]) {
			e.remove(v, i)
		}
	}
	e.Append(v, added)
}

// Array removes the elements for which drop is true.
func (e *Edits) Array(v *Value, drop func(int) bool) {
	for i := range v.Elems {
		if drop(i) {
			e.remove(v, i)
		}
	}
}

// Remove removes the member or the element at a pointer, if there is one.
func (e *Edits) Remove(pointer string) {
	cut := strings.LastIndexByte(pointer, '/')
	switch v := e.doc.At(pointer[:cut]); {
	case v == nil || e.doc.At(pointer) == nil:
	case v.Kind == Array:
		i, _ := strconv.Atoi(pointer[cut+1:])
		e.remove(v, i)
	default:
		e.remove(v, v.position(unescape.Replace(pointer[cut+1:])))
	}
}

// Append adds members or elements, as JSON text, at the end of an object or a list.
func (e *Edits) Append(v *Value, added [][]byte) {
	if len(added) > 0 {
		h := e.holder(v)
		h.added = append(h.added, added...)
	}
}

func (e *Edits) remove(v *Value, i int) { e.holder(v).spans[i].drop = true }

// holds reports whether a value is or contains a holder.
func (e *Edits) holds(v *Value) bool {
	return e.byValue[v] != nil || slices.ContainsFunc(v.Elems, e.holds) ||
		slices.ContainsFunc(v.Members, func(m Member) bool { return e.holds(m.Value) })
}

func (e *Edits) holder(v *Value) *holder {
	if h := e.byValue[v]; h != nil {
		return h
	}
	h := &holder{Value: v, spans: make([]span, 0, len(v.Members)+len(v.Elems))}
	for _, m := range v.Members {
		h.spans = append(h.spans, span{m.NameStart, m.Value.End, e.Unwanted != nil && e.Unwanted(m.Name)})
	}
	for _, el := range v.Elems {
		h.spans = append(h.spans, span{el.Start, el.End, false})
	}
	e.holders, e.byValue[v] = append(e.holders, h), h
	return h
}

// list removes the spans to drop, each with the comma that separates it from a neighbour,
// and adds elements at the end. Other bytes are kept, including edits inside them.
func (e *Edits) list(v *Value, spans []span, added [][]byte) {
	last := -1 // the last kept span
	for i := 0; i < len(spans); i++ {
		if !spans[i].drop {
			last = i
			continue
		}
		gap := splice{start: spans[i].start}
		for i+1 < len(spans) && spans[i+1].drop {
			i++
		}
		gap.end = spans[i].end
		if last >= 0 {
			gap.start = spans[last].end
		} else if i+1 < len(spans) {
			gap.end = spans[i+1].start
		}
		e.ops = append(e.ops, gap)
	}
	if len(added) == 0 {
		return
	}
	at := v.End - 1
	if last >= 0 {
		at = spans[last].end
	}
	for i, text := range added {
		if last >= 0 || i > 0 {
			e.ops = append(e.ops, splice{at, at, comma})
		}
		e.ops = append(e.ops, splice{at, at, text})
	}
}

// Apply returns the source with the edits applied, or the source itself if there are none.
// Edits must be nested or disjoint. An edit inside of removed text has no effect.
func (e *Edits) Apply() []byte {
	for _, h := range e.holders {
		e.list(h.Value, h.spans, h.added)
	}
	e.holders = nil
	clear(e.byValue)
	if len(e.ops) == 0 {
		return e.doc.Src
	}
	e.sort()
	n := len(e.doc.Src)
	for _, op := range e.ops {
		n += len(op.text)
	}
	out := make([]byte, 0, n)
	from, at := 0, 0 // the last edit's span
	for _, op := range e.ops {
		if op.start < at && (op.start > from || op.start < op.end) {
			continue // inside removed text
		}
		if op.start >= at {
			out = append(out, e.doc.Src[at:op.start]...)
			from, at = op.start, op.end
		} // else an insertion where a removal begins
		out = append(out, op.text...)
	}
	return append(out, e.doc.Src[at:]...)
}

// Doc returns the document with the edits applied, or the document itself if there are none.
// It is for edits that nest no deeper than what they replace.
func (e *Edits) Doc() *Doc {
	if e.Empty() {
		return e.doc
	}
	doc, err := Parse(e.Apply(), 0)
	if err != nil {
		panic("jsondoc: an edit is not JSON: " + err.Error())
	}
	return doc
}

// Texts replaces strings, given by their JSON pointers. A pointer without a value, or to a
// value other than a string, is an error, because the text to hide would remain.
func (e *Edits) Texts(texts map[string]string) error {
	for ptr, text := range texts {
		v := e.doc.At(ptr)
		if v == nil || v.Kind != String {
			return errors.New("jsondoc: no text at " + ptr)
		}
		e.Replace(v, Quote(text))
	}
	return nil
}

// Quote returns a text as a JSON string. Invalid UTF-8 is replaced.
func Quote(text string) []byte {
	out, _ := jsontext.AppendQuote(nil, text) // fails for invalid UTF-8 only
	return out
}

// ListOf returns a list of values, which are JSON.
func ListOf(values [][]byte) []byte {
	return slices.Concat([]byte("["), bytes.Join(values, []byte(",")), []byte("]"))
}
