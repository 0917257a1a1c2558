package repo

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/internal/must"
)

// opens are the ways to open a file that wait for a pipe, and take a device for one.
var opens = regexp.MustCompile(`os\.(Open|OpenFile|ReadFile)\(|tls\.LoadX509KeyPair\(`)

// pipes are what may open them: commands, whose user names the file and can pipe
// something in, and what does not serve.
var pipes = []string{"internal/durable/", "internal/mutate/", "internal/must/", "internal/release/", "internal/sbom/", "adapters/adaptertest/", "demo/", "bench/", "charts/", "cmd/", "e2e/", "examples/",
	"fleet/", "review/cli.go", "screen/hunt/", "telemetry/audit/auditcmd/", "config/adopt.go", "config/starter.go"}

// What serves opens regular files only: a pipe in a file's place would be waited for, and a
// device would lose what is written to it.
func TestServersOpenRegularFiles(t *testing.T) {
	goFiles(t, func(path string, src []byte) {
		name := filepath.ToSlash(must.Get(filepath.Rel(root, path))(t))
		if strings.HasSuffix(name, "_test.go") {
			return
		}
		for _, allowed := range pipes {
			if strings.HasPrefix(name, allowed) {
				return
			}
		}
		for n, line := range strings.Split(string(src), "\n") {
			if opens.MatchString(line) && !strings.Contains(line, "os.Open(dir)") { // to sync its names
				t.Errorf("%s:%d: use internal/durable: %s", name, n+1, strings.TrimSpace(line))
			}
		}
	})
}
