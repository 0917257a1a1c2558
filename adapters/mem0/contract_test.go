package mem0_test

import (
	"os"
	"testing"

	"github.com/memproxy/memproxy/adapters/adaptertest"
)

// Proves CARD-2, TRL-2, TRL-3, SYN-1, EDGE-3: the cases of testdata, each
// named for what it shows.
func TestContract(t *testing.T) {
	adaptertest.Run(t, adapter(t), os.DirFS("testdata"))
}
