package mem0_test

import (
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/adaptertest"
	"github.com/memproxy/memproxy/adapters/mem0"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// Proves SYN-5: a restored memory gets the field of its version together with the text.
// If the field is the same, the metadata stay. Removed names are set to null where the
// backend merges metadata, and left out where it replaces them.
func TestRestorePutsTheFieldBack(t *testing.T) {
	a := adapter(t)
	for name, tc := range map[string]struct {
		field string
		now   memproxy.Memory
		want  string
	}{
		"moved":       {"gotchas", memproxy.Memory{Field: "learnings", OtherFields: []string{"food"}, Metadata: []byte(`{"note":"x","field":"learnings","category":"food"}`)}, `{"field":"gotchas","note":"x","category":null,`},
		"there":       {"gotchas", memproxy.Memory{Field: "Gotchas", Metadata: []byte(`{"category":"Gotchas","note":"x"}`)}, `{"category":"Gotchas","note":"x",`},
		"filed since": {"", memproxy.Memory{Field: "learnings", Metadata: []byte(`{"category":"learnings","note":"x"}`)}, `{"category":null,"note":"x",`},
		"never filed": {"", memproxy.Memory{Metadata: []byte(`{"note":"x"}`)}, `{"note":"x",`},
		"bare":        {"gotchas", memproxy.Memory{}, `{"field":"gotchas",`},
	} {
		to := memproxy.Version{MemoryKey: memproxy.MemoryKey{ID: "m1"}, Field: tc.field, Text: "t"}
		sent := a.Restore(to, tc.now, *adaptertest.Stamp())
		must.Len(t, sent, 2, name)
		if body := string(sent[0].Body); !strings.HasPrefix(body, `{"text":"t","metadata":`+tc.want) || !strings.Contains(body, `"memproxy_mark":""`) {
			t.Errorf("%s: to a server %s", name, body)
		}
		want := strings.ReplaceAll(tc.want, `"category":null,`, "")
		if body := string(sent[1].Body); !strings.HasPrefix(body, `{"text":"t","metadata":`+want) || strings.Contains(body, `:""`) {
			t.Errorf("%s: to the platform %s", name, body)
		}
	}
}

// Proves SYN-5: the configured name of the field may be any text.
func TestRestoredFieldsHaveAnyName(t *testing.T) {
	a := must.Get(mem0.New(mem0.Options{FieldKey: `the "field"`}))(t)
	now := memproxy.Memory{Field: "learnings", Metadata: []byte(`{"the \"field\"":"learnings","note":"x"}`)}
	for field, want := range map[string]string{"gotchas": `{"the \"field\"":"gotchas","note":"x",`, "": `{"the \"field\"":null,"note":"x",`} {
		sent := a.Restore(memproxy.Version{MemoryKey: memproxy.MemoryKey{ID: "m1"}, Field: field, Text: "t"}, now, *adaptertest.Stamp())
		expect.Text(t, string(sent[0].Body), field).Has(`"metadata":` + want)
	}
}
