package mem0_test

import (
	"testing"

	"github.com/memproxy/memproxy/adapters/adaptertest"
	"github.com/memproxy/memproxy/adapters/mem0"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
)

// Reading a request takes work that grows with its length and not faster, whatever there
// is many of. Proves EDGE-14.
func TestLinear(t *testing.T) {
	ring.Slow(t, "measures time")
	const messages = `{"role":"user","content":"likes tea"}`
	adaptertest.Linear(t, must.Get(mem0.New(mem0.Options{}))(t), map[string]func(n int) (target, body string){
		"members": func(n int) (string, string) {
			return "POST /v1/memories/", `{"user_id":"ann","messages":[` + messages + `],` + adaptertest.Many(n, `"k#":1`) + `}`
		},
		"members and messages": func(n int) (string, string) {
			return "POST /v1/memories/", `{"user_id":"ann",` + adaptertest.Many(n/2, `"k#":1`) + `,"messages":[` + adaptertest.Many(n/2, messages) + `]}`
		},
		"metadata": func(n int) (string, string) {
			return "POST /v1/memories/", `{"user_id":"ann","messages":[` + messages + `],"metadata":{` + adaptertest.Many(n, `"k#":1`) + `}}`
		},
		"members of messages": func(n int) (string, string) {
			return "POST /v1/memories/", `{"user_id":"ann","messages":[{"role":"user","content":"likes tea",` + adaptertest.Many(n, `"k#":1`) + `}]}`
		},
		"entries": func(n int) (string, string) {
			return "PUT /v1/batch/", `{` + adaptertest.Many(n/2, `"k#":1`) + `,"memories":[` + adaptertest.Many(n/2, `{"memory_id":"00000000-0000-4000-8000-#","text":"likes tea"}`) + `]}`
		},
		"members of entries": func(n int) (string, string) {
			return "PUT /v1/batch/", `{"memories":[` + adaptertest.Many(16, `{"memory_id":"00000000-0000-4000-8000-#","text":"likes tea",`+adaptertest.Many(n/16, `"k#":1`)+`}`) + `]}`
		},
		"fields": func(n int) (string, string) {
			return "POST /v1/memories/", `{"user_id":"ann","messages":[` + messages + `],"metadata":{"field":[` + adaptertest.Many(n, `"f#"`) + `]}}`
		},
		"filters": func(n int) (string, string) {
			return "POST /v3/memories/search/", `{"query":"tea","filters":{"OR":[` + adaptertest.Many(n, `{"user_id":"u#"}`) + `]}}`
		},
		"names in a filter": func(n int) (string, string) {
			return "POST /v3/memories/search/", `{"query":"tea","filters":{"user_id":{"in":[` + adaptertest.Many(n, `"u#"`) + `]}}}`
		},
	})
}
