package jsondoc

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/memproxy/memproxy"
)

// Kind is the kind of a value: the first byte of its JSON text, with '0' for
// numbers and 't' for both booleans.
type Kind byte

// The kinds.
const (
	Object Kind = '{'
	Array  Kind = '['
	String Kind = '"'
	Number Kind = '0'
	Bool   Kind = 't'
	Null   Kind = 'n'
)

// Value is one value of a document.
type Value struct {
	Kind       Kind
	Start, End int // byte span in the source
	Members    []Member
	Elems      []*Value
	text       string         // decoded, for strings
	index      map[string]int // positions in Members, unless they are few
}

// Member is one name and value of an object, in the order of the source.
type Member struct {
	Name      string
	NameStart int // index of the name in the source
	Value     *Value
}

// Doc is a parsed body.
type Doc struct {
	Src  []byte
	Root *Value
}

// DefaultMaxDepth bounds the nesting of answers. Requests have a stricter
// bound, see ParseRequest.
const DefaultMaxDepth = 128

// Parse reads a body. Errors are *memproxy.Flaw.
func Parse(src []byte, maxDepth int) (*Doc, error) {
	return parser{max: cmp.Or(max(maxDepth, 0), DefaultMaxDepth)}.parse(src)
}

func (p parser) parse(src []byte) (*Doc, error) {
	if err := checkEncoding(src); err != nil {
		return nil, err
	}
	p.Src, p.scratch = src, scratches.Get().(*scratch)
	root := p.value(0)
	p.scratch.release()
	if p.err != nil {
		return nil, p.err
	}
	if root == nil || p.Space() != 0 {
		return nil, refusal(src, p.max, p.strict)
	}
	return &Doc{Src: src, Root: root}, nil
}

// ParseReply parses the body of an answer, unless the adapter parsed it before.
func ParseReply(reply memproxy.Reply) (*Doc, error) {
	if doc, ok := reply.Parsed.(*Doc); ok && doc.Is(reply.Body) {
		return doc, nil
	}
	return Parse(reply.Body, 0)
}

// Is reports whether the document is that of a body, which is the same slice.
func (d *Doc) Is(body []byte) bool {
	return len(d.Src) == len(body) && len(body) > 0 && &d.Src[0] == &body[0]
}

// checkEncoding refuses bodies that some JSON parsers read as text in another encoding.
func checkEncoding(src []byte) error {
	switch {
	case len(bytes.TrimSpace(src)) == 0:
		return &memproxy.Flaw{Code: memproxy.PayloadMalformed, Status: 400, Detail: "the body is empty"}
	case bytes.HasPrefix(src, []byte("\xef\xbb\xbf")):
		return &memproxy.Flaw{Code: memproxy.PayloadEncoding, Status: 400, Detail: "the body begins with a byte order mark"}
	case bytes.IndexByte(src, 0) >= 0, !utf8.Valid(src):
		return &memproxy.Flaw{Code: memproxy.PayloadEncoding, Status: 400, Detail: "the body is not valid UTF-8"}
	}
	return nil
}

type parser struct {
	Scanner
	max          int
	strict       bool
	salvages     bool          // see Salvage
	reader       ElementReader // may be nil
	err          error         // of the reader
	share        int           // see ParseLists
	list         string        // pointer of the answer's member that is being read
	deferStrings bool          // strings are set by setStrings
	slab         []Value
	stored       []Member // of complete objects
	*scratch
}

// newValue returns a value from a slab, so that a body of ordinary size needs one allocation
// for all its values. The number of values is at most that of commas and brackets plus one.
func (p *parser) newValue(kind Kind) *Value {
	if len(p.slab) == cap(p.slab) {
		n := 1024
		switch {
		case p.reader != nil && len(p.Src) > 2048: // few at first, as most are reused for each element of a list
			n = min(n, max(8, 8*cap(p.slab)))
		case p.slab == nil:
			n = min(4*n, 1+bytes.Count(p.Src, []byte(","))+bytes.Count(p.Src, []byte("["))+bytes.Count(p.Src, []byte("{")))
		}
		p.slab = make([]Value, 0, n)
	}
	p.slab = append(p.slab, Value{Kind: kind, Start: p.At})
	return &p.slab[len(p.slab)-1]
}

// value reads a value. It returns nil if the body is refused; the function refusal then
// finds the reason.
func (p *parser) value(depth int) *Value {
	if depth > p.max {
		return nil
	}
	c := p.Space()
	v, ok := p.newValue(Kind(c)), false
	switch c {
	case '{':
		ok = p.object(v, depth)
	case '[':
		ok = p.array(v, depth)
	case '"':
		v.text, ok = p.text(false)
	case 't':
		ok = p.Literal("true")
	case 'f':
		v.Kind, ok = Bool, p.Literal("false")
	case 'n':
		ok = p.Literal("null")
	default:
		v.Kind, ok = Number, p.Number() && (!p.strict || storable(string(p.Src[v.Start:p.At])))
	}
	if !ok {
		return nil
	}
	v.End = p.At
	return v
}

func (p *parser) object(v *Value, depth int) bool {
	first := len(p.members)
	more := p.Open('}')
	for more {
		if p.Space() != '"' {
			return false
		}
		m, ok := Member{NameStart: p.At}, false
		m.Name, ok = p.text(true)
		if !ok || p.Space() != ':' {
			return false
		}
		p.At++
		if depth == 0 && p.reader != nil {
			p.list = Child("", m.Name)
		}
		if m.Value = p.value(depth + 1); m.Value == nil {
			return false
		}
		p.members = append(p.members, m)
		if more, ok = p.More('}'); !ok {
			return false
		}
	}
	v.Members, p.members = p.store(p.members[first:]), p.members[:first]
	if len(v.Members) <= fewMembers {
		return !hasDuplicate(v.Members)
	}
	v.index = make(map[string]int, len(v.Members))
	for i := range v.Members {
		v.index[v.Members[i].Name] = i
	}
	return len(v.index) == len(v.Members)
}

