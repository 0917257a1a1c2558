package panel

import (
	_ "embed"
	"strings"

	"github.com/memproxy/memproxy/screen/similar"
)

//go:embed exemplars.txt
var exemplars string

// Exemplars are the built-in known attacks.
func Exemplars() []similar.Exemplar {
	var out []similar.Exemplar
	for line := range strings.Lines(exemplars) {
		if family, text, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok {
			out = append(out, similar.Exemplar{Family: family, Text: text})
		}
	}
	return out
}
