package trust

import (
	"path"
	"slices"
	"strings"
	"unicode"

	"github.com/memproxy/memproxy"
)

// ShownText is a text that a session was shown: a memory, or a tool's result.
type ShownText struct {
	ID, SHA256 string
	Text       string // in plain form (Plain)
}

// Attest returns how well the source of a write is known, by the texts that its session
// was shown before. The write's own claim of an attestation can only lower the result.
func Attest(op *memproxy.Operation, shown []ShownText) memproxy.Attestation {
	texts := Texts(op)
	best, lowest := memproxy.SelfReported, memproxy.LogAnchored
	raise := func(to memproxy.Attestation, seen bool) {
		if seen && to.Outranks(best) {
			best = to
		}
	}
	// A named source does not attest an inferred text, because it need not contain it.
	named := func(is func(*ShownText) bool) bool {
		inferred := func(it memproxy.Item) bool {
			return it.Kind == memproxy.ItemContent && it.Inferred && it.Text != ""
		}
		return !slices.ContainsFunc(op.Items, inferred) && slices.ContainsFunc(shown, func(s ShownText) bool { return is(&s) && s.says(texts) })
	}
	raise(memproxy.ToolObserved, copied(texts, shown))
	for i := range op.Items {
		it := &op.Items[i]
		if it.Kind != memproxy.ItemMetadata {
			continue
		}
		switch metadataKey(it.Pointer) {
		case "source_sha256":
			raise(memproxy.ContentHashed, named(func(s *ShownText) bool { return s.SHA256 == strings.ToLower(it.Text) }))
		case "source_id", "source_ids", "source_memory_ids":
			raise(memproxy.ToolObserved, named(func(s *ShownText) bool { return s.ID == it.Text }))
		case "attestation":
			if claim := memproxy.Attestation(it.Text); lowest.Outranks(claim) && slices.Contains(memproxy.Attestations[:], claim) {
				lowest = claim
			}
		}
	}
	if best.Outranks(lowest) {
		return lowest
	}
	return best
}

// Texts are the texts that an operation writes.
func Texts(op *memproxy.Operation) []string {
	var out []string
	for i := range op.Items {
		if it := &op.Items[i]; it.Kind == memproxy.ItemContent && it.Text != "" {
			out = append(out, it.Text)
		}
	}
	return out
}

// says reports whether the text states everything that is written. A named source
// attests only its own statements, not everything that is written under its name.
func (s *ShownText) says(texts []string) bool {
	said := Statements{}
	said.add(strings.ReplaceAll(s.Text, sentenceEnd, "\n"))
	return len(texts) > 0 && !slices.ContainsFunc(texts, func(text string) bool { return !said.States(text) })
}

// copied reports whether everything that is written was shown verbatim.
func copied(texts []string, shown []ShownText) bool {
	return len(texts) > 0 && len(shown) > 0 && !slices.ContainsFunc(texts, func(text string) bool {
		plain := Plain(text)
		return plain == "" || !slices.ContainsFunc(shown, func(s ShownText) bool { return strings.Contains(s.Text, plain) })
	})
}

// metadataKey returns the name of the metadata member that a pointer leads to, directly
// or to an element of its list. It is "" for other pointers.
func metadataKey(pointer string) string {
	if dir, last := path.Split(pointer); last != "" && strings.Trim(last, "0123456789") == "" {
		pointer = strings.TrimSuffix(dir, "/")
	}
	if dir, key := path.Split(pointer); strings.HasSuffix(dir, "/metadata/") {
		return key
	}
	return ""
}

// sentenceEnd separates the sentences of a plain form, and begins and ends it, so that a
// search finds whole sentences only, and not "like tea" in "Ann does not like tea".
const sentenceEnd = "\x00"

// Plain normalises a text for comparison, the plain form: letters in lower case, single
// spaces, sentences between sentenceEnd. A question keeps its mark. The plain form of a
// text without words is "".
func Plain(text string) string {
	var b strings.Builder
	b.Grow(len(text) + 2*len(sentenceEnd))
	word, open := false, false
	end := func() {
		if open {
			b.WriteString(sentenceEnd)
		}
		word, open = false, false
	}
	runes := []rune(text)
	for i, c := range runes {
		switch {
		case c == '\n', strings.ContainsRune(".!?", c) && (i+1 == len(runes) || unicode.IsSpace(runes[i+1])):
			if open && c == '?' {
				b.WriteRune(c)
			}
			end()
		case unicode.IsSpace(c) || unicode.IsControl(c):
			word = false
		default:
			if open && !word {
				b.WriteByte(' ')
			}
			b.WriteRune(unicode.ToLower(c))
			word, open = true, true
		}
	}
	end()
	if b.Len() == 0 {
		return ""
	}
	return sentenceEnd + b.String()
}

// Without removes the sentences that one of the others contains, as a statement or a
// question, from a text in plain form. It returns "" if no sentence is left.
func Without(plain string, others []string) string {
	var out []string
	for sentence := range strings.SplitSeq(strings.Trim(plain, sentenceEnd), sentenceEnd) {
		if !slices.ContainsFunc(others, func(own string) bool { return strings.Contains(own, strings.TrimRight(sentence, "?")) }) {
			out = append(out, sentence)
		}
	}
	if len(out) == 0 {
		return ""
	}
	return sentenceEnd + strings.Join(out, sentenceEnd) + sentenceEnd
}