// store copies the members of an object to the slab with the members of complete objects.
func (p *parser) store(members []Member) []Member {
	n := len(p.stored)
	if cap(p.stored)-n < len(members) {
		n, p.stored = 0, make([]Member, 0, max(len(members), min(64, cap(p.slab))))
	}
	p.stored = append(p.stored, members...)
	return p.stored[n:len(p.stored):len(p.stored)]
}

func (p *parser) array(v *Value, depth int) bool {
	first := len(p.elems)
	more, ok := p.Open(']'), true
	listed := p.reader != nil && (depth == 0 || depth == 1 && p.list != "")
	for i := 0; more; i++ {
		if listed {
			ok = p.listElement(i, depth)
		} else if e := p.element(depth); e != nil {
			p.elems = append(p.elems, e)
		} else {
			ok = false
		}
		if !ok {
			return false
		}
		if more, ok = p.More(']'); !ok {
			return false
		}
	}
	v.Elems, p.elems = slices.Clone(p.elems[first:]), p.elems[:first]
	return true
}

// text reads a string. Equal names share one string.
func (p *parser) text(name bool) (string, bool) {
	start := p.At
	raw, ok := p.String()
	if !ok {
		return "", false
	}
	if p.Escaped {
		b, err := jsontext.AppendUnquote(nil, p.Src[start:p.At])
		return string(b), err == nil && (!p.strict || bytes.IndexByte(b, 0) < 0)
	}
	if p.salvages && !utf8.Valid(raw) {
		return "", false
	}
	if !name {
		if p.deferStrings {
			return "", true
		}
		return string(raw), true
	}
	return p.intern(raw), true
}

// fewMembers is the number of members up to which names are compared one by one. An object
// with more has an index: a request may look up each of its members.
const fewMembers = 64

func hasDuplicate(members []Member) bool {
	var seen uint64 // one bit for each name; several names may share a bit
	for i := range members {
		name := members[i].Name
		bit := len(name)
		if bit > 0 {
			bit += 7*int(name[bit/2]) + 31*int(name[bit-1])
		}
		if seen&(1<<(bit%64)) != 0 && slices.ContainsFunc(members[:i], func(m Member) bool { return m.Name == name }) {
			return true
		}
		seen |= 1 << (bit % 64)
	}
	return false
}

// Get returns the member's value, or nil. It is safe on nil and on other kinds.
func (v *Value) Get(name string) *Value {
	if v == nil || v.Kind != Object {
		return nil
	}
	if i := v.position(name); i >= 0 {
		return v.Members[i].Value
	}
	return nil
}

// position returns the index of the member of an object, or -1.
func (v *Value) position(name string) int {
	if v.index != nil {
		if i, ok := v.index[name]; ok {
			return i
		}
		return -1
	}
	for i := range v.Members {
		if v.Members[i].Name == name {
			return i
		}
	}
	return -1
}

// List returns the elements of an array. Nil and other kinds have none.
func (v *Value) List() []*Value {
	if v == nil {
		return nil
	}
	return v.Elems
}

// Each calls f for each element of an array, with the element's pointer, until f
// returns an error. Nil and other kinds have none.
func (v *Value) Each(pointer string, f func(*Value, string) error) error {
	for i, e := range v.List() {
		if err := f(e, Index(pointer, i)); err != nil {
			return err
		}
	}
	return nil
}

// Text returns the decoded text of a string, or "".
func (v *Value) Text() string {
	if v == nil || v.Kind != String {
		return ""
	}
	return v.text
}

// Raw returns the value's source text; nil for nil.
func (d *Doc) Raw(v *Value) []byte {
	if v == nil {
		return nil
	}
	return d.Src[v.Start:v.End]
}

// Part returns a value of the document as a document of its own.
func (d *Doc) Part(v *Value) *Doc {
	part, _ := Parse(d.Raw(v), 0) // it was parsed before
	return part
}

// True reports whether the value is true, False whether it is false.
func (d *Doc) True(v *Value) bool  { return v != nil && v.Kind == Bool && d.Src[v.Start] == 't' }
func (d *Doc) False(v *Value) bool { return v != nil && v.Kind == Bool && d.Src[v.Start] == 'f' }

// At resolves a JSON pointer (RFC 6901), or returns nil.
func (d *Doc) At(pointer string) *Value {
	v := d.Root
	if pointer == "" {
		return v
	}
	for seg := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		if strings.IndexByte(seg, '~') >= 0 {
			seg = unescape.Replace(seg)
		}
		switch {
		case v == nil:
			return nil
		case v.Kind == Object:
			v = v.Get(seg)
		case v.Kind == Array:
			i, err := strconv.Atoi(seg)
			if err != nil || i < 0 || i >= len(v.Elems) {
				return nil
			}
			v = v.Elems[i]
		default:
			return nil
		}
	}
	return v
}

var (
	unescape = strings.NewReplacer("~1", "/", "~0", "~")
	escape   = strings.NewReplacer("~", "~0", "/", "~1")
)

// Child returns the pointer of a member under a pointer.
func Child(pointer, name string) string {
	if strings.ContainsAny(name, "~/") {
		name = escape.Replace(name)
	}
	return pointer + "/" + name
}

// Index returns the pointer of an element under a pointer.
func Index(pointer string, i int) string { return pointer + "/" + strconv.Itoa(i) }
