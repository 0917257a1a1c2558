package jsondoc_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

var seeds = []string{
	`{}`, `[]`, `null`, `"\ud83d\ude00"`, `-0.0e-0`, `{"a":[1,{"b":"c\\\"d"}],"x":true,"":""}`, ` { "x" : 1 , "x2":[ ] , "a":{"x":null}} `,
	`{"a":1,"\u0061":2}`, `{"a":1,}`, `[1,2,]`, `NaN`, `{"a":tru}`, "\xef\xbb\xbf{}", "{\x00}\x00", `"\ud800"`, `[[[[[[[[[[[[]]]]]]]]]]]]`, `{"a":1}{}`, "[1\f]",
}

// Accepted bodies are accepted by two other parsers; refused ones are refused by the
// strict one, or are too deep.
func FuzzParse(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		const depth = 20
		doc, err := jsondoc.Parse(src, depth)
		if err != nil {
			var m *memproxy.Flaw
			if !errors.As(err, &m) || m.Status != 400 {
				t.Fatalf("%q: %v", src, err)
			}
			if v := jsontext.Value(src); v.IsValid() && m.Code != memproxy.PayloadTooDeep {
				t.Errorf("%q is JSON and refused: %v", src, err)
			}
			return
		}
		var want any
		if err := json.Unmarshal(src, &want); err != nil {
			var huge *json.UnmarshalTypeError // JSON, and a number beyond float64
			if errors.As(err, &huge) && json.Valid(src) {
				return
			}
			t.Fatalf("%q is accepted; encoding/json says %v", src, err)
		}
		expect.Deep(t, plain(t, doc, doc.Root), want, src, "reads as")
		spans(t, doc, doc.Root, "")
		if strict, err := jsondoc.ParseRequest(src, depth); err == nil && !reflect.DeepEqual(strict.Root, doc.Root) {
			t.Errorf("%q is read in two ways", src)
		}
	})
}

// plain converts a value to that of encoding/json.
func plain(t *testing.T, doc *jsondoc.Doc, v *jsondoc.Value) any {
	switch v.Kind {
	case jsondoc.Object:
		out := map[string]any{}
		for _, m := range v.Members {
			out[m.Name] = plain(t, doc, m.Value)
		}
		return out
	case jsondoc.Array:
		out := []any{}
		for _, e := range v.Elems {
			out = append(out, plain(t, doc, e))
		}
		return out
	case jsondoc.String:
		return v.Text()
	case jsondoc.Bool:
		return doc.True(v)
	case jsondoc.Null:
		return nil
	}
	var f float64
	if err := json.Unmarshal(doc.Raw(v), &f); err != nil {
		t.Skip("a number beyond float64")
	}
	return f
}

// spans checks every span against its value, and every pointer.
func spans(t *testing.T, doc *jsondoc.Doc, v *jsondoc.Value, ptr string) {
	if !jsontext.Value(doc.Raw(v)).IsValid() || len(bytes.TrimSpace(doc.Raw(v))) != len(doc.Raw(v)) {
		t.Errorf("%q: the span %q is no value", ptr, doc.Raw(v))
	}
	if doc.At(ptr) != v {
		t.Errorf("%q does not lead to its value", ptr)
	}
	for _, m := range v.Members {
		var name string
		must.Do(t, json.Unmarshal([]byte(nameOf(doc, m)), &name), ptr, "the name's span is", nameOf(doc, m))
		expect.Equal(t, name, m.Name, ptr, "the name's span is", nameOf(doc, m))
		spans(t, doc, m.Value, jsondoc.Child(ptr, m.Name))
	}
	for i, e := range v.Elems {
		spans(t, doc, e, jsondoc.Index(ptr, i))
	}
}

// nameOf is a member's name in the source.
func nameOf(doc *jsondoc.Doc, m jsondoc.Member) string {
	return strings.TrimRight(string(doc.Src[m.NameStart:m.Value.Start]), ": \t\r\n")
}

// Edits by bytes and edits by value have the same result.
func FuzzEdit(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s), uint(5), true)
		f.Add([]byte(s), uint(2), false)
	}
	f.Fuzz(func(t *testing.T, src []byte, mask uint, add bool) {
		doc, err := jsondoc.Parse(src, 12)
		if err != nil {
			return
		}
		e := doc.Edit()
		ed := editor{doc: doc, e: e, mask: mask, add: add}
		want := ed.edit(doc.Root)
		out := e.Apply()
		if _, err := jsondoc.Parse(out, 20); err != nil {
			t.Fatalf("%q became %q: %v", src, out, err)
		}
		got := jsontext.Value(bytes.Clone(out))
		must.Do(t, got.Compact())
		expect.Equal(t, string(got), want, src, "became")
	})
}

// editor makes the same edits twice: in the document, and in compact text that it
// builds itself.
type editor struct {
	doc  *jsondoc.Doc
	e    *jsondoc.Edits
	mask uint
	add  bool
}

func (ed *editor) edit(v *jsondoc.Value) string {
	var parts []string
	switch v.Kind {
	case jsondoc.Object:
		for _, m := range v.Members {
			text := ed.edit(m.Value) // edits inside dropped values are dropped
			if !dropped(&m) {
				parts = append(parts, nameOf(ed.doc, m)+":"+text)
			}
		}
		var added [][]byte
		if ed.add {
			if ed.doc.Root.Get("new") == nil && v.Get("new") == nil {
				added = [][]byte{[]byte(`"new":0`)}
				parts = append(parts, `"new":0`)
			}
		}
		ed.e.Object(v, dropped, added)
		return "{" + strings.Join(parts, ",") + "}"
	case jsondoc.Array:
		gone := func(i int) bool { return ed.mask>>(uint(i)%8)&1 == 1 }
		for i, el := range v.Elems {
			if text := ed.edit(el); !gone(i) {
				parts = append(parts, text)
			}
		}
		ed.e.Array(v, gone)
		return "[" + strings.Join(parts, ",") + "]"
	case jsondoc.Number:
		ed.e.Replace(v, []byte("7"))
		return "7"
	}
	return string(ed.doc.Raw(v))
}
