package main

import (
	"embed"
	"fmt"
	"math/rand/v2"
	"strings"
)

//go:embed own/*.txt
var ownFiles embed.FS

// expansions is the number of texts that are made of each line with alternatives.
const expansions = 8

// ownRows returns the texts that were written for this project, with alternatives
// expanded by a fixed seed. They are trained on in every fold and never measured.
func ownRows() ([]row, error) {
	rng := rand.New(rand.NewPCG(11, 11))
	var rows []row
	for _, f := range [...]struct{ name, label string }{{"benign", "benign"}, {"benign_world", "benign"}, {"poison", "attack"}, {"benign_asked", "benign"}} {
		b, err := ownFiles.ReadFile("own/" + f.name + ".txt")
		if err != nil {
			return nil, err
		}
		n := 0
		for line := range strings.Lines(string(b)) {
			line = strings.TrimRight(line, "\n")
			if n++; line == "" || line[0] == '#' && !strings.Contains(line, "{") {
				continue
			}
			seen := map[string]bool{}
			for k := range expansions {
				t := strings.ReplaceAll(expand(line, rng), "\\n", "\n")
				if !seen[t] {
					seen[t] = true
					rows = append(rows, row{ID: fmt.Sprintf("own_%s-%d-%d", f.name, n, k), Text: t, Label: f.label, Source: "own_" + f.name})
				}
			}
		}
	}
	return rows, nil
}

// expand chooses one alternative of every {a|b}, inner ones first.
func expand(s string, rng *rand.Rand) string {
	s = strings.NewReplacer("\\{", "\x01", "\\}", "\x02").Replace(s)
	for {
		end := strings.IndexByte(s, '}')
		if end < 0 {
			return strings.NewReplacer("\\|", "|", "\x01", "{", "\x02", "}").Replace(s)
		}
		start := strings.LastIndexByte(s[:end], '{')
		if start < 0 {
			return s
		}
		inner := strings.ReplaceAll(s[start+1:end], "\\|", "\x00")
		parts := strings.Split(inner, "|")
		s = s[:start] + strings.ReplaceAll(parts[rng.IntN(len(parts))], "\x00", "\\|") + s[end+1:]
	}
}
