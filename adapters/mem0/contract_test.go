package mem0_test

import (
	"os"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/adapters/adaptertest"
)

// Proves CARD-2, TRL-2, TRL-3, SYN-1, EDGE-3: the cases of testdata, each
// named for what it shows.
func TestContract(t *testing.T) {
	adaptertest.Run(t, adapter(t), os.DirFS("testdata"))
}

// Proves CARD-2, EDGE-13: no text in the payload of a write stays untold,
// whatever the route and wherever it stands.
func TestEveryTextIsTold(t *testing.T) {
	adaptertest.RunTold(t, adapter(t), os.DirFS("testdata"), strings.NewReplacer(
		"{entity_type}", "user", "{entity_id}", "ann", "{id}", "m1", "{number}", "1", "{job}", "j1", "{key}", "k", "{rest...}", "x").Replace)
}
