package repo

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
)

// opens are the ways to open a file that wait for a pipe, and take a device for one.
var opens = regexp.MustCompile(`os\.(Open|OpenFile|ReadFile)\(|tls\.LoadX509KeyPair\(`)

// pipes are what may open them: commands, whose user names the file and can pipe
// something in. What they read whole is bounded all the same, by durable.ReadInput.
var pipes = []string{"cmd/", "fleet/", "review/cli.go", "screen/hunt/", "telemetry/audit/auditcmd/", "config/adopt.go", "config/starter.go"}

var whole = regexp.MustCompile(`os\.ReadFile\(`)

// tools are what no installation runs, and what opens files for all.
var tools = []string{"internal/durable/", "internal/mutate/", "internal/must/", "internal/release/", "internal/sbom/", "adapters/adaptertest/", "demo/", "bench/", "charts/", "e2e/", "examples/"}

// What serves opens regular files only: a pipe in a file's place would be waited for, and a
// device would lose what is written to it.
func TestServersOpenRegularFiles(t *testing.T) {
	ring.Long(t, "one file after another")
	goFiles(t, func(path string, src []byte) {
		name := filepath.ToSlash(must.Get(filepath.Rel(root, path))(t))
		if strings.HasSuffix(name, "_test.go") {
			return
		}
		opens := opens
		for _, allowed := range pipes {
			if strings.HasPrefix(name, allowed) {
				opens = whole
			}
		}
		if slices.ContainsFunc(tools, func(dir string) bool { return strings.HasPrefix(name, dir) }) {
			return
		}
		for n, line := range strings.Split(string(src), "\n") {
			if opens.MatchString(line) && !strings.Contains(line, "os.Open(dir)") { // to sync its names
				t.Errorf("%s:%d: use internal/durable: %s", name, n+1, strings.TrimSpace(line))
			}
		}
	})
}
