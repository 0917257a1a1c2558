package screen_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/screen"
)

// Ordinary memories in eight languages are not held for their letters, nor for
// being preferences.
//
// Proves SYN-2, SYN-3
func TestNaturalLanguagesAreNotHeld(t *testing.T) {
	s := screener(t, screen.Options{})
	files, err := filepath.Glob("testdata/benign/*.txt")
	must.That(t, err == nil && len(files) >= 8, "%d files, %v", len(files), err)
	for _, file := range files {
		b := must.Get(os.ReadFile(file))(t)
		n := 0
		for line := range strings.Lines(string(b)) {
			n++
			if r := s.Text(strings.TrimSpace(line), "", ""); r.Score >= 500 {
				t.Errorf("%s:%d: held at %d: %v", file, n, r.Score, r.Findings)
			} else if r.Score >= 350 {
				t.Logf("%s:%d: near, at %d: %v", file, n, r.Score, r.Findings)
			}
		}
		expect.That(t, n >= 30, "%s: %d lines, want 30", file, n)
	}
}
