package ocsf

import "github.com/memproxy/memproxy"

// threat is a reason's entry in public catalogues: the OWASP Top 10 for Agentic
// Applications, and MITRE ATLAS. Either may be "".
type threat struct{ asi, atlas string }

// threatOf returns the entries for a reason, which are those of the table in
// docs/reasons.md; a test compares them.
func threatOf(code memproxy.ReasonCode) threat {
	switch code {
	case "identity.missing", "identity.invalid":
		return threat{"ASI03", "AML.T0012"}
	case "identity.acts_as", "identity.user", "identity.app", "identity.run", "scope.conflict":
		return threat{"ASI03", "AML.T0073"}
	case "identity.broad", "owner.unknown", "policy.no_permit", "payload.unclaimed":
		return threat{asi: "ASI03"}
	case "scope.unpinned", "owner.foreign", "owner.filtered", "answer.unclaimed", "identity.tenant":
		return threat{"ASI03", "AML.T0057"}
	case "route.unknown", "run.ungated", "payload.duplicate", "payload.encoding", "payload.media_type", "payload.path",
		"state.withheld", "state.sanitised", "field.size", "field.trait", "layer.namespace", "answer.unreadable":
		return threat{asi: "ASI06"}
	case "payload.too_large", "payload.too_deep", "payload.slow", "payload.too_many",
		"limit.rejections", "limit.in_flight", "limit.side_requests":
		return threat{atlas: "AML.T0029"}
	case "payload.reserved", "payload.unseen", "trust.authority", "trust.correction", "trust.backdated",
		"screen.risk", "screen.pattern", "screen.extracted", "screen.withheld", "screen.stored", "screen.rewritten", "layer.inferred",
		"integrity.mismatch", "integrity.unknown", "integrity.metadata", "integrity.missing", "integrity.chain", "integrity.ledger":
		return threat{"ASI06", "AML.T0080.000"}
	case "integrity.forged":
		return threat{"ASI06", "AML.T0073"}
	case "trust.clamped", "trust.attribution":
		return threat{"ASI09", "AML.T0080.000"}
	case "screen.secret":
		return threat{"ASI06", "AML.T0055"}
	case "field.forbidden":
		return threat{"ASI06", "AML.T0081"}
	case "policy.admin":
		return threat{"ASI03", "AML.T0081"}
	case "policy.bulk", "budget.total", "budget.tenant", "budget.namespace", "hold.queue":
		return threat{asi: "ASI08"}
	case "policy.steering":
		return threat{"ASI01", "AML.T0051"}
	case "budget.hour":
		return threat{"ASI08", "AML.T0029"}
	case "budget.rapid_writes", "session.locked":
		return threat{asi: "ASI10"}
	}
	return threat{}
}

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
