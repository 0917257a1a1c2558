package origin

import (
	"cmp"
	_ "embed" // the table is data
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/spelling"
)

// nameTable has the names of claims.
//
//go:embed names.txt
var nameTable string

var (
	nameLists      = spelling.ParseLists(nameTable)
	authorNames    = nameLists.Set("author")
	statusNames    = nameLists.Set("status")
	credibility    = nameLists.Set("credibility")
	timeNames      = nameLists.Set("times")
	trustedSources = nameLists.Set("trusted")
	lowering       = nameLists.Set("lower")
	layers         = spelling.Mapping[memproxy.Layer](nameLists, "layers")
)

// attributionOf returns what a member with this squashed name claims, or "".
func attributionOf(name string) memproxy.AttributionKind {
	switch {
	case authorNames[name]:
		return memproxy.AttributesAuthor
	case statusNames[name], strings.HasPrefix(name, "memproxy"): // a stamp's member in another spelling or at another depth
		return memproxy.AttributesStatus
	}
	return ""
}

// recordTimes records the members of a metadata object that say when the memory was made or
// changed. Deeper ones are the application's.
func recordTimes(op *memproxy.Operation, doc *jsondoc.Doc, v *jsondoc.Value, ptr string) {
	for _, m := range v.Members {
		if timeNames[strings.Map(lookAlike, jsondoc.Squash(m.Name))] && m.Value.Kind != jsondoc.Null {
			op.Backdated = append(op.Backdated, memproxy.ClientTime{Pointer: jsondoc.Child(ptr, m.Name), Raw: string(doc.Raw(m.Value))})
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
	case m.Value.Kind == jsondoc.Number && (credibility[name] || slices.ContainsFunc(keys, isConfidence)):
		op.ConfidenceClaims = append(op.ConfidenceClaims, ReadConfidence(doc, m.Value, ptr))
		return
	case credibility[name]:
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

func claimsTrust(source string) bool { return trustedSources[memproxy.Key(source)] }

// isHarmless reports whether a value claims nothing, or only lowers the credibility. Such a
// claim is accepted.
func isHarmless(doc *jsondoc.Doc, v *jsondoc.Value) bool {
	return isNegative(doc, v) || v.Kind == jsondoc.String && lowering[memproxy.Key(v.Text())]
}
