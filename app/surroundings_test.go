package app

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/internal/must"
)

// Check reports what prevents a configuration from running on this machine, and nothing
// otherwise; a running sidecar does not conflict with itself. Check leaves nothing
// behind.
//
// Proves CARD-8
func TestCheckReportsTheMachine(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	taken := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer taken.Close()
	file := filepath.Join(dir, "file")
	must.Do(t, os.WriteFile(file, nil, 0o600))
	check := func(listen, state string) string {
		t.Helper()
		path := filepath.Join(dir, "memproxy.yaml")
		text := fmt.Sprintf("profile: production\nstate: %q\nidentity: {keys: [{sha256: %q, id: \"agent:a\", tenant: t}]}\nadmin: {listen: \"127.0.0.1:0\"}\nbackends:\n  - {name: mem0, kind: mem0, listen: %q, upstream: \"http://127.0.0.1:1\"}\n", state, sha("key"), listen)
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
		code, out, errs := invoke(t, "check", "--config", path)
		if code != 0 {
			t.Fatalf("exit %d: %s%s", code, out, errs)
		}
		var said []string
		for line := range strings.Lines(out) {
			if here, ok := strings.CutPrefix(line, "on this machine: "); ok {
				said = append(said, strings.TrimSpace(here))
			}
		}
		return strings.Join(said, "; ")
	}
	fine := filepath.Join(dir, "a", "b")
	for _, tc := range []struct{ name, listen, state, want string }{
		{"nothing", "127.0.0.1:0", fine, ""},
		{"a port in use", taken.Addr().String(), fine, "in use"},
		{"an address of elsewhere", "192.0.2.1:8081", fine, "cannot be listened on"},
		{"a state that is a file", "127.0.0.1:0", file, "is not a directory"},
		{"a state under a file", "127.0.0.1:0", filepath.Join(file, "state"), "state cannot be written"},
	} {
		if got := check(tc.listen, tc.state); (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
	if _, err := os.Stat(filepath.Dir(fine)); err == nil {
		t.Error("a check makes directories")
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".memproxy-check-*")); left != nil {
		t.Errorf("left are %q", left)
	}
	r := start(t, screeningConf, "SCREENING", "")
	listening := strings.TrimPrefix(r.base, "http://")
	if got := check(listening, r.car.cfg.State); got != "" {
		t.Errorf("beside the sidecar that listens there: %q", got)
	}
}
