package ocsf

import (
	_ "embed" // the entries
	"strings"
	"sync"

	"github.com/memproxy/memproxy"
)

// threat is a reason's entry in public catalogues: the OWASP Top 10 for Agentic
// Applications, and MITRE ATLAS. Either may be "".
type threat struct{ asi, atlas string }

// listed has a line for each reason: its code and its entries, - for none. They are those
// of the table in docs/reasons.md; a test compares them.
//
//go:embed threats.txt
var listed string

// threats returns the entries by reason.
var threats = sync.OnceValue(func() map[memproxy.ReasonCode]threat {
	out := map[memproxy.ReasonCode]threat{}
	for line := range strings.Lines(listed) {
		f := strings.Fields(line)
		out[memproxy.ReasonCode(f[0])] = threat{strings.Trim(f[1], "-"), strings.Trim(f[2], "-")}
	}
	return out
})

// techniques has the names of ATLAS techniques and sub-techniques.
var techniques = map[string]string{
	"AML.T0012":     "Valid Accounts",
	"AML.T0029":     "Denial of AI Service",
	"AML.T0051":     "LLM Prompt Injection",
	"AML.T0055":     "Unsecured Credentials",
	"AML.T0057":     "LLM Data Leakage",
	"AML.T0073":     "Impersonation",
	"AML.T0080":     "AI Agent Context Poisoning",
	"AML.T0080.000": "Memory",
	"AML.T0081":     "Modify AI Agent Configuration",
}
