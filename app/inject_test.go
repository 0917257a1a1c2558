package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/internal/cli"
	"github.com/memproxy/memproxy/internal/must"
)

// The webhook reports what prevents its start, and exits.
func TestInjectRefusesToStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	good := must.Get(os.ReadFile("../inject/testdata/config.yaml"))(t)
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	for _, c := range []struct {
		path, want string
	}{
		{filepath.Join(dir, "none.yaml"), "no such file"},
		{write("wrong.yaml", strings.Replace(string(good), "pods: all", "pods: none", 1)), "want all or annotated"},
		{write("nocert.yaml", strings.ReplaceAll(string(good), "/etc/memproxy/tls", dir)), "certificate"},
	} {
		code, _, errs := invoke(t, "inject", "--config", c.path)
		if code != cli.Failed || !strings.Contains(errs, c.want) {
			t.Errorf("%s: %d %s", c.path, code, errs)
		}
	}
}
