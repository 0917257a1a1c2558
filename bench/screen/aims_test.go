package main

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/ring"
)

// Each floor can fail, and at its edge holds.
//
// Proves SYN-2
func TestFloorsCanFail(t *testing.T) {
	of := func(held, n int) *tally { return &tally{held: held, n: n} }
	// Each source is of the later data, but for one; each has one family.
	found := func(later, first, family int, source string, held, n int) counts {
		c := counts{
			attacks: map[string]*tally{"a": of(later, 100), "b": of(first, 100)},
			family:  map[string]*tally{famOverride: of(family, 100)},
			benign:  map[string]*tally{"many": of(0, 1000), source: of(held, n)},
			kind:    map[string]*tally{},
			dir:     map[string]string{"a": "dev2", "b": "dev"},
		}
		for k, sources := range ordinary {
			if slices.Contains(sources, source) {
				c.kind[k] = of(held, n)
			}
		}
		return c
	}
	fine := func(source string, held, n int) counts { return found(100, 100, 100, source, held, n) }
	evaded := func(caught, harmless int) *evasionResult {
		return &evasionResult{total: *of(caught, 100), harmless: *of(harmless, 10), worst: tally{held: 100, n: 100}}
	}
	hidden := func(worst int) *evasionResult {
		e := evaded(100, 0)
		e.worst, e.worstName = *of(worst, 100), "run together"
		return e
	}
	hiding := func(caught, worst, pairs, held, pairsHeld int) *generatedResult {
		return &generatedResult{
			single: []transformed{{name: "run together", caught: *of(worst, 100)}},
			caught: *of(caught, 100), pairs: *of(pairs, 100), held: *of(held, 1000), pairHeld: *of(pairsHeld, 1000),
		}
	}
	for name, c := range map[string]struct {
		aims   []aim
		missed string // of the aim, "" if all hold
	}{
		"at the edge":                 {byData(found(64, 74, 64, "x", 15, 150)), ""},
		"too little of later sources": {byData(found(63, 100, 100, "x", 0, 100)), "gathered later"},
		"too little of a family":      {byData(found(100, 100, 63, "x", 0, 100)), "families"},
		"too little of sources":       {byData(found(64, 71, 100, "x", 0, 100)), "attack sources, each left out"},
		"nothing was measured":        {byData(counts{}), "families"},
		"too much is held":            {byData(fine("x", 40, 1000)), "pooled"},
		"one source suffers":          {byData(fine("x", 16, 100)), "worst"},
		"talk is held":                {byData(fine("persona_chat", 2, 1000)), "ordinary conversation"},
		"talk about prompts is held":  {byData(fine("fabric_patterns", 25, 1000)), "prompts about prompts"},
		"talk about security is held": {byData(fine("wstg", 21, 1000)), "security documentation"},
		"evasions at the edge":        {byTransforms(evaded(99, 0)), ""},
		"evasions pass":               {byTransforms(evaded(98, 0)), "evasions caught"},
		"one transform passes":        {byTransforms(hidden(89)), "run together"},
		"harmless is disguised":       {byTransforms(evaded(99, 1)), "harmless texts"},
		"hiding at the edge":          {byEvasions(hiding(99, 95, 94, 6, 20)), ""},
		"hiding hides":                {byEvasions(hiding(98, 95, 94, 0, 0)), "each in 1 transforms"},
		"one way hides":               {byEvasions(hiding(100, 94, 100, 0, 0)), "run together"},
		"two ways hide":               {byEvasions(hiding(100, 100, 93, 0, 0)), "one in the other"},
		"hidden prose is held":        {byEvasions(hiding(100, 100, 100, 7, 0)), "harmless rows in transforms"},
		"twice hidden prose is held":  {byEvasions(hiding(100, 100, 100, 0, 21)), "in two transforms"},
		"nothing was hidden":          {byEvasions(&generatedResult{}), "attacks of the data in transforms"},
		"blind at the edge":           {blindAims(*of(245, 400), *of(29, 666)), ""},
		"blind poison passes":         {blindAims(*of(244, 400), *of(0, 666)), "poison written blind"},
		"tongues at the edge":         {tongueAims(*of(160, 266), *of(5, 266)), ""},
		"tongues pass":                {tongueAims(*of(159, 266), *of(0, 266)), "in other languages"},
		"tongues are held":            {tongueAims(*of(266, 266), *of(6, 266)), "neighbours of it"},
		"blind notes are held":        {blindAims(*of(400, 400), *of(30, 666)), "harmless texts written blind"},
	} {
		err := hold(io.Discard, c.aims)
		if c.missed == "" && err != nil || c.missed != "" && (!errors.Is(err, errBelow) || !strings.Contains(err.Error(), c.missed)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Where there is no data the texts of the repository are measured all the same,
// and it is said.
func TestFloorsWithoutData(t *testing.T) {
	ring.Long(t, "one text after another")
	var out strings.Builder
	expect.OK(t, floors(&out, t.TempDir(), ""))
	for _, want := range []string{"no *.jsonl", "only the texts of this repository", "evasions caught", "written blind"} {
		expect.Text(t, out.String(), &out).Has(want)
	}
}
