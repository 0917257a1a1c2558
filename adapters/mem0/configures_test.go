package mem0_test

import (
	"slices"
	"testing"

	"github.com/memproxy/memproxy/internal/expect"
)

// Proves EDGE-18: members that tell the extractor what to remember are recognised one
// by one; messages, metadata and other steering members are not among them.
func TestWhatConfigures(t *testing.T) {
	const body = `{"user_id":"ann","messages":[{"role":"system","content":"c"},{"role":"user","content":"custom_instructions"}],
		"custom_instructions":"i","includes":"n","excludes":["x"],"prompt":"p","custom_categories":[{"k":"v"}],"metadata":{"custom_instructions":"m"},"brand_new":"b"}`
	op := decode(t, adapter(t), "POST /v3/memories/add/", body)
	var got []string
	for i := range op.Items {
		if op.Items[i].Configures {
			got = append(got, op.Items[i].Pointer)
		}
	}
	slices.Sort(got)
	expect.List(t, got, []string{"/custom_instructions", "/excludes/0", "/includes"})
}
