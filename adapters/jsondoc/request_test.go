package jsondoc_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// Proves CARD-2, EDGE-13: values that a backend in Python would store differently, or
// could not return, are refused; the most similar plain ones are accepted.
func TestParseRequestRefuses(t *testing.T) {
	all := []refused{
		{"infinite", `{"a":1e999}`, memproxy.PayloadMalformed, `{"a":1e18}`},
		{"infinite below", `-1E+400`, memproxy.PayloadMalformed, `-1E+4`},
		{"a double that a database writes out", `1e300`, memproxy.PayloadMalformed, `9.2e18`},
		{"more than 64 bits", `9223372036854775808`, memproxy.PayloadMalformed, `9223372036854775807`},
		{"more than 64 bits below", `-9223372036854775809`, memproxy.PayloadMalformed, `-9223372036854775808`},
		{"more digits than Python reads", strings.Repeat("9", 5000), memproxy.PayloadMalformed, `99999`},
		{"many digits after the point", "0." + strings.Repeat("1", 200), memproxy.PayloadMalformed, "0." + strings.Repeat("1", 60)},
		{"an integer zero with a sign", `-0`, memproxy.PayloadMalformed, `-0.0`},
		{"nothing left of it", `1e-400`, memproxy.PayloadMalformed, `0e-400`},
		{"next to nothing left of it", `1e-320`, memproxy.PayloadMalformed, `1e-300`},
		{"NUL in a string", `{"a":["x\u0000y"]}`, memproxy.PayloadEncoding, `{"a":["x\u0001y"]}`},
		{"NUL in a name", `{"\u0000":1}`, memproxy.PayloadEncoding, `{"0":1}`},
		{"deeper than requests may be", deep(jsondoc.DefaultRequestDepth + 2), memproxy.PayloadTooDeep, deep(jsondoc.DefaultRequestDepth + 1)},
	}
	refuses(t, jsondoc.ParseRequest, all)
	for _, tt := range all {
		if _, err := jsondoc.Parse([]byte(tt.bad), 0); err != nil && tt.code != memproxy.PayloadTooDeep {
			t.Errorf("%s: %v: an answer with it could not be read", tt.name, err)
		}
	}
	if jsondoc.DefaultMaxDepth < 2*jsondoc.DefaultRequestDepth {
		t.Error("answers may hardly nest deeper than requests")
	}
}

func TestFold(t *testing.T) {
	for name, want := range map[string][2]string{
		"user_id": {"user_id", "userid"}, "USER_ID": {"user_id", "userid"}, "u\u017fer_id": {"user_id", "userid"},
		"\uff55ser_id": {"user_id", "userid"}, "user\u200b_id": {"user_id", "userid"}, "userId": {"userid", "userid"},
		"user-id": {"user-id", "userid"}, "\u212a": {"k", "k"}, "Ünï": {"ünï", "ünï"}, "": {"", ""}, "metadata_": {"metadata_", "metadata"},
	} {
		expect.Equal(t, [2]string{jsondoc.Fold(name), jsondoc.Squash(name)}, want, name, "folds to")
	}
}

// A known name in two spellings is found, an unknown one is not.
func TestAlias(t *testing.T) {
	known := func(name string) bool { return name == "user_id" || name == "metadata" }
	for body, want := range map[string]string{
		`{"userId":1,"user_id":2}`: "userId", `{"metadata":{},"metadata_":{}}`: "metadata_", `{"user-id":1,"user_id":2}`: "user-id",
		`{"userId":"a","user_id":"a"}`: "", `{"userId":"a","user_id":"b"}`: "userId", `{"userId":true,"user_id":false}`: "userId", `{"userId":["a"],"user_id":["a"]}`: "",
		`{"userId":1}`: "", `{"a_b":1,"aB":2}`: "", `{"user_id":1,"metadata":{}}`: "", `{}`: "",
	} {
		doc := must.Get(jsondoc.ParseRequest([]byte(body), 0))(t)
		if m, ok := jsondoc.Alias(doc.Root, known); ok != (want != "") || m.Name != want {
			t.Errorf("%s: %q, %v", body, m.Name, ok)
		}
	}
}

// An accepted request can be read in an answer that wraps it, and its numbers are the
// same for readers of doubles and of integers.
func FuzzParseRequest(f *testing.F) {
	for _, s := range append(seeds, `1e999`, `-0`, `123456789012345678901`, `{"a":[0.1e-300,9e18]}`, `"\u0000"`) {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		doc, err := jsondoc.ParseRequest(src, 0)
		if err != nil {
			return
		}
		wrapped := []byte(`{"results":[{"metadata":{"payload":{"a":[` + string(src) + `]}}}]}`)
		if _, err := jsondoc.Parse(wrapped, 0); err != nil {
			t.Errorf("%q is accepted and cannot be read back: %v", src, err)
		}
		var walk func(v *jsondoc.Value)
		walk = func(v *jsondoc.Value) {
			if v.Kind == jsondoc.Number {
				var n float64
				if err := json.Unmarshal(doc.Raw(v), &n); err != nil || math.IsInf(n, 0) {
					t.Errorf("%s is accepted: %v", doc.Raw(v), err)
				}
			}
			if strings.ContainsRune(v.Text(), 0) {
				t.Errorf("%q is accepted", src)
			}
			for _, m := range v.Members {
				walk(m.Value)
			}
			for _, e := range v.Elems {
				walk(e)
			}
		}
		walk(doc.Root)
	})
}

// Proves EDGE-14: the time for an object of many members grows with their number.
func TestAliasOfManyMembers(t *testing.T) {
	const n = 2000
	v, calls := &jsondoc.Value{Kind: jsondoc.Object}, 0
	for i := range n {
		v.Members = append(v.Members, jsondoc.Member{Name: fmt.Sprint("k", i), Value: &jsondoc.Value{}})
	}
	_, found := jsondoc.Alias(v, func(string) bool { calls++; return false })
	if found || calls > 2*n {
		t.Errorf("found %v, %d names asked about; want none and at most %d", found, calls, 2*n)
	}
}
