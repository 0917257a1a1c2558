package jsondoc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
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
	text       string // decoded, of strings
}

// Member is one name and value of an object, in the order of the source.
type Member struct {
	Name               string
	NameStart, NameEnd int
	Value              *Value
}

// Doc is a parsed body.
type Doc struct {
	Src  []byte
	Root *Value
}

// DefaultMaxDepth bounds the nesting of answers. Requests have a stricter
// bound, see ParseRequest.
const DefaultMaxDepth = 128

// Parse reads a body. Errors are *memproxy.Malformed.
func Parse(src []byte, maxDepth int) (*Doc, error) {
	if maxDepth <= 0 {
		maxDepth = DefaultMaxDepth
	}
	return parse(src, maxDepth, false)
}

// parse reads a body; strict as ParseRequest does.
func parse(src []byte, maxDepth int, strict bool) (*Doc, error) {
	if err := plainText(src); err != nil {
		return nil, err
	}
	p := parser{src: src, max: maxDepth, strict: strict, dec: decoders.Get().(*jsontext.Decoder)}
	p.dec.Reset(bytes.NewBuffer(src))
	defer func() {
		p.dec.Reset(new(bytes.Buffer)) // it must not hold on to the body
		decoders.Put(p.dec)
	}()
	root, err := p.value(0)
	if err != nil {
		return nil, p.malformed(err)
	}
	if _, err := p.dec.ReadToken(); err != io.EOF {
		return nil, &memproxy.Malformed{Code: memproxy.PayloadMalformed, Status: 400, Detail: "there is more after the JSON value"}
	}
	return &Doc{Src: src, Root: root}, nil
}

// plainText refuses what some JSON parsers take for text in another encoding.
func plainText(src []byte) error {
	switch {
	case len(bytes.TrimSpace(src)) == 0:
		return &memproxy.Malformed{Code: memproxy.PayloadMalformed, Status: 400, Detail: "the body is empty"}
	case bytes.HasPrefix(src, []byte("\xef\xbb\xbf")), bytes.IndexByte(src, 0) >= 0, !utf8.Valid(src):
		return &memproxy.Malformed{Code: memproxy.PayloadEncoding, Status: 400, Detail: "the body is not plain UTF-8"}
	}
	return nil
}

type parser struct {
	src    []byte
	dec    *jsontext.Decoder
	max    int
	strict bool
	slab   []Value
	names  map[string]string
	// members and elems of the objects and arrays that are not complete.
	members []Member
	elems   []*Value
}

// decoders are kept for their buffers.
var decoders = sync.Pool{New: func() any { return jsontext.NewDecoder(new(bytes.Buffer)) }}

// make returns a value out of a slab: a body of ordinary size takes one allocation
// for all its values, of which it has hardly more than commas and brackets.
func (p *parser) make(v Value) *Value {
	if len(p.slab) == cap(p.slab) {
		n := 1024
		if p.slab == nil {
			n = min(4*n, 1+bytes.Count(p.src, []byte(","))+bytes.Count(p.src, []byte("["))+bytes.Count(p.src, []byte("{")))
		}
		p.slab = make([]Value, 0, n)
	}
	p.slab = append(p.slab, v)
	return &p.slab[len(p.slab)-1]
}

var (
	errDeep   = errors.New("too deep")
	errNumber = errors.New("a number that readers differ about")
	errNUL    = errors.New("NUL in a string")
)

