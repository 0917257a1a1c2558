package mem0_test

import (
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/routetable"
)

// Ids are unique, because Decode finds its row by them.
func TestTable(t *testing.T) {
	seen := map[string]bool{}
	for at, rt := range adapter(t).Routes() {
		if seen[rt.ID] {
			t.Errorf("%s is repeated", rt.ID)
		}
		seen[rt.ID] = true
		if n := strings.Count(at, "/"); n > routetable.MaxSegments {
			t.Errorf("%s has %d segments", rt.ID, n)
		}
	}
}

func BenchmarkRoute(b *testing.B) {
	a := adapter(b)
	req := memproxy.Request{Method: "POST", EscapedPath: "/v3/memories/search/"}
	b.ReportAllocs()
	for b.Loop() {
		a.Route(req)
	}
}
