//go:build slow

// Slow: a cursor within the passages of a Letta server is read by nobody else.

package hunt

import (
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/must"
)

func FuzzParseLetta(f *testing.F) {
	f.Add([]byte(`[{"id":"block-1","value":"x","description":null,"metadata":{"a":1}}]`), `{"agent":"a","in":true,"after":"b"}`)
	f.Fuzz(func(t *testing.T, raw []byte, cursor string) {
		blocks, last, err := parseList(raw)
		if err == nil && (len(blocks) > 0) != (last != "") {
			t.Fatalf("%d blocks, the last %q", len(blocks), last)
		}
		for _, b := range blocks {
			b.items("block", "value", b.Value, memproxy.Scope{})
		}
		if p, err := parsePassageCursor(cursor); err == nil && cursor != "" {
			must.Equal(t, must.Get(parsePassageCursor(p.String()))(t), p)
		}
	})
}
