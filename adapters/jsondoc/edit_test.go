package jsondoc_test

import (
	"strings"
	"testing"

	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

func parse(t testing.TB, src string) *jsondoc.Doc {
	t.Helper()
	doc, err := jsondoc.Parse([]byte(src), 0)
	must.Do(t, err, "Parse", src)
	return doc
}

func dropped(m *jsondoc.Member) bool { return strings.HasPrefix(m.Name, "x") }

// Proves CARD-2: an edit changes the edited bytes and no others.
func TestObject(t *testing.T) {
	tests := []struct{ name, src, add, want string }{
		{"nothing to do", `{"a": 1 , "b":2}`, ``, `{"a": 1 , "b":2}`},
		{"add to an empty object", `{ }`, `"n":1`, `{ "n":1}`},
		{"add at the end", "{\"a\": 1\n}", `"n":1`, "{\"a\": 1,\"n\":1\n}"},
		{"drop the only member", `{ "x":1 }`, ``, `{  }`},
		{"drop the only member and add", `{ "x":1 }`, `"n":1`, `{  "n":1}`},
		{"drop the first", `{ "x":1 , "a":2}`, ``, `{ "a":2}`},
		{"drop the last", `{"a":2 , "x":1 }`, ``, `{"a":2 }`},
		{"drop the last and add", `{"a":2 , "x":1 }`, `"n":1`, `{"a":2,"n":1 }`},
		{"drop between", `{"a":2,"x":1,"x2":{"x":3},"b":4}`, ``, `{"a":2,"b":4}`},
		{"drop both ends", `{"x":1,"a":2,"x2":1}`, `"n":1`, `{"a":2,"n":1}`},
		{"drop two at the start", `{"x":1,"x2":1, "a":2}`, `"n":1`, `{"a":2,"n":1}`},
		{"a nested member of the name stays", `{"a":{"x":1}}`, ``, `{"a":{"x":1}}`},
		{"numbers keep their spelling", `{"big":12345678901234567890,"f":1.0,"e":1E5,"x":0}`, ``, `{"big":12345678901234567890,"f":1.0,"e":1E5}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			doc := parse(t, tt.src)
			e := doc.Edit()
			var added [][]byte
			if tt.add != "" {
				added = [][]byte{[]byte(tt.add)}
			}
			e.Object(doc.Root, dropped, added)
			expect.Equal(t, string(e.Apply()), tt.want)
		})
	}
}

func TestArray(t *testing.T) {
	tests := []struct{ name, src, drop, want string }{
		{"none", `[ 1 , 2 ]`, "", `[ 1 , 2 ]`},
		{"all", `[ 1 , 2 ]`, "01", `[  ]`},
		{"first", `[ 1 , 2 ]`, "0", `[ 2 ]`},
		{"last", `[ 1 , 2 ]`, "1", `[ 1 ]`},
		{"between", `[1, 2, 3, 4]`, "12", `[1, 4]`},
		{"every other", `[1, 2, 3, 4]`, "02", `[2, 4]`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			doc := parse(t, tt.src)
			e := doc.Edit()
			e.Array(doc.Root, func(i int) bool { return strings.Contains(tt.drop, string(rune('0'+i))) })
			expect.Equal(t, string(e.Apply()), tt.want)
			if e.Empty() != (tt.drop == "") {
				t.Error("Empty is wrong")
			}
		})
	}
}

// Edits inside kept values and removals around them are independent.
func TestEditsTogether(t *testing.T) {
	doc := parse(t, `{"x":0,"m":{"c": 0.99 ,"x":"y"},"x2":1,"l":[{"x":1},{"a":2}]}`)
	e := doc.Edit()
	e.Replace(doc.At("/m/c"), []byte("0.7"))
	e.Object(doc.At("/m"), dropped, [][]byte{[]byte(`"n":1`), []byte(`"o":2`)})
	e.Object(doc.Root, dropped, nil)
	e.Array(doc.At("/l"), func(i int) bool { return i == 0 })
	const want = `{"m":{"c": 0.7,"n":1,"o":2},"l":[{"a":2}]}`
	expect.Equal(t, string(e.Apply()), want)
}

// Without changes the caller gets its own bytes, not a copy.
func TestApplyNothing(t *testing.T) {
	doc := parse(t, ` {"a":1} `)
	if got := doc.Edit().Apply(); &got[0] != &doc.Src[0] || len(got) != len(doc.Src) {
		t.Error("Apply copied an unedited source")
	}
}

// An edit inside a removed value is dropped.
func TestEditInsideRemoved(t *testing.T) {
	doc := parse(t, `[{"c":1},{"c":2}]`)
	e := doc.Edit()
	e.Replace(doc.At("/0/c"), []byte("9"))
	e.Array(doc.Root, func(i int) bool { return i == 0 })
	expect.Equal(t, string(e.Apply()), `[{"c":2}]`)
}
