package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/evasion"
	"github.com/memproxy/memproxy/screen"
	"github.com/memproxy/memproxy/screen/likeness"
)

// layers are the layers that judge one text by itself. Their findings add up, so
// disabling a layer is the same as removing its findings.
var layers = []string{screen.LayerLexicon, screen.LayerDirective, otherLanguages, screen.LayerClassify, likenessLayer}

// The rules of other languages are part of the layer directive; likeness is a layer of
// package panel.
const (
	otherLanguages = "directive, the languages other than English"
	likenessLayer  = "likeness"
)

// ruleFiles maps the rule files of the pack to their layers.
var ruleFiles = map[string]string{"lexicon.txt": screen.LayerLexicon, "directives.txt": screen.LayerDirective, "tongues/rules.txt": otherLanguages}

// layersOfRules maps each rule to its layer. screen.RuleTruncated has none: that finding
// cannot be disabled.
func layersOfRules() map[string]string {
	of := map[string]string{screen.RuleClassifier: screen.LayerClassify}
	for file, layer := range ruleFiles {
		for line := range strings.Lines(packFile(file)) {
			if id, _, ok := strings.Cut(line, " "); ok && id != "" && id[0] != '#' && id[0] != '\t' {
				of[id] = layer
			}
		}
	}
	return of
}

// ablation weighs the same findings without each layer in turn.
type ablation struct {
	weigh *screen.Screener
	of    map[string]string
	like  *likeness.Index
}

// held reports whether a text with these findings of package screen is held: first with
// all layers, then without each layer.
func (a *ablation) held(text string, found []memproxy.Finding) []bool {
	alike := a.like.Match(text, "").OverThreshold()
	out := []bool{alike || a.weigh.ReportOf(found, "", "").Verdict.Stops()}
	for _, layer := range layers {
		rest := slices.DeleteFunc(slices.Clone(found), func(f memproxy.Finding) bool {
			return a.of[f.Rule] == layer || layer == screen.LayerDirective && a.of[f.Rule] == otherLanguages
		})
		out = append(out, alike && layer != likenessLayer || a.weigh.ReportOf(rest, "", "").Verdict.Stops())
	}
	return out
}

// without has the results without a layer.
type without struct {
	attacks, family byName
	benign, hidden  tally
}

// ablate returns the results with all layers, and then without each layer.
func ablate(b setting, res []result) []without {
	a := ablation{noError(screen.New(screen.Options{Pack: b.pack})), layersOfRules(), builtinLikeness()}
	out := make([]without, 1+len(layers))
	for i := range out {
		out[i] = without{attacks: byName{}, family: byName{}}
	}
	bySource, byFamily := make([][]bool, len(b.rows)), make([][]bool, len(b.rows))
	parallel(len(b.rows), func(i int) {
		if r := &b.rows[i]; r.measured() {
			bySource[i] = a.held(r.Text, res[i].source.Findings)
			if r.attack() {
				byFamily[i] = a.held(r.Text, res[i].family.Findings)
			}
		}
	})
	for i := range b.rows {
		r := &b.rows[i]
		for k, held := range bySource[i] {
			if !r.attack() {
				out[k].benign.add(held, false, "")
				continue
			}
			out[k].attacks.add(r.Source, held, false, "")
			out[k].family.add(familyOf(r), byFamily[i][k], false, "")
		}
	}
	for _, t := range evasion.Transforms() {
		for _, p := range evasion.Poisons() {
			text := t.Apply(p)
			for k, held := range a.held(text, a.weigh.Text(text, "", "").Findings) {
				out[k].hidden.add(held, false, "")
			}
		}
	}
	return out
}

// writeAblation writes the contribution of each layer.
func writeAblation(w io.Writer, b setting, res []result) {
	rows := ablate(b, res)
	fmt.Fprint(w, note("ablation"))
	every := func(string) bool { return true }
	for i := range rows {
		r := &rows[i]
		name := "all layers"
		if i > 0 {
			name = "without " + layers[i-1]
		}
		families, _ := macro(r.family, every)
		sources, _ := macro(r.attacks, every)
		fmt.Fprintf(w, "| %s | %.1f %% | %.1f %% | %.2f %% | %.1f %% |\n", name, families, sources, r.benign.share(), r.hidden.share())
	}
	fmt.Fprint(w, note("required"))
}
