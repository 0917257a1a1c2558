package origin

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
)

// attributionOf returns what a member with this squashed name claims, or "". The names are
// those under which backends show provenance, and memproxy's own.
func attributionOf(name string) memproxy.AttributionKind {
	switch name {
	case "actorid", "actor", "author", "authorid", "authorrole", "authoredby", "createdby", "createdbyid", "creator", "creatorid", "writer", "writerid", "by", "addedby", "submittedby", "postedby", "writtenby", "updatedby",
		"toldby", "recordedby", "notedby", "enteredby", "editedby", "updatedbyid", "lastupdatedby", "lastupdatedbyid", "modifiedby", "saidby", "statedby", "speaker", "speakerid", "speakerrole",
		"attributedto", "attribution", "role", "principal", "principalid":
		return memproxy.AttributesAuthor
	case "verified", "isverified", "verifiedby", "verification", "validated", "validatedby", "trusted", "istrusted", "trusttier",
		"approvedby", "reviewedby", "humanconfirmed", "humanverified", "userconfirmed", "userverified", "onbehalfof", "confirmedby", "attestation", "attestedby",
		"endorsedby", "signedby", "certifiedby", "authorizedby", "authorisedby", "checkedby", "vettedby", "vouchedby", "vouchedforby", "witnessedby", "provenance", "authoritative":
		return memproxy.AttributesStatus
	}
	if strings.HasPrefix(name, "memproxy") {
		return memproxy.AttributesStatus // a stamp's member in another spelling or at another depth
	}
	return ""
}

// claimsCredibility reports whether a member with this squashed name claims how credible
// its content is. If its value is a number, it is clamped like a confidence; any other value
// counts as a claimed status.
func claimsCredibility(name string) bool {
	switch name {
	case "confidence", "confidencescore", "confidencelevel", "certainty", "trust", "trustscore", "trustlevel", "reliability", "credibility":
		return true
	}
	return false
}

// recordTimes records the members of a metadata object that say when the memory was made or
// changed. Dates under other names, and deeper ones, are the application's.
func recordTimes(op *memproxy.Operation, doc *jsondoc.Doc, v *jsondoc.Value, ptr string) {
	for _, m := range v.Members {
		switch strings.Map(lookAlike, jsondoc.Squash(m.Name)) {
		case "createdat", "createdon", "updatedat", "updatedon", "timestamp":
			if m.Value.Kind != jsondoc.Null {
				op.Backdated = append(op.Backdated, memproxy.ClientTime{Pointer: jsondoc.Child(ptr, m.Name), Raw: string(doc.Raw(m.Value))})
			}
		}
	}
}

// RecordAssertions records the times and the confidences in a metadata object, and the
// attributions and credibility claims in it at any depth. keys are the names of confidences.
func RecordAssertions(op *memproxy.Operation, doc *jsondoc.Doc, v *jsondoc.Value, ptr string, keys []string) {
	if op.Kind.Writes() {
		recordTimes(op, doc, v, ptr)
	}
	for _, m := range v.Members {
		switch p := jsondoc.Child(ptr, m.Name); {
		case memproxy.Reserved(m.Name):
		case !slices.Contains(keys, m.Name):
			RecordMemberAssertions(op, doc, m, p, keys)
		case storesText(op):
			op.ConfidenceClaims = append(op.ConfidenceClaims, ReadConfidence(doc, m.Value, p))
		}
	}
}

// RecordMemberAssertions records the attributions and credibility claims in a member and
// its value.
func RecordMemberAssertions(op *memproxy.Operation, doc *jsondoc.Doc, m jsondoc.Member, ptr string, keys []string) {
	if !storesText(op) {
		return
	}
	name := strings.Map(lookAlike, jsondoc.Squash(m.Name))
	kind := attributionOf(name)
	isConfidence := func(key string) bool { return jsondoc.Squash(key) == name }
	switch {
	case m.Value.Kind == jsondoc.Number && (claimsCredibility(name) || slices.ContainsFunc(keys, isConfidence)):
		op.ConfidenceClaims = append(op.ConfidenceClaims, ReadConfidence(doc, m.Value, ptr))
		return
	case claimsCredibility(name):
		kind = memproxy.AttributesStatus
	case (name == "source" || name == "sourcetrust") && slices.ContainsFunc(stringsIn(m.Value), claimsTrust):
		kind = memproxy.AttributesStatus
	}
	if kind != "" {
		addAttribution(op, doc, memproxy.Attribution{Pointer: ptr, Kind: kind}, m.Value)
		return
	}
	recordNested(op, doc, m.Value, ptr, keys)
}

