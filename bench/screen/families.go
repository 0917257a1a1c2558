package main

import "strings"

// The families by which attacks are reported apart.
var families = []string{
	"overrides", "memory-write directives", "exfiltration", "impersonation", "markup and encoding", "planted conventions", "false facts", "task injection",
}

// familyOf reads a row's family from its source and the kind that the source
// gave it. It is coarse: sources name their kinds by technique or by goal.
func familyOf(r *row) string {
	k := strings.ToLower(r.Kind)
	has := func(words ...string) bool {
		for _, w := range words {
			if strings.Contains(k, w) {
				return true
			}
		}
		return false
	}
	switch r.Source {
	case "patt_xss", "spikee_obfuscated":
		return "markup and encoding"
	case "inthewild_jailbreak", "giskard", "tensortrust_hijack":
		return "overrides"
	case "tensortrust_extract":
		return "exfiltration"
	case "asb_opi", "bipia_attack":
		return "task injection"
	}
	switch {
	case has("encod", "obfus", "xss", "markdown_js", "html", "smuggling", "python", "shell", "sql", "homo"):
		return "markup and encoding"
	case has("exfil", "credential", "extract", "steal", "sysmsg", "direct_requests", "leak", "secret"):
		return "exfiltration"
	case has("authority", "role", "persona", "system_mode", "privilege", "impersonat", "social", "control", "indirect_ref", "persuasion"):
		return "impersonation"
	case has("dependency", "convention", "code", "supply"):
		return "planted conventions"
	case has("minja", "cross_domain", "fact", "misinformation", "false", "bank", "knowledge"):
		return "false facts"
	case strings.HasPrefix(k, "memory_write/"):
		return "memory-write directives"
	case has("language", "question", "output_format", "virtualization", "hypothetical", "few_shot", "many_shot", "repeated", "overload", "payload_splitting", "mixed", "crescendo", "distraction", "translation", "long-output"):
		return "task injection"
	}
	return "overrides"
}
