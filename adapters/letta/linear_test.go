package letta_test

import (
	"testing"

	"github.com/memproxy/memproxy/adapters/adaptertest"
	"github.com/memproxy/memproxy/internal/ring"
)

// Reading a request takes work that grows with its length and not faster, whatever there
// is many of. Proves EDGE-14.
func TestLinear(t *testing.T) {
	ring.Slow(t, "measures time")
	const message, block = `{"role":"user","content":"likes tea"}`, `"block-00000000-0000-4000-8000-`
	adaptertest.Linear(t, adapter(t), map[string]func(n int) (target, body string){
		"members": func(n int) (string, string) {
			return "POST /v1/blocks/", `{"label":"human","value":"likes tea",` + adaptertest.Many(n, `"k#":1`) + `}`
		},
		"metadata": func(n int) (string, string) {
			return "POST /v1/blocks/", `{"label":"human","value":"likes tea","metadata":{` + adaptertest.Many(n, `"k#":1`) + `}}`
		},
		"messages and members": func(n int) (string, string) {
			return "POST /v1/agents/agent-00000000-0000-4000-8000-000000000001/messages", `{` + adaptertest.Many(n/2, `"k#":1`) + `,"messages":[` + adaptertest.Many(n/2, message) + `]}`
		},
		"parts of a message": func(n int) (string, string) {
			return "POST /v1/agents/agent-00000000-0000-4000-8000-000000000001/messages", `{"messages":[{"role":"user","content":[` + adaptertest.Many(n, `{"type":"text","text":"w#"}`) + `]}]}`
		},
		"objects": func(n int) (string, string) {
			return "POST /v1/agents/", `{"block_ids":[` + adaptertest.Many(n, block+`#"`) + `]}`
		},
		"blocks": func(n int) (string, string) {
			return "POST /v1/agents/", `{"memory_blocks":[` + adaptertest.Many(n, `{"label":"l#","value":"likes tea"}`) + `]}`
		},
	})
}
