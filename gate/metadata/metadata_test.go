package metadata_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate/metadata"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// A stamp has 64 bits of hash for each of so many members.
const hashLen, mostMembers = 11, 24

func none(string) bool { return false }

// Proves EDGE-4: a stamp speaks for the metadata next to it, however a backend
// writes them; what was changed, renamed or taken out is seen, and what came to
// it is not.
func TestStampsCoverMetadata(t *testing.T) {
	const written = `{"about":"tea","n":0.70,"deep":{"b":[1,2],"a":"x"},"nil":null,"memproxy_id":"d","role":"user"}`
	mixed := func(name string) bool { return name == "role" }
	s := memproxy.Stamp{ID: "d", Metadata: metadata.Hashes("d", []byte(written), mixed)}
	must.Len(t, s.Metadata, 3*hashLen, len(s.Metadata)/hashLen)
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
		expect.Equal(t, metadata.Differs(&s, []byte(tc.there)), tc.unlike, tc.there, "is unlike")
	}
	if s.ID = "e"; !metadata.Differs(&s, []byte(written)) {
		t.Error("hashes of one write speak for another")
	}
	for _, list := range []string{"x", s.Metadata[1:], strings.Repeat("A", hashLen)} {
		if !metadata.Differs(&memproxy.Stamp{ID: "d", Metadata: list}, []byte(written)) {
			t.Errorf("%q is no list of hashes", list)
		}
	}
	if metadata.Differs(&memproxy.Stamp{ID: "d"}, []byte(`{"about":"Eve"}`)) {
		t.Error("a stamp that says nothing of metadata accuses")
	}
	if metadata.Hashes("d", []byte(`[1]`), none)+metadata.Hashes("d", nil, none)+metadata.Hashes("d", []byte(`{"a":1`), none) != "" {
		t.Error("what is no object is sealed")
	}
	many := map[string]int{}
	for i := range 1000 {
		many[fmt.Sprintf("k%03d", i)] = i
	}
	raw := must.Get(json.Marshal(many))(t)
	full := metadata.Hashes("d", raw, none)
	if len(full) != mostMembers*hashLen || metadata.Differs(&memproxy.Stamp{ID: "d", Metadata: full}, raw) {
		t.Errorf("%d bytes of hashes", len(full))
	}
}

// Whatever a backend gives as metadata, it is like itself, and no stamp grows
// over its bounds.
func FuzzMetadata(f *testing.F) {
	f.Add([]byte(`{"about":"tea","n":0.70,"deep":{"b":[1,2]}}`), []byte(`{"about":"Eve"}`))
	f.Add([]byte(`{"a":1,"a":2}`), []byte("{\"\xff\":1}"))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		s := memproxy.Stamp{ID: "d", Metadata: metadata.Hashes("d", a, none)}
		if len(s.Metadata)%hashLen != 0 || len(s.Metadata) > mostMembers*hashLen {
			t.Fatalf("%q", s.Metadata)
		}
		if metadata.Differs(&s, a) {
			t.Fatalf("%q is not like itself", a)
		}
		o := memproxy.Stamp{ID: "d", Metadata: metadata.Hashes("d", b, none)}
		if !metadata.Differs(&s, b) && !metadata.Differs(&o, a) && s.Metadata != o.Metadata && len(s.Metadata) < mostMembers*hashLen && len(o.Metadata) < mostMembers*hashLen {
			t.Fatalf("%q and %q speak for each other", a, b)
		}
	})
}

// A number that is taken for canonical at first sight is in canonical form.
func TestShortNumbersAreCanonical(t *testing.T) {
	numbers := []string{"0", "0.0", "-0", "-1.5", "1.0", "0.70", "0.000001", "0.0000001", "0.00000123", "0.1234567890123", "123456789.12345", "999999999999999", "100000000000000000000", "1e2", "1.5E-3", "5.10"}
	for n := range 2000 {
		numbers = append(numbers, fmt.Sprintf("%d.%d", n%7, n), fmt.Sprintf("0.%04d", n))
	}
	for _, n := range numbers {
		canonical := jsontext.Value(`{"n":` + n + `}`)
		written := string(canonical)
		must.Do(t, canonical.Canonicalize())
		expect.Equal(t, metadata.Hashes("d", []byte(written), none), metadata.Hashes("d", canonical, none), written)
	}
}
