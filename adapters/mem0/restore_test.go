package mem0_test

import (
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/adaptertest"
)

// Proves SYN-5: a memory goes back to the field that it was filed under with
// its text; one that is there, and one of which the version tells no field,
// keeps its metadata.
func TestRestorePutsTheFieldBack(t *testing.T) {
	a := adapter(t)
	for name, tc := range map[string]struct {
		field string
		now   memproxy.Memory
		want  string
	}{
		"moved":     {"gotchas", memproxy.Memory{Field: "learnings", Filed: []string{"food"}, Metadata: []byte(`{"note":"x","field":"learnings","category":"food"}`)}, `{"field":"gotchas","note":"x","category":null,`},
		"there":     {"gotchas", memproxy.Memory{Field: "Gotchas", Metadata: []byte(`{"category":"Gotchas","note":"x"}`)}, `{"category":"Gotchas","note":"x",`},
		"not known": {"", memproxy.Memory{Field: "learnings", Metadata: []byte(`{"field":"learnings"}`)}, `{"field":"learnings",`},
		"bare":      {"gotchas", memproxy.Memory{}, `{"field":"gotchas",`},
	} {
		to := memproxy.Version{MemoryKey: memproxy.MemoryKey{ID: "m1"}, Field: tc.field, Text: "t"}
		for _, sent := range a.Restore(to, tc.now, *adaptertest.Stamp()) {
			if !strings.HasPrefix(string(sent.Body), `{"text":"t","metadata":`+tc.want) {
				t.Errorf("%s: %s", name, sent.Body)
			}
		}
		if len(a.Restore(to, tc.now, *adaptertest.Stamp())) == 0 {
			t.Errorf("%s: nothing is sent", name)
		}
	}
}
