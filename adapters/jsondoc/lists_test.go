package jsondoc_test

import (
	"bytes"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// taker notes the elements of lists, takes those of some of them and knows some.
type taker struct {
	t      *testing.T
	doc    *jsondoc.Doc
	takes  func(list string, i int) bool
	knows  bool
	values map[string]any // by pointer
}

func (k *taker) KnownLength(list string, i int, rest []byte) int {
	n := bytes.IndexByte(rest, '}') + 1
	if !k.knows || i%3 != 1 || n == 0 || strings.ReplaceAll(string(rest[:n]), " ", "") != "{}" {
		return 0
	}
	k.values[jsondoc.Index(list, i)] = map[string]any{}
	return n
}

func (k *taker) ReadElement(list string, i int, v *jsondoc.Value, text string) (bool, error) {
	if raw := string(k.doc.Raw(v)); text != "" && text != raw || text == "" && len(raw) <= jsondoc.MaxShared {
		k.t.Errorf("the text of %q is %q", raw, text)
	}
	k.values[jsondoc.Index(list, i)] = plain(k.t, k.doc, v)
	return k.takes(list, i), nil
}

// An answer whose elements are taken is read like one that is parsed as a whole.
func FuzzParseLists(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	long := `{"id":"a","memory":"` + strings.Repeat("x", jsondoc.MaxShared) + `\n"}`
	many := strings.Repeat(`{"id":"a","b":[{"c":"d\u00e4"},{}],"e":{"f":{}}},{ },`, 90) + `7`
	for _, s := range []string{`[{"a":"b"},"c",[{"d":1}],null]`, `{"results":[{"a":"\"b"},{}],"x":{"results":[{}]},"":[{"y":""}]}`, `{"a":[{"b":1},{"b":1,"b":2}]}`, `[` + long + `]`, `{"r":[` + many + `],"s":[` + many + `]}`, `{"a":[{}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		whole, want := jsondoc.Parse(src, 0)
		for name, takes := range map[string]func(string, int) bool{
			"all":  func(string, int) bool { return true },
			"none": func(string, int) bool { return false },
			"some": func(list string, i int) bool { return (len(list)+i)%2 == 0 },
		} {
			k := &taker{t, &jsondoc.Doc{Src: src}, takes, name != "none", map[string]any{}}
			doc, err := jsondoc.ParseLists(src, k, jsondoc.MaxShared)
			must.Equal(t, fmt.Sprint(err), fmt.Sprint(want), name, src, err, "as a whole", want)
			if err != nil {
				continue
			}
			all := map[string]any{}
			lists := map[string]*jsondoc.Value{"": whole.Root}
			for _, m := range whole.Root.Members {
				lists[jsondoc.Child("", m.Name)] = m.Value
			}
			for at, list := range lists {
				for i, e := range list.Elems {
					all[at+"/"+strconv.Itoa(i)] = plain(t, whole, e)
				}
			}
			expect.Deep(t, k.values, all, name, src, "is taken as")
			if name == "none" && !reflect.DeepEqual(doc, whole) {
				t.Errorf("%q is parsed differently", src)
			}
		}
	})
}
