package letta_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/letta"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
)

// Reading a request takes work that grows with its length and not faster, whatever there
// is many of. Proves EDGE-14.
func TestLinear(t *testing.T) {
	ring.Slow(t, "measures time")
	a := must.Get(letta.New(letta.Options{}))(t)
	many := func(n int, piece string) string {
		var b strings.Builder
		for i := range n {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(strings.ReplaceAll(piece, "#", fmt.Sprintf("%012d", i)))
		}
		return b.String()
	}
	const message, block = `{"role":"user","content":"likes tea"}`, `"block-00000000-0000-4000-8000-`
	for name, body := range map[string]func(n int) (target, body string){
		"members": func(n int) (string, string) {
			return "POST /v1/blocks/", `{"label":"human","value":"likes tea",` + many(n, `"k#":1`) + `}`
		},
		"metadata": func(n int) (string, string) {
			return "POST /v1/blocks/", `{"label":"human","value":"likes tea","metadata":{` + many(n, `"k#":1`) + `}}`
		},
		"messages and members": func(n int) (string, string) {
			return "POST /v1/agents/agent-00000000-0000-4000-8000-000000000001/messages", `{` + many(n/2, `"k#":1`) + `,"messages":[` + many(n/2, message) + `]}`
		},
		"parts of a message": func(n int) (string, string) {
			return "POST /v1/agents/agent-00000000-0000-4000-8000-000000000001/messages", `{"messages":[{"role":"user","content":[` + many(n, `{"type":"text","text":"w#"}`) + `]}]}`
		},
		"objects": func(n int) (string, string) {
			return "POST /v1/agents/", `{"block_ids":[` + many(n, block+`#"`) + `]}`
		},
		"blocks": func(n int) (string, string) {
			return "POST /v1/agents/", `{"memory_blocks":[` + many(n, `{"label":"l#","value":"likes tea"}`) + `]}`
		},
	} {
		took := func(n int) time.Duration {
			target, text := body(n)
			method, path, _ := strings.Cut(target, " ")
			req := memproxy.Request{Method: method, Path: path, EscapedPath: path, Header: memproxy.Header{"Content-Type": {"application/json"}}}
			rt, _ := a.Route(req)
			start := time.Now()
			_, _ = a.Decode(rt, req, []byte(text))
			return time.Since(start)
		}
		// The quickest of many: the machine has other things to do. What is eight times as
		// long takes 64 times as long where work is quadratic.
		few, most := time.Hour, time.Hour
		for n := 0; n < 50 && (n < 3 || most > 30*few); n++ {
			few, most = min(few, took(1<<11)), min(most, took(1<<14))
		}
		if most > 30*few {
			t.Errorf("%s: %v for 2,048, %v for 16,384", name, few, most)
		}
	}
}
