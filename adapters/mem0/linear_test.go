package mem0_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy/adapters/mem0"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
)

// Reading a request takes work that grows with its length and not faster, whatever there
// is many of. Proves EDGE-14.
func TestLinear(t *testing.T) {
	ring.Slow(t, "measures time")
	a := must.Get(mem0.New(mem0.Options{}))(t)
	many := func(n int, piece string) string {
		var b strings.Builder
		for i := range n {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(strings.ReplaceAll(piece, "#", fmt.Sprint(i)))
		}
		return b.String()
	}
	const messages = `{"role":"user","content":"likes tea"}`
	for name, body := range map[string]func(n int) (target, body string){
		"members": func(n int) (string, string) {
			return "POST /v1/memories/", `{"user_id":"ann","messages":[` + messages + `],` + many(n, `"k#":1`) + `}`
		},
		"members and messages": func(n int) (string, string) {
			return "POST /v1/memories/", `{"user_id":"ann",` + many(n/2, `"k#":1`) + `,"messages":[` + many(n/2, messages) + `]}`
		},
		"metadata": func(n int) (string, string) {
			return "POST /v1/memories/", `{"user_id":"ann","messages":[` + messages + `],"metadata":{` + many(n, `"k#":1`) + `}}`
		},
		"members of messages": func(n int) (string, string) {
			return "POST /v1/memories/", `{"user_id":"ann","messages":[{"role":"user","content":"likes tea",` + many(n, `"k#":1`) + `}]}`
		},
		"entries": func(n int) (string, string) {
			return "PUT /v1/batch/", `{` + many(n/2, `"k#":1`) + `,"memories":[` + many(n/2, `{"memory_id":"00000000-0000-4000-8000-#","text":"likes tea"}`) + `]}`
		},
		"members of entries": func(n int) (string, string) {
			return "PUT /v1/batch/", `{"memories":[` + many(16, `{"memory_id":"00000000-0000-4000-8000-#","text":"likes tea",`+many(n/16, `"k#":1`)+`}`) + `]}`
		},
		"fields": func(n int) (string, string) {
			return "POST /v1/memories/", `{"user_id":"ann","messages":[` + messages + `],"metadata":{"field":[` + many(n, `"f#"`) + `]}}`
		},
		"filters": func(n int) (string, string) {
			return "POST /v3/memories/search/", `{"query":"tea","filters":{"OR":[` + many(n, `{"user_id":"u#"}`) + `]}}`
		},
		"names in a filter": func(n int) (string, string) {
			return "POST /v3/memories/search/", `{"query":"tea","filters":{"user_id":{"in":[` + many(n, `"u#"`) + `]}}}`
		},
	} {
		took := func(n int) time.Duration {
			target, text := body(n)
			rt, req := routed(t, a, target)
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
