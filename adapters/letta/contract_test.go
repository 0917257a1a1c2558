package letta_test

import (
	"os"
	"testing"

	"github.com/memproxy/memproxy/adapters/adaptertest"
	"github.com/memproxy/memproxy/adapters/letta"
)

func adapter(t testing.TB) *letta.Adapter {
	t.Helper()
	a, err := letta.New(letta.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// Proves CARD-2, TRL-2, TRL-3, SYN-1, EDGE-3: the cases of testdata, each
// named for what it shows.
func TestContract(t *testing.T) {
	adaptertest.Run(t, adapter(t), os.DirFS("testdata"))
}

// Proves CARD-2, EDGE-13: no text in the payload of a write stays untold,
// whatever the route and wherever it stands.
func TestEveryTextIsTold(t *testing.T) {
	adaptertest.RunTold(t, adapter(t), os.DirFS("testdata"), func(pattern string) string {
		path, _ := filled(pattern)
		return path
	})
}
