package memproxy_test

import (
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// Proves SYN-5: a list whose order says nothing is the same in any, before and
// after a change, and one whose order means something is not; what is no list of
// texts stays as it is.
func TestUnorderedMembers(t *testing.T) {
	of := func(c memproxy.MemberChange, now string) string {
		t.Helper()
		out := must.Get(c.Apply([]byte(now)))(t)
		return string(out)
	}
	tags := []string{"tags", "rules"}
	one := of(memproxy.MemberChange{Set: map[string][]byte{"tags": []byte(`["b","a"]`)}, Unordered: tags}, "")
	two := of(memproxy.MemberChange{Add: map[string][]byte{"tags": []byte(`"a"`)}, Unordered: tags}, `{"tags":["b"]}`)
	if one != `{"tags":["a","b"]}` || two != one {
		t.Errorf("%s and %s", one, two)
	}
	for now, c := range map[string]memproxy.MemberChange{
		"":               {Set: map[string][]byte{"tags": []byte(`[]`)}, Unordered: tags},
		`{"tags":["a"]}`: {Remove: map[string][]byte{"tags": []byte(`"a"`)}, Unordered: tags},
	} {
		expect.Equal(t, of(c, now), `{"tags":[]}`, "an empty list became")
	}
	expect.Equal(t, of(memproxy.MemberChange{Set: map[string][]byte{"steps": []byte(`["b","a"]`)}, Unordered: tags}, ""), `{"steps":["b","a"]}`)
	expect.Equal(t, of(memproxy.MemberChange{Set: map[string][]byte{"rules": []byte(`[{"b":1},"a"]`)}, Unordered: tags}, ""), `{"rules":[{"b":1},"a"]}`)
}
