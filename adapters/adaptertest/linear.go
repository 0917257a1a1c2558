package adaptertest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
)

// Many returns n copies of a piece of JSON with commas between them. A # in the piece
// becomes the number of the copy, in twelve digits.
func Many(n int, piece string) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strings.ReplaceAll(piece, "#", fmt.Sprintf("%012d", i)))
	}
	return b.String()
}

// Linear checks that reading a request takes work that grows with its length and not
// faster. Each of bodies returns a target (METHOD /path) and a JSON body with n of
// something. It measures time, so that its test belongs to the slow ring.
func Linear(t *testing.T, a Adapter, bodies map[string]func(n int) (target, body string)) {
	t.Helper()
	for name, body := range bodies {
		ring.Linear(t, name, 1<<11, func(n int) func() {
			target, text := body(n)
			method, path, _ := strings.Cut(target, " ")
			req := memproxy.Request{Method: method, EscapedPath: path, Header: memproxy.Header{"Content-Type": {"application/json"}}}
			rt, known := a.Route(req)
			must.That(t, known, "%s: no route %s", name, target)
			return func() { _, _ = a.Decode(rt, req, []byte(text)) } // it may be refused
		})
	}
}