func (p *parser) value(depth int) (*Value, error) {
	if depth > p.max {
		return nil, errDeep
	}
	tok, err := p.dec.ReadToken()
	if err != nil {
		return nil, err
	}
	end := int(p.dec.InputOffset())
	switch tok.Kind() {
	case '{':
		v, first := p.make(Value{Kind: Object, Start: end - 1}), len(p.members)
		for p.dec.PeekKind() != '}' {
			name, err := p.dec.ReadToken()
			if err != nil {
				return nil, err
			}
			m := Member{NameEnd: int(p.dec.InputOffset())}
			m.NameStart = p.stringStart(m.NameEnd)
			m.Name = p.name(name, p.src[m.NameStart+1:m.NameEnd-1])
			if p.strict && strings.IndexByte(m.Name, 0) >= 0 {
				return nil, errNUL
			}
			if m.Value, err = p.value(depth + 1); err != nil {
				return nil, err
			}
			p.members = append(p.members, m)
		}
		if _, err := p.dec.ReadToken(); err != nil {
			return nil, err
		}
		v.Members, p.members = slices.Clone(p.members[first:]), p.members[:first]
		v.End = int(p.dec.InputOffset())
		return v, nil
	case '[':
		v, first := p.make(Value{Kind: Array, Start: end - 1}), len(p.elems)
		for p.dec.PeekKind() != ']' {
			e, err := p.value(depth + 1)
			if err != nil {
				return nil, err
			}
			p.elems = append(p.elems, e)
		}
		if _, err := p.dec.ReadToken(); err != nil {
			return nil, err
		}
		v.Elems, p.elems = slices.Clone(p.elems[first:]), p.elems[:first]
		v.End = int(p.dec.InputOffset())
		return v, nil
	case '"':
		text := tok.String()
		if p.strict && strings.IndexByte(text, 0) >= 0 {
			return nil, errNUL
		}
		return p.make(Value{Kind: String, Start: p.stringStart(end), End: end, text: text}), nil
	case '0':
		start := end
		for start > 0 && strings.IndexByte("+-.0123456789Ee", p.src[start-1]) >= 0 {
			start--
		}
		if p.strict && !storable(string(p.src[start:end])) {
			return nil, errNumber
		}
		return p.make(Value{Kind: Number, Start: start, End: end}), nil
	case 't':
		return p.make(Value{Kind: Bool, Start: end - 4, End: end}), nil
	case 'f':
		return p.make(Value{Kind: Bool, Start: end - 5, End: end}), nil
	}
	return p.make(Value{Kind: Null, Start: end - 4, End: end}), nil
}

// name is the name of a member, which has one copy however many objects have it.
func (p *parser) name(token jsontext.Token, source []byte) string {
	if bytes.IndexByte(source, '\\') >= 0 {
		return token.String()
	}
	name, known := p.names[string(source)]
	if !known {
		if p.names == nil {
			p.names = map[string]string{}
		}
		name = string(source)
		p.names[name] = name
	}
	return name
}

// stringStart finds the opening quote of the string that ends at end.
func (p *parser) stringStart(end int) int {
	for i := end - 2; i >= 0; i-- {
		if p.src[i] != '"' {
			continue
		}
		slashes := 0
		for j := i - 1; j >= 0 && p.src[j] == '\\'; j-- {
			slashes++
		}
		if slashes%2 == 0 {
			return i
		}
	}
	return 0
}

func (p *parser) malformed(err error) error {
	m := &memproxy.Malformed{Code: memproxy.PayloadMalformed, Status: 400, Detail: "the body is not valid JSON", Pointer: string(p.dec.StackPointer())}
	switch {
	case errors.Is(err, errDeep):
		m.Code, m.Detail = memproxy.PayloadTooDeep, fmt.Sprintf("the body is nested deeper than %d, which limits.depth of the backend sets", p.max)
	case errors.Is(err, errNumber):
		m.Detail = "a number is not a finite one of at most 64 bits, and would be stored as another"
	case errors.Is(err, errNUL):
		m.Code, m.Detail = memproxy.PayloadEncoding, "a string holds the character NUL, which cannot be stored"
	case errors.Is(err, jsontext.ErrDuplicateName):
		m.Code, m.Detail = memproxy.PayloadDuplicate, "a key stands twice in one object"
	case strings.Contains(err.Error(), "UTF-8"), strings.Contains(err.Error(), "surrogate"):
		m.Code, m.Detail = memproxy.PayloadEncoding, "a string is not valid Unicode"
	}
	return m
}

// Get returns the member's value, or nil. It is safe on nil and on other kinds.
func (v *Value) Get(name string) *Value {
	if v == nil || v.Kind != Object {
		return nil
	}
	for i := range v.Members {
		if v.Members[i].Name == name {
			return v.Members[i].Value
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

// Raw is the value's source text.
func (d *Doc) Raw(v *Value) []byte { return d.Src[v.Start:v.End] }

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
		seg = unescape.Replace(seg)
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

// Child is the pointer of a name under a pointer.
func Child(pointer, name string) string {
	if strings.ContainsAny(name, "~/") {
		name = escape.Replace(name)
	}
	return pointer + "/" + name
}

// Index is the pointer of an element under a pointer.
func Index(pointer string, i int) string { return pointer + "/" + strconv.Itoa(i) }
