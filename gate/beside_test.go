package gate

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
)

func none(string) bool { return false }

// other reports whether metadata is other than what a stamp speaks for.
func other(s *memproxy.Stamp, metadata string) bool {
	there, err := besides([]byte(metadata))
	return s.Metadata != "" && err != nil || unlike(s, there)
}

// Proves EDGE-4: a stamp speaks for the metadata next to it, however a backend
// writes them; what was changed, renamed or taken out is seen, and what came to
// it is not.
func TestStampsSpeakForMetadata(t *testing.T) {
	const written = `{"about":"tea","n":0.70,"deep":{"b":[1,2],"a":"x"},"nil":null,"memproxy_id":"d","role":"user"}`
	mixed := func(name string) bool { return name == "role" }
	s := memproxy.Stamp{ID: "d", Metadata: sealed("d", []byte(written), mixed)}
	if len(s.Metadata) != 3*besideSize {
		t.Fatalf("%q speaks for %d members", s.Metadata, len(s.Metadata)/besideSize)
	}
	for _, tc := range []struct {
		there  string
		unlike bool
	}{
		{written, false},
		{`{"deep": {"a":"x","b":[1,2.0]}, "n":7e-1, "about":"\u0074ea"}`, false},
		{`{"about":"tea","n":0.7,"deep":{"b":[1,2],"a":"x"},"role":"assistant","created_at":"now"}`, false},
		{`{"about":"Eve","n":0.7,"deep":{"b":[1,2],"a":"x"}}`, true},
		{`{"About":"tea","n":0.7,"deep":{"b":[1,2],"a":"x"}}`, true},
		{`{"about":"tea","n":"0.7","deep":{"b":[1,2],"a":"x"}}`, true},
		{`{"about":"tea","n":0.7,"deep":{"b":[2,1],"a":"x"}}`, true},
		{`{"about":"tea","n":0.7}`, true},
		{`{"n":"tea","about":0.7,"deep":{"b":[1,2],"a":"x"}}`, true},
		{``, true}, {`{}`, true}, {`null`, true}, {`[]`, true}, {`{"about":"tea","about":"tea"`, true},
	} {
		if got := other(&s, tc.there); got != tc.unlike {
			t.Errorf("%s is unlike: %v", tc.there, got)
		}
	}
	if s.ID = "e"; !other(&s, written) {
		t.Error("hashes of one write speak for another")
	}
	for _, list := range []string{"x", s.Metadata[1:], strings.Repeat("A", besideSize)} {
		if !other(&memproxy.Stamp{ID: "d", Metadata: list}, written) {
			t.Errorf("%q is no list of hashes", list)
		}
	}
	if other(&memproxy.Stamp{ID: "d"}, `{"about":"Eve"}`) {
		t.Error("a stamp that says nothing of metadata accuses")
	}
	if sealed("d", []byte(`[1]`), none)+sealed("d", nil, none)+sealed("d", []byte(`{"a":1`), none) != "" {
		t.Error("what is no object is sealed")
	}
	many := map[string]int{}
	for i := range 1000 {
		many[fmt.Sprintf("k%03d", i)] = i
	}
	raw, err := json.Marshal(many)
	if err != nil {
		t.Fatal(err)
	}
	full := sealed("d", raw, none)
	if len(full) != maxBeside*besideSize || other(&memproxy.Stamp{ID: "d", Metadata: full}, string(raw)) {
		t.Errorf("%d bytes of hashes", len(full))
	}
}

// Whatever a backend gives as metadata, it is like itself, and no stamp grows
// over its bounds.
func FuzzBeside(f *testing.F) {
	f.Add([]byte(`{"about":"tea","n":0.70,"deep":{"b":[1,2]}}`), []byte(`{"about":"Eve"}`))
	f.Add([]byte(`{"a":1,"a":2}`), []byte("{\"\xff\":1}"))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		s := memproxy.Stamp{ID: "d", Metadata: sealed("d", a, none)}
		if len(s.Metadata)%besideSize != 0 || len(s.Metadata) > maxBeside*besideSize {
			t.Fatalf("%q", s.Metadata)
		}
		if other(&s, string(a)) {
			t.Fatalf("%q is not like itself", a)
		}
		o := memproxy.Stamp{ID: "d", Metadata: sealed("d", b, none)}
		if !other(&s, string(b)) && !other(&o, string(a)) && s.Metadata != o.Metadata && len(s.Metadata) < maxBeside*besideSize && len(o.Metadata) < maxBeside*besideSize {
			t.Fatalf("%q and %q speak for each other", a, b)
		}
	})
}
