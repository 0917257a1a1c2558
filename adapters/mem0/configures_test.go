package mem0_test

import (
	"slices"
	"testing"

	"github.com/memproxy/memproxy/adapters/mem0"
	"github.com/memproxy/memproxy/internal/must"
)

// Proves EDGE-18: what says to the extractor what is worth remembering is told
// one place at a time; messages, metadata and what else steers are not among it.
func TestWhatConfigures(t *testing.T) {
	a := must.Get(mem0.New(mem0.Options{}))(t)
	const body = `{"user_id":"ann","messages":[{"role":"system","content":"c"},{"role":"user","content":"custom_instructions"}],
		"custom_instructions":"i","includes":"n","excludes":["x"],"prompt":"p","custom_categories":[{"k":"v"}],"metadata":{"custom_instructions":"m"},"brand_new":"b"}`
	op := decode(t, a, "POST", "/v3/memories/add/", body)
	var got []string
	for i := range op.Items {
		if op.Items[i].Configures {
			got = append(got, op.Items[i].Pointer)
		}
	}
	slices.Sort(got)
	if want := []string{"/custom_instructions", "/excludes/0", "/includes"}; !slices.Equal(got, want) {
		t.Errorf("%q configures, want %q", got, want)
	}
}
