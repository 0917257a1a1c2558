package jsondoc_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// Proves CARD-2: an ambiguous body is refused, and the most similar unambiguous one is
// accepted.
func TestParseRefuses(t *testing.T) {
	many := func(n int, last string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `"%d":0,`, i)
		}
		return "{" + b.String() + last + ":0}"
	}
	refuses(t, jsondoc.Parse, []refused{
		{"a name twice", `{"a":1,"a":2}`, memproxy.PayloadDuplicate, `{"a":1,"b":2}`},
		{"a name twice, once escaped", `{"a":1,"\u0061":2}`, memproxy.PayloadDuplicate, `{"a":1,"\u0062":2}`},
		{"a name twice, deep", `[{"x":{"a":1,"a":1}}]`, memproxy.PayloadDuplicate, `[{"x":{"a":1},"a":1}]`},
		{"a name twice, among others of its length and end", `{"aba":1,"bba":1,"aba":1}`, memproxy.PayloadDuplicate, `{"aba":1,"bba":1,"cba":1}`},
		{"a name twice, among many", many(60, `"7"`), memproxy.PayloadDuplicate, many(60, `"60"`)},
		{"a name twice, among very many", many(5000, `"\u0037"`), memproxy.PayloadDuplicate, many(5000, `"\u0061"`)},
		{"half an escape", `"\u00"`, memproxy.PayloadMalformed, `"\u0000"`},
		{"an escape that is none", `"\x41"`, memproxy.PayloadMalformed, `"\/"`},
		{"two first halves of a pair", `"\ud83d\ud83d"`, memproxy.PayloadEncoding, `"\uD83D\uDE00"`},
		{"an exponent without digits", `1e+`, memproxy.PayloadMalformed, `1e+0`},
		{"nothing", ``, memproxy.PayloadMalformed, `null`},
		{"blanks", " \r\n\t", memproxy.PayloadMalformed, " \r\n\t0"},
		{"a byte order mark", "\xef\xbb\xbf{}", memproxy.PayloadEncoding, `{}`},
		{"UTF-16", "{\x00}\x00", memproxy.PayloadEncoding, `{"\u0000":0}`},
		{"UTF-16 with its mark", "\xff\xfe{\x00}\x00", memproxy.PayloadEncoding, `{}`},
		{"Latin-1", "\"caf\xe9\"", memproxy.PayloadEncoding, `"café"`},
		{"a lone surrogate", `"\ud800"`, memproxy.PayloadEncoding, `"\ud83d\ude00"`},
		{"a lone surrogate in a name", `{"\udc00":1}`, memproxy.PayloadEncoding, `{"\u00dc":1}`},
		{"a second value", `{} {}`, memproxy.PayloadMalformed, `{} `},
		{"a stray brace", `{}}`, memproxy.PayloadMalformed, "{}\n"},
		{"NaN", `{"a":NaN}`, memproxy.PayloadMalformed, `{"a":"NaN"}`},
		{"Infinity", `[-Infinity]`, memproxy.PayloadMalformed, `[-1e999]`},
		{"a comma too many in an object", `{"a":1,}`, memproxy.PayloadMalformed, `{"a":1}`},
		{"a comma too many in an array", `[1,]`, memproxy.PayloadMalformed, `[1]`},
		{"single quotes", `{'a':1}`, memproxy.PayloadMalformed, `{"a":"'"}`},
		{"a comment", `{"a":1/**/}`, memproxy.PayloadMalformed, `{"a":"/**/"}`},
		{"a leading zero", `01`, memproxy.PayloadMalformed, `0.1`},
		{"a plus sign", `+1`, memproxy.PayloadMalformed, `1e+1`},
		{"a raw newline in a string", "\"a\nb\"", memproxy.PayloadMalformed, `"a\nb"`},
		{"cut short", `{"a":[1`, memproxy.PayloadMalformed, `{"a":[1]}`},
		{"too deep", deep(130), memproxy.PayloadTooDeep, deep(129)},
	})
}

func deep(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }

// refused is a body that is refused, and the most similar one that is read.
type refused struct {
	name, bad string
	code      memproxy.ReasonCode
	good      string
}

func refuses(t *testing.T, parse func([]byte, int) (*jsondoc.Doc, error), all []refused) {
	for _, tt := range all {
		t.Run(tt.name, func(t *testing.T) {
			_, err := parse([]byte(tt.bad), 0)
			var m *memproxy.Flaw
			if !errors.As(err, &m) || m.Code != tt.code || m.Status != 400 {
				t.Errorf("%.60q: %v, want %s", tt.bad, err, tt.code)
			}
			if _, err := parse([]byte(tt.good), 0); err != nil {
				t.Errorf("%.60q: %v, want a document", tt.good, err)
			}
		})
	}
}

// An error never quotes the refused body.
func TestParseErrorsDoNotQuote(t *testing.T) {
	for _, src := range []string{`{"note":"s3cret",}`, `"s3cret` + "\xff" + `"`, `{"a":"s3cret"} s3cret`} {
		_, err := jsondoc.Parse([]byte(src), 0)
		if err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("Parse(%q) = %v", src, err)
		}
	}
}

