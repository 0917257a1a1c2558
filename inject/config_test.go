package inject_test

import (
	"os"
	"testing"

	"github.com/memproxy/memproxy/inject"
	"github.com/memproxy/memproxy/internal/must"
)

// Any file is refused or makes an injector.
func FuzzParseConfig(f *testing.F) {
	text := must.Get(os.ReadFile("testdata/config.yaml"))(f)
	f.Add(text)
	f.Add([]byte("template: {sidecar: {name: a, image: b, restartPolicy: Always, env: [{name: x}]}, mounts: [{name: y, mountPath: /}]}"))
	f.Add([]byte("listen: &a [*a]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := inject.ParseConfig(text)
		if err != nil {
			return
		}
		if _, err := inject.New(c.Options()); err != nil {
			t.Errorf("parsed, and refused: %v", err)
		}
	})
}
