package approved_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/screen/approved"
)

// Proves EDGE-18: each shipped approval is the hash of one text, with the client, its
// version and the place; a deployment's own are found by the same look-up.
func TestTexts(t *testing.T) {
	line := regexp.MustCompile(`^[0-9a-f]{64} \S+ \d+(\.\d+)+ (agent\.system|run\.client_tools|run\.client_skills|run\.messages|custom_instructions)$`)
	own := strings.Repeat("0", 64)
	set, shipped := approved.Texts([]string{own}), map[string]bool{}
	for l := range strings.Lines(string(must.Get(os.ReadFile("texts.txt"))(t))) {
		l = strings.TrimSpace(l)
		if strings.HasPrefix(l, "#") {
			continue
		}
		if !line.MatchString(l) {
			t.Errorf("%q", l)
			continue
		}
		shipped[l[:64]] = true
		expect.That(t, set[l[:64]], "%q is not approved", l)
	}
	expect.That(t, len(shipped) >= 100 && set[own] && len(set) == len(shipped)+1, "%d shipped, %d approved", len(shipped), len(set))
}
