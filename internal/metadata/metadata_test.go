package metadata_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/metadata"
	"github.com/memproxy/memproxy/internal/must"
)

// A stamp has 64 bits of hash for each of so many members.
const hashLen, mostMembers = 11, 24

func none(string) bool { return false }

// members returns the members of an object, or nil.
func members(raw string) (all []memproxy.Member) {
	d := jsontext.NewDecoder(strings.NewReader(raw))
	if d.PeekKind() != '{' {
		return nil
	}
	_, _ = d.ReadToken()
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		text := name.String() // the next token overwrites it
		value, err2 := d.ReadValue()
		if err != nil || err2 != nil {
			return nil
		}
		all = append(all, memproxy.Member{Name: text, Value: value.Clone()})
	}
	if _, err := d.ReadToken(); err != nil {
		return nil
	}
	return all
}

// Proves EDGE-4: a stamp speaks for the metadata next to it, however a backend
// writes them; what was changed, renamed or taken out is seen, and what came to
// it is not.
func TestStampsCoverMetadata(t *testing.T) {
	const written = `{"about":"tea","n":0.70,"deep":{"b":[1,2],"a":"x"},"nil":null,"memproxy_id":"d","role":"user"}`
	mixed := func(name string) bool { return name == "role" }
	s := memproxy.Stamp{ID: "d", Metadata: metadata.Hashes("d", members(written), mixed)}
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
		expect.Equal(t, metadata.Differs(&s, members(tc.there)), tc.unlike, tc.there, "is unlike")
	}
	if s.ID = "e"; !metadata.Differs(&s, members(written)) {
		t.Error("hashes of one write speak for another")
	}
	for _, list := range []string{"x", s.Metadata[1:], strings.Repeat("A", hashLen)} {
		expect.Equal(t, metadata.Differs(&memproxy.Stamp{ID: "d", Metadata: list}, members(written)), true, list, "is no list of hashes")
	}
	expect.Equal(t, metadata.Differs(&memproxy.Stamp{ID: "d"}, members(`{"about":"Eve"}`)), false, "a stamp that says nothing of metadata accuses")
	broken := []memproxy.Member{{Name: "a", Value: []byte("[1")}}
	if s.Metadata = metadata.Hashes("d", members(`{"a":1}`), none); metadata.Hashes("d", broken, none) != "" || !metadata.Differs(&s, broken) {
		t.Error("what is no JSON is sealed")
	}
	many := map[string]int{}
	for i := range 1000 {
		many[fmt.Sprintf("k%03d", i)] = i
	}
	raw := members(string(must.Get(json.Marshal(many))(t)))
	full := metadata.Hashes("d", raw, none)
	must.Len(t, full, mostMembers*hashLen, "bytes of hashes")
	expect.Equal(t, metadata.Differs(&memproxy.Stamp{ID: "d", Metadata: full}, raw), false, "bytes of hashes")
}

// Whatever a backend gives as metadata, it is like itself, and no stamp grows
// over its bounds.
func FuzzMetadata(f *testing.F) {
	f.Add([]byte(`{"about":"tea","n":0.70,"deep":{"b":[1,2]}}`), []byte(`{"about":"Eve"}`))
	f.Add([]byte(`{"a":1,"a":2}`), []byte("{\"\xff\":1}"))
	f.Fuzz(func(t *testing.T, rawA, rawB []byte) {
		a, b := members(string(rawA)), members(string(rawB))
		s := memproxy.Stamp{ID: "d", Metadata: metadata.Hashes("d", a, none)}
		if len(s.Metadata)%hashLen != 0 || len(s.Metadata) > mostMembers*hashLen {
			t.Fatalf("%q", s.Metadata)
		}
		must.Equal(t, metadata.Differs(&s, a), false, rawA, "is not like itself")
		o := memproxy.Stamp{ID: "d", Metadata: metadata.Hashes("d", b, none)}
		if !metadata.Differs(&s, b) && !metadata.Differs(&o, a) && s.Metadata != o.Metadata && len(s.Metadata) < mostMembers*hashLen && len(o.Metadata) < mostMembers*hashLen {
			t.Fatalf("%q and %q speak for each other", rawA, rawB)
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
		expect.Equal(t, metadata.Hashes("d", members(written), none), metadata.Hashes("d", members(string(canonical)), none), written)
	}
}
