package main

import (
	_ "embed"
	"strings"
)

// prose is the fixed text of the report, each part behind its name.
//
//go:embed prose.txt
var prose string

// note is a part of it.
func note(name string) string {
	_, text, _ := strings.Cut(prose, "<!-- "+name+" -->\n")
	text, _, _ = strings.Cut(text, "<!-- ")
	return text
}
