package main

import (
	"embed"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
)

//go:embed own/*.txt
var ownFiles embed.FS

// expansions is the number of texts drawn from each line with alternatives. With eight, a
// classifier found a tenth fewer of the texts of a writer whose file it did not know;
// with thirty-two as many.
const expansions = 16

// ownRows returns the texts that were written for this project, with their
// alternatives expanded by a fixed seed. Files named poison* are attacks, all others
// harmless. They are trained on in every fold and never measured.
func ownRows() (rows []row) {
	rng := rand.New(rand.NewPCG(11, 11))
	for _, file := range noError(fs.Glob(ownFiles, "own/*.txt")) {
		name, label := strings.TrimSuffix(path.Base(file), ".txt"), "benign"
		if strings.HasPrefix(name, "poison") {
			label = "attack"
		}
		n := 0
		for line := range strings.Lines(string(noError(ownFiles.ReadFile(file)))) {
			line = strings.TrimRight(line, "\n")
			if n++; line == "" || line[0] == '#' && !strings.Contains(line, "{") {
				continue
			}
			seen := map[string]bool{}
			for k := range expansions {
				if k > 0 && !strings.Contains(line, "{") {
					break // a line without alternatives has one expansion
				}
				t := strings.ReplaceAll(expand(line, rng), "\\n", "\n")
				if !seen[t] {
					seen[t] = true
					rows = append(rows, row{ID: fmt.Sprintf("%s%s-%d-%d", ownPrefix, name, n, k), Text: t, Label: label, Source: ownPrefix + name})
				}
			}
		}
	}
	return rows
}

// teaching leaves out of the texts of this project what repeats a row of the data, or a
// text of blind/: a classifier that judges those must not have learned them.
func teaching(mine, rows []row) []row { return apart(mine, slices.Concat(rows, blindRows())) }

// hideBraces and showBraces keep escaped braces out of expand's way.
var (
	hideBraces = strings.NewReplacer("\\{", "\x01", "\\}", "\x02")
	showBraces = strings.NewReplacer("\\|", "|", "\x01", "{", "\x02", "}")
)

// expand chooses one alternative of every {a|b}, inner ones first.
func expand(s string, rng *rand.Rand) string {
	s = hideBraces.Replace(s)
	for {
		end := strings.IndexByte(s, '}')
		if end < 0 {
			return showBraces.Replace(s)
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
