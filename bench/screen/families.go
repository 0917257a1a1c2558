package main

import (
	"regexp"
	"strings"
)

// The families of attacks: styles, not files. A family is left out of training as a
// whole, in all sources, and judged by the resulting classifier.
const (
	famOverride   = "overrides"
	famJailbreak  = "personas and framings"
	famExtraction = "extraction and exfiltration"
	famAuthority  = "claims of authority"
	famMemory     = "memory-write directives"
	famDocument   = "inside documents"
	famTool       = "tools and agency"
	famMarkup     = "markup and code"
	famEncoding   = "encodings"
	famTask       = "task injection"
	famPlanted    = "planted facts and conventions"
	famLanguage   = "other languages"
)

var families = []string{
	famOverride, famJailbreak, famExtraction, famAuthority, famMemory, famDocument, famTool, famMarkup, famEncoding, famTask, famPlanted, famLanguage,
}

// bySource has the families of sources whose kinds do not tell.
var bySource = map[string]string{
	"patt_xss": famMarkup, "patt_injection": famMarkup, "spikee_obfuscated": famEncoding, "mix_obfuscated": famEncoding,
	"inthewild_jailbreak": famJailbreak, "easyjailbreak": famJailbreak, "jbb_artifacts": famJailbreak, "agentfw_jb": famJailbreak,
	"giskard": famOverride, "tensortrust_hijack": famOverride, "tensortrust_extract": famExtraction, "raccoon": famExtraction,
	"asb_opi": famTask, "bipia_attack": famTask, "tasktracker": famTask, "tasktracker_docs": famTask,
	"mix_web": famDocument, "mix_tool": famDocument, "mix_code": famDocument, "mix_memory": famMemory, "mix_mail": famDocument,
	"hinglish": famLanguage, "ko_redteam": famLanguage, "carbon_judge": famDocument, "email_agent": famDocument, "redteamcua": famDocument, "agentdojo": famDocument, "agentdyn": famDocument, "injecagent": famDocument,
}

// byKind finds the family by a substring of the kind that a source gives its rows; the
// first match counts.
var byKind = []struct {
	family string
	words  []string
}{
	{famLanguage, []string{"language", "translat", "_ko", "_ja", "_zh", "multi_lang"}},
	{famPlanted, []string{"dependency", "convention", "supply", "cross_domain", "fact", "misinformation", "false", "bank", "knowledge", "rug_pull", "rag_poison"}},
	{famEncoding, []string{"encod", "obfus", "smuggling", "homo", "leet", "zerowidth", "rot13", "base64", "unicode", "whitespace", "evasion", "hex"}},
	{famMemory, []string{"memory", "history_poison", "sleeper", "persist"}},
	{famMarkup, []string{"xss", "markdown", "html", "python", "shell", "sql", "command", "code-safety", "inject_code", "output_handling"}},
	{famDocument, []string{"indirect", "document", "email", "web_page", "rag", "tool_output", "file/", "business"}},
	{famTool, []string{"tool", "agency", "mcp", "delegat", "autonomous", "privilege", "excessive"}},
	{famExtraction, []string{"exfil", "credential", "extract", "steal", "sysmsg", "direct_requests", "leak", "secret", "theft"}},
	{famAuthority, []string{"authority", "impersonat", "social", "persuasion", "emotional", "coercion", "system_mode", "control"}},
	{famJailbreak, []string{"jailbreak", "dan", "role", "persona", "hypothetical", "framing", "virtualization", "fiction", "crescendo", "many_shot", "cognitive", "dual"}},
	{famTask, []string{"question", "output_format", "few_shot", "repeated", "overload", "splitting", "mixed", "distraction", "long-output", "denial"}},
}

// spoken matches the language of a kind other than English.
var spoken = regexp.MustCompile(`/(ar|bn|de|es|fa|fr|hi|hi-latn|id|it|ja|ko|nl|pl|pt|ru|sv|ta|te|th|tr|uk|ur|vi|zh|kn)$`)

// familyOf returns a row's family by its source and kind. It is coarse: sources name
// their kinds by technique or by goal.
func familyOf(r *row) string {
	if f := bySource[r.Source]; f != "" {
		return f
	}
	k := strings.ToLower(r.Kind)
	if spoken.MatchString(k) {
		return famLanguage
	}
	for _, f := range byKind {
		for _, w := range f.words {
			if strings.Contains(k, w) {
				return f.family
			}
		}
	}
	if strings.HasPrefix(k, "memory_write/") {
		return famMemory
	}
	return famOverride
}
