package evasion

import (
	_ "embed"
	"maps"
	"slices"
	"strings"
	"sync"
)

//go:embed texts.tsv
var texts string

// byKind groups the texts by the first column.
var byKind = sync.OnceValue(func() map[string][]string {
	all := map[string][]string{}
	for line := range strings.Lines(texts) {
		if kind, text, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok {
			all[kind] = append(all[kind], text)
		}
	}
	return all
})

const poison, benign = "poison", "benign"

// Poisons returns textbook memory poisons, one idea each.
func Poisons() []string { return slices.Clone(byKind()[poison]) }

// Benign returns ordinary memories, to be transformed in the same ways.
func Benign() []string { return slices.Clone(byKind()[benign]) }

// PoisonsByLanguage returns poisons in other natural languages, by language.
func PoisonsByLanguage() map[string][]string {
	all := maps.Clone(byKind())
	delete(all, poison)
	delete(all, benign)
	return all
}
