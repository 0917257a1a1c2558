package main

import (
	_ "embed"
	"strings"
)

// prose has the fixed text of the report, in named parts.
//
//go:embed prose.txt
var prose string

// note returns a part of prose by name.
func note(name string) string {
	_, text, _ := strings.Cut(prose, "<!-- "+name+" -->\n")
	text, _, _ = strings.Cut(text, "<!-- ")
	return text
}
