//go:build slow

// Slow: an answer is parsed, and a position in the passages of a Letta server read, by nobody
// else.

package hunt

import (
	"testing"

	"github.com/memproxy/memproxy"
)

func FuzzParse(f *testing.F) {
	f.Add([]byte(`[{"id":"block-1","value":"x","description":null,"metadata":{"a":1}}]`))
	f.Add([]byte(`{"next":"x","results":[{"id":"a","memory":"b","metadata":{"c":["d"]}}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		list, err := parse(raw)
		if err != nil {
			return
		}
		if items := list.memories(); len(items) < len(list.elements) {
			t.Fatalf("%d items of %d elements", len(items), len(list.elements))
		}
		for _, b := range list.elements {
			b.items("block", "value", b.Value, memproxy.Scope{})
		}
	})
}
