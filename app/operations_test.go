package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/internal/must"
)

// Proves EDGE-18: docs/operations.md describes each file of the state directory and
// each key.
func TestOperationsDocumentsTheState(t *testing.T) {
	t.Parallel()
	text := must.Get(os.ReadFile(filepath.Join("..", "docs", "operations.md")))(t)
	r := start(t, screeningConf, "SCREENING", "")
	r.written("Ann keeps bees.", "")
	seen := 0
	for _, in := range []string{"", "keys"} {
		entries := must.Get(os.ReadDir(filepath.Join(r.dir, "state", in)))(t)
		for _, e := range entries {
			name := strings.TrimSuffix(strings.TrimSuffix(filepath.Join(in, e.Name()), "-wal"), "-shm")
			if e.IsDir() {
				name += "/"
			}
			if seen++; name != "keys/" && !strings.Contains(string(text), "`"+name+"`") {
				t.Errorf("docs/operations.md does not say what %s is", name)
			}
		}
	}
	for _, name := range []string{"baseline.json", "runs/", lastGoodFile} { // not in every sidecar's state
		if !strings.Contains(string(text), "`"+name+"`") {
			t.Errorf("docs/operations.md does not say what %s is", name)
		}
	}
	if seen < 8 {
		t.Errorf("%d files are seen", seen)
	}
}
