package panel

import (
	_ "embed"
	"fmt"
	"strings"

	"github.com/memproxy/memproxy/screen/rulefile"
	"github.com/memproxy/memproxy/screen/similar"
)

//go:embed exemplars.txt
var exemplars string

//go:embed harmless.txt
var harmless string

// Exemplars returns the built-in known attacks.
func Exemplars() []similar.Exemplar {
	out, err := ParseExemplars("exemplars.txt", exemplars)
	if err != nil {
		panic(err) // cannot happen: the file is embedded
	}
	return out
}

// Harmless returns the built-in texts that are similar to known attacks and harmless, to
// validate thresholds with.
func Harmless() []string {
	var out []string
	for _, line := range rulefile.Lines(harmless) {
		out = append(out, line)
	}
	return out
}

const maxExemplar = 2000 // the longest exemplar, in bytes

// ParseExemplars parses known attacks, one per line: the family, a tab, the text. #
// begins a comment. Errors name file and line.
func ParseExemplars(file, src string) ([]similar.Exemplar, error) {
	var out []similar.Exemplar
	for n, line := range rulefile.Lines(src) {
		line = strings.TrimSpace(line)
		if line[0] == '#' {
			continue
		}
		family, text, ok := strings.Cut(line, "\t")
		text = strings.TrimSpace(text)
		if !ok || text == "" || !plain(family) {
			return nil, fmt.Errorf("%s:%d: want a family (a-z, 0-9, -), a tab and the text", file, n)
		}
		if len(text) > maxExemplar {
			return nil, fmt.Errorf("%s:%d: an exemplar exceeds %d bytes", file, n, maxExemplar)
		}
		out = append(out, similar.Exemplar{Family: family, Text: text})
	}
	return out, nil
}

func plain(family string) bool {
	return family != "" && !strings.ContainsFunc(family, func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' })
}
