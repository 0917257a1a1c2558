//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/envoy/extproc/extproctest"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// Proves CARD-9, CARD-10, TRL-10: the real Envoy with the shipped
// configuration does with every case what the HTTP listener does.
func TestEnvoyDoesWhatTheHTTPListenerDoes(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob(filepath.Join("..", "envoy", "extproc", "testdata", "*.txtar"))
	must.That(t, err == nil && len(paths) >= 20, "%v %v", paths, err)
	b := startEnvoy(t)
	for _, group := range grouped(t, paths) {
		t.Run(group[0].name, func(t *testing.T) {
			b.t = t
			first := group[0].Case
			http, envoy := b.httpMem0, b.mem0
			if first.Settings["kind"] == "letta" {
				http, envoy = b.httpLetta, b.letta
			}
			did := map[string]string{}
			for _, addr := range [...]string{http, envoy} {
				b.start(first.Settings)
				for _, c := range group {
					backend := extproctest.NewBackend(c.Case)
					b.answers(backend)
					all, summary, err := c.Run(b.listener(addr, backend))
					must.Do(t, err, c.name, all)
					expect.Equal(t, summary, c.Want, c.name, addr, "does")
					if addr == envoy && all != did[c.name] {
						t.Errorf("%s: Envoy differs:\n%s", c.name, extproctest.Diff(did[c.name], all))
					}
					did[c.name] = all
				}
				b.memproxy.stop()
			}
		})
	}
}

type namedCase struct {
	*extproctest.Case
	name string
}

// grouped are the cases that one configuration serves, together.
func grouped(t *testing.T, paths []string) [][]namedCase {
	t.Helper()
	var order []string
	by := map[string][]namedCase{}
	for _, path := range paths {
		data := must.Get(os.ReadFile(path))(t)
		c, err := extproctest.ParseCase(data)
		must.Do(t, err, path)
		key := c.Settings.Config("", "", "", "")
		if by[key] == nil {
			order = append(order, key)
		}
		by[key] = append(by[key], namedCase{c, strings.TrimSuffix(filepath.Base(path), ".txtar")})
	}
	var out [][]namedCase
	for _, key := range order {
		out = append(out, by[key])
	}
	return out
}
