package inject_test

import (
	"path/filepath"
	"testing"

	"github.com/memproxy/memproxy/inject"
)

// Each case of testdata/validate is a pod as it would be stored, and whether it is
// allowed. Proves CARD-8.
func TestValidate(t *testing.T) {
	i := testInjector(t)
	for name, a := range cases(t, "validate") {
		t.Run(name, func(t *testing.T) {
			got := ask(t, i, inject.Validate, yamlDoc(t, file(a, "pod")))
			out := "allowed\n"
			if !got.Allowed {
				out = "refused: " + got.Status.Message + "\n"
			}
			if len(got.Patch) > 0 {
				t.Error("a validating webhook changes nothing")
			}
			golden(t, filepath.Join("testdata", "validate", name), a, "want", []byte(out))
		})
	}
}
