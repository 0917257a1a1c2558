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

// byKind are the texts by what stands before them.
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

// Poisons are textbook memory poisons, one idea each.
func Poisons() []string { return slices.Clone(byKind()[poison]) }

// Benign are ordinary memories, to be hidden in the same ways.
func Benign() []string { return slices.Clone(byKind()[benign]) }

// Spoken are poisons in other natural languages.
func Spoken() map[string][]string {
	all := maps.Clone(byKind())
	delete(all, poison)
	delete(all, benign)
	return all
}
