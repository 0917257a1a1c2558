// Package approved is the allow list of texts of released clients that may instruct an
// agent: system prompts, descriptions of tools and skills, and reminders that a client
// inserts among its messages. The list has the SHA-256 of each text with the client, its
// version and the place. TestClientsTextsAreApproved in e2e runs the installed clients,
// and rewrites the list with -update-approved.
package approved

import (
	_ "embed"
	"strings"
)

//go:embed texts.txt
var texts string

// Texts returns the set of approved SHA-256 digests, in hex: those of the built-in list
// and those in more, which a deployment approves itself.
func Texts(more []string) map[string]bool {
	set := make(map[string]bool, len(more))
	for _, sum := range more {
		set[sum] = true
	}
	for line := range strings.Lines(texts) {
		if sum, _, ok := strings.Cut(line, " "); ok && sum != "#" {
			set[sum] = true
		}
	}
	return set
}