// An error names the member at fault, and says what is wrong with it. Proves EDGE-18.
func TestParseErrorsNameTheMember(t *testing.T) {
	for src, want := range map[string]string{
		`{"user_id":"a","infer":true,"user_id":"b"}`:        "a key is repeated in one object: /user_id",
		`{"metadata":{"a":1,"b":{"c":2},"a":3}}`:            "a key is repeated in one object: /metadata/a",
		`{"messages":[{"role":"a"},{"role":"b","role":1}]}`: "a key is repeated in one object: /messages/1/role",
		`{"a":1,"n":NaN}`:    "the body is not valid JSON: /n",
		"\xef\xbb\xbf{}":     "the body begins with a byte order mark",
		"{\"a\":\"\xff\"}":   "the body is not valid UTF-8",
		"\xff\xfe{\x00}\x00": "the body is not valid UTF-8",
	} {
		_, err := jsondoc.Parse([]byte(src), 0)
		var m *memproxy.Flaw
		if !errors.As(err, &m) {
			t.Fatalf("%q: %v", src, err)
		}
		said := m.Detail
		if m.Pointer != "" {
			said += ": " + m.Pointer
		}
		expect.Equal(t, said, want, src)
	}
}

func TestSpans(t *testing.T) {
	src := ` {"a" : [1, -2.50e+3 ,true,false , null], "q\"\\" :"\u0041\"\\", "": {} } `
	doc := must.Get(jsondoc.Parse([]byte(src), 0))(t)
	for pointer, want := range map[string]string{
		"/a/0": `1`, "/a/1": `-2.50e+3`, "/a/2": `true`, "/a/3": `false`, "/a/4": `null`,
		"/q\"\\": `"\u0041\"\\"`, "/": `{}`, "/a": `[1, -2.50e+3 ,true,false , null]`, "": strings.TrimSpace(src),
	} {
		v := doc.At(pointer)
		if v == nil || string(doc.Raw(v)) != want {
			t.Errorf("At(%q) is not %s", pointer, want)
		}
	}
	for i, want := range []string{`"a"`, `"q\"\\"`, `""`} {
		expect.Equal(t, nameOf(doc, doc.Root.Members[i]), want, "name", i, "spans")
	}
	expect.Equal(t, doc.At("/q\"\\").Text(), `A"\`, "Text")
	if !doc.True(doc.At("/a/2")) || doc.True(doc.At("/a/3")) || !doc.False(doc.At("/a/3")) || doc.False(doc.At("/a/4")) || doc.True(nil) {
		t.Error("True and False disagree with the source")
	}
}

func TestPointers(t *testing.T) {
	doc := must.Get(jsondoc.Parse([]byte(`{"a/b":{"c~d":[10,{"~1":11}]}}`), 0))(t)
	p := jsondoc.Child(jsondoc.Index(jsondoc.Child(jsondoc.Child("", "a/b"), "c~d"), 1), "~1")
	if p != "/a~1b/c~0d/1/~01" || string(doc.Raw(doc.At(p))) != "11" {
		t.Errorf("At(%q) misses", p)
	}
	for _, p := range []string{"/a", "/a~1b/c~0d/2", "/a~1b/c~0d/-1", "/a~1b/c~0d/x", "/a~1b/c~0d/0/0", "/x/y"} {
		if doc.At(p) != nil {
			t.Errorf("At(%q) finds something", p)
		}
	}
	var none *jsondoc.Value
	if none.Get("a") != nil || none.Text() != "" || doc.Root.Text() != "" || doc.At("/a~1b/c~0d").Get("x") != nil {
		t.Error("Get and Text are not safe on nil and other kinds")
	}
}

// A document has nothing of the one parsed before it and loses nothing to the one after it,
// also if that is refused or has many names.
func TestDocumentsShareNothing(t *testing.T) {
	var names strings.Builder
	for i := range 70 {
		fmt.Fprintf(&names, `,"name %d":%d`, i, i)
	}
	for _, before := range []string{`{"a":1,"b":[2,{"c":3,"d":[`, `{"a":[1,2,3]` + names.String() + `}`, `[[[{"d":1,"c":2,"a":3}]]]`, `{"a":1,"a":2}`, `{"a`} {
		_, _ = jsondoc.Parse([]byte(before), 0)
		const text = `{"b":[1,{"a":2}],"a":"x","c":{}}`
		doc := must.Get(jsondoc.Parse([]byte(text), 0))(t)
		_, _ = jsondoc.Parse([]byte(before), 0)
		got := ""
		for _, m := range doc.Root.Members {
			got += fmt.Sprintf("%s %s;", m.Name, doc.Raw(m.Value))
		}
		expect.Equal(t, got, `b [1,{"a":2}];a "x";c {};`, before)
		expect.Equal(t, string(doc.Raw(doc.At("/b/1/a"))), "2", before)
	}
}
