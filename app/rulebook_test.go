package app

import (
	"testing"

	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/policy"
	"github.com/memproxy/memproxy/screen"
)

// Everything that affects decisions changes the rules' version, which records contain
// and which triggers validation of memories. Locations of stores and packs do not.
func TestRulesVersionCoversAllSettings(t *testing.T) {
	t.Parallel()
	version := func(more string) string {
		text := "profile: development\nbackends:\n  - {name: mem0, kind: mem0, listen: \"127.0.0.1:0\", upstream: \"http://127.0.0.1:1\"}\n" + more
		cfg := must.Get(config.Parse("memproxy.yaml", []byte(text), func(string) string { return "" }))(t)
		return versionOf(policy.Bundle{}, screen.Default(), cfg)
	}
	usual := version("")
	for more, same := range map[string]bool{
		"log: {level: debug}":                                           true,
		"budgets: {redis: {url: \"redis://127.0.0.1:1\"}}":              true,
		"screening: {pack: elsewhere}":                                  true,
		"enforce: false":                                                false,
		"ownership: {changed: ignore}":                                  false,
		"answers: {headers: drop}":                                      false,
		"budgets: {together: 3}":                                        false,
		"confidence: {clamp: false}":                                    false,
		"memories: {rewrite: hard}":                                     false,
		"sources: {names: {wiki: trusted}}":                             false,
		"screening: {approved: [" + sha("a text") + "]}":                false,
		"screening: {similar: {url: \"http://127.0.0.1:1\", model: m}}": false,
		"screening: {judge: {url: \"http://127.0.0.1:1\", model: m}}":   false,
		"screening: {baseline: {learn: 7}}":                             false,
		"identity: {established: {facts: 7}}":                           false,
	} {
		if got := version(more); (got == usual) != same {
			t.Errorf("%s: the version is the same: %v", more, got == usual)
		}
	}
}
