package main

import (
	"slices"
	"strings"
)

// licences are the prefixes of licences under which a text may be used to train a shipped
// model.
var licences = []string{"MIT", "Apache-2.0", "CC0", "CC BY 3.0", "CC BY 4.0"}

// permitted reports whether every licence of a row is among them. A licence may be
// followed by a note in brackets, and several are separated by slashes.
func permitted(license string) bool {
	license, _, _ = strings.Cut(license, "(")
	for l := range strings.SplitSeq(license, "/") {
		l = strings.TrimSpace(l)
		if l == "CC BY" { // "CC BY (per part)": of the composed rows, 3.0 and 4.0
			continue
		}
		if !slices.Contains(licences, strings.TrimSuffix(l, "-1.0")) {
			return false
		}
	}
	return true
}

// trainable reports whether a row may be used for training: its licence permits it, and
// its label is about its text. An ordinary task injected into a mail ("what is the
// capital of ...") is an attack because of its place, and harmless as text.
func (r *row) trainable() bool {
	if r.own() {
		return true
	}
	if r.Source == "bipia_attack" && strings.Contains(r.Kind, "/text/") || r.attack() && elsewhere[r.Source] {
		return false
	}
	return permitted(r.License) && r.Kind != "tool_output/table" // tables: CC BY-SA 4.0
}

// elsewhere are the sources whose attacks cannot be recognised by their words: requests
// for harm, which are a matter for moderation; plain questions to an agent; and ordinary
// questions in other languages, which would teach a model that those languages are
// poison. They are measured.
var elsewhere = map[string]bool{"jbb_artifacts": true, "hinglish": true, "deepteam": true, "tasktracker": true, "tasktracker_docs": true}

// kin groups sources that share texts or come from one project. A source is measured by a
// model trained without all of its kin.
var kin = [][]string{
	{"memgar_scenarios", "memgar_envelope"},
	{"spikee", "spikee_obfuscated", "spikee_fp"},
	{"bipia_attack", "bipia_context"},
	{"tensortrust_hijack", "tensortrust_extract"},
	{"cursorrules", "agent_rules", "agents_files"},
	{"patt_xss", "garak_payloads", "patt_injection", "patt_docs", "hardware_att", "garak_multilingual", "garak_memory"},
	{"mitre_frr", "mitre_frr_multi", "cse_instruct"},
	{"cyberseceval_pi", "cyberseceval_pi_multi"},
	{"agentdojo", "agentdyn", "injecagent"},
	{"memorybank", "memorybank_cn"},
	{"persona_chat", "xpersona"},
	{"promptmap", "raccoon"},
	{"tasktracker", "tasktracker_docs", "easyjailbreak", "jbb_artifacts"},
	{"prompt_guide", "prompt_guide_risks"},
	{"gpteacher_roleplay", "gpteacher_code", "gpteacher_codetext"},
	{"aisec_docs_mit", "aisec_docs_apache"},
	{"owasp_cheatsheets", "wstg"},
	{"go_vulndb", "rustsec", "pypa_advisories"},
	{"clinc_oos", "banking77", "sgd"},
	{"mix_web", "mix_tool", "mix_code", "mix_memory", "mix_mail", "mix_obfuscated"},
}

// payloads are the sources whose attacks the mix_ sources embed in carriers.
var payloads = []string{
	"pif_bench", "lc_injection", "authensor", "agent_firewall_hw", "deepteam", "agentshield", "atlas_seeds", "prompt_shield", "agentfw_jb", "jkelly_bench", "hinglish",
}

// composed maps sources that are made of others to those. A composed source and its parts
// are never used to train a model that judges the other.
var composed = map[string][]string{
	"mix_web":          append([]string{"ms_playbook", "go_vulndb", "nodejs_org"}, payloads...),
	"mix_tool":         append([]string{"clinc_oos", "banking77"}, payloads...),
	"mix_code":         append([]string{"gpteacher_codetext"}, payloads...),
	"mix_memory":       append([]string{"xpersona"}, payloads...),
	"mix_mail":         append([]string{"k8s_community", "govuk_docs"}, payloads...),
	"mix_obfuscated":   payloads,
	"tasktracker_docs": {"tasktracker", "govuk_docs"},
}

// kinOf returns a source's kin, itself included.
func kinOf(source string) []string {
	for _, k := range kin {
		if slices.Contains(k, source) {
			return k
		}
	}
	return []string{source}
}

// related returns the sources that are left out together with source: its kin, the parts
// of composed ones, and those composed of them. It is sorted.
func related(source string) []string {
	out := slices.Clone(kinOf(source))
	for _, s := range kinOf(source) {
		out = append(out, composed[s]...)
		for whole, of := range composed {
			if slices.Contains(of, s) {
				out = append(out, whole)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