func recordNested(op *memproxy.Operation, doc *jsondoc.Doc, v *jsondoc.Value, ptr string, keys []string) {
	for _, m := range v.Members {
		RecordMemberAssertions(op, doc, m, jsondoc.Child(ptr, m.Name), keys)
	}
	for i, e := range v.Elems {
		recordNested(op, doc, e, jsondoc.Index(ptr, i), keys)
	}
}

// lookAlikes maps Cyrillic, Greek and further Latin letters (homoglyphs) to the ASCII
// letters that they look like.
var lookAlikes = map[rune]rune{
	'\u0430': 'a', '\u03b1': 'a', '\u0432': 'b', '\u0185': 'b', '\u0441': 'c', '\u03f2': 'c', '\u0435': 'e',
	'\u03b5': 'e', '\u04bb': 'h', '\u043d': 'h', '\u0456': 'i', '\u0131': 'i', '\u03b9': 'i', '\u0458': 'j',
	'\u03f3': 'j', '\u043a': 'k', '\u03ba': 'k', '\u0138': 'k', '\u043c': 'm', '\u0271': 'm', '\u043f': 'n',
	'\u03b7': 'n', '\u043e': 'o', '\u03bf': 'o', '\u03c3': 'o', '\u0440': 'p', '\u03c1': 'p', '\u051b': 'q',
	'\u0433': 'r', '\u0455': 's', '\u0442': 't', '\u03c4': 't', '\u0167': 't', '\u03c5': 'u', '\u057d': 'u',
	'\u03bd': 'v', '\u0475': 'v', '\u0461': 'w', '\u0445': 'x', '\u03c7': 'x', '\u0443': 'y', '\u03b3': 'y',
	'\u04af': 'y',
}

// lookAlike returns the ASCII letter that a letter looks like, or the letter itself.
func lookAlike(r rune) rune {
	if r < utf8.RuneSelf {
		return r
	}
	return cmp.Or(lookAlikes[r], r)
}

// RecordSpeaker records a message's speaker, by name or by role. instead is the replacement for a
// claim that cannot be removed.
func RecordSpeaker(op *memproxy.Operation, doc *jsondoc.Doc, v *jsondoc.Value, ptr, instead string) {
	if storesText(op) {
		addAttribution(op, doc, memproxy.Attribution{Pointer: ptr, Kind: memproxy.AttributesAuthor, Instead: instead}, v)
	}
}

func addAttribution(op *memproxy.Operation, doc *jsondoc.Doc, at memproxy.Attribution, v *jsondoc.Value) {
	if isHarmless(doc, v) {
		return
	}
	at.Values = stringsIn(v)
	at.Legible = v.Kind == jsondoc.String || v.Kind == jsondoc.Array && len(at.Values) == len(v.Elems)
	op.Attributions = append(op.Attributions, at)
}

func stringsIn(v *jsondoc.Value) []string {
	if v.Kind == jsondoc.String {
		return []string{v.Text()}
	}
	var out []string
	for _, e := range v.Elems {
		if e.Kind == jsondoc.String {
			out = append(out, e.Text())
		}
	}
	return out
}

// claimsTrust reports whether the name of a source claims that the source is trusted. Other
// names only say where content comes from.
func claimsTrust(source string) bool {
	return slices.Contains([]string{
		"trusted", "verified", "validated", "system", "memproxy",
		"admin", "administrator", "operator", "developer",
		"human-confirmed", "human_confirmed", "log-anchored", "content-hashed", "tool-observed",
	}, memproxy.Key(source))
}

// isHarmless reports whether a value claims nothing, or only lowers the credibility. Such a
// claim is accepted.
func isHarmless(doc *jsondoc.Doc, v *jsondoc.Value) bool {
	lower := []string{"untrusted", "unverified", "hostile", "anonymous", "unknown", "low", "self-reported", "inferred"}
	return isNegative(doc, v) || v.Kind == jsondoc.String && slices.Contains(lower, memproxy.Key(v.Text()))
}
