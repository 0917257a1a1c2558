// Package approved has the texts of released clients that may instruct an agent:
// system prompts, descriptions of tools and skills, and reminders that a client puts
// among its messages. They are known by their SHA-256, each with the client, its
// version and the place. TestClientsTextsAreApproved in e2e runs the installed
// clients, and writes the list anew with -update-approved.
package approved

import (
	_ "embed"
	"strings"
)

//go:embed texts.txt
var texts string

// Texts returns the SHA-256, in hex, of the texts that are shipped approved and of
// those that a deployment approves itself.
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
