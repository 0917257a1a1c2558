// Package wire has the steps of decoding that the formats of all backends share.
//
// Guarantees: every string of a value, and every member name in it that is text, becomes an
// item of the operation, so that no text reaches the backend unscreened.
package wire

import (
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/origin"
	"github.com/memproxy/memproxy/adapters/spelling"
	"github.com/memproxy/memproxy/adapters/withheld"
)

// FillScope sets the scope's owner in a claim's dimension to the first name of the claim,
// unless it is set. For a write it returns false if it is set to another name.
func FillScope(s *memproxy.Scope, c *memproxy.Claim, write bool) bool {
	at := s.Owner(c.Dim)
	if at == nil {
		return true
	}
	if *at == "" {
		*at = c.Values[0]
	}
	return !write || *at == c.Values[0]
}

// AddItem adds a copy of the item like, with its own pointer and text.
func AddItem(op *memproxy.Operation, ptr, text string, like memproxy.Item) {
	like.Pointer, like.Text = ptr, text
	op.Items = append(op.Items, like)
}

// AddStrings adds an item for every string in a value, and for names as AddName does.
func AddStrings(op *memproxy.Operation, v *jsondoc.Value, ptr string, like memproxy.Item) {
	if text := v.Text(); text != "" {
		AddItem(op, ptr, text, like)
	}
	for _, m := range v.Members {
		AddMember(op, m, jsondoc.Child(ptr, m.Name), like)
	}
	for i, e := range v.Elems {
		AddStrings(op, e, jsondoc.Index(ptr, i), like)
	}
}

// minDigits is the smallest number of digits, before the fraction, of a number that can be a
// credential.
const minDigits = 4

// AddNumbers adds an item for every number in a value that can be a credential, because readers
// see numbers as they see texts.
func AddNumbers(op *memproxy.Operation, doc *jsondoc.Doc, v *jsondoc.Value, ptr string, like memproxy.Item) {
	if v.Kind == jsondoc.Number {
		text := string(doc.Raw(v))
		if whole := strings.TrimLeft(text, "-0123456789"); len(text)-len(whole) >= minDigits {
			AddItem(op, ptr, text, like)
		}
	}
	for i, e := range v.Elems {
		AddNumbers(op, doc, e, jsondoc.Index(ptr, i), like)
	}
	for _, m := range v.Members {
		AddNumbers(op, doc, m.Value, jsondoc.Child(ptr, m.Name), like)
	}
}

// AddMetadata reads a metadata object of a user's memory: what it claims, its reserved keys, and
// every string.
func (o *Options) AddMetadata(op *memproxy.Operation, doc *jsondoc.Doc, v *jsondoc.Value, ptr string, like memproxy.Item, claims *origin.Claims, user string) {
	origin.RecordAssertions(op, doc, v, ptr, o.ConfidenceKeys)
	for _, m := range v.Members {
		p := jsondoc.Child(ptr, m.Name)
		if memproxy.Reserved(m.Name) {
			op.Reserved = append(op.Reserved, p)
			continue
		}
		if m.Name == "source" && !slices.Contains(o.ConfidenceKeys, m.Name) {
			op.SourceClaim = origin.LowestTier(o.Sources.Of(user), op.SourceClaim, m.Value)
		}
		claims.AddMetadata(doc, m)
		AddMember(op, m, p, like)
		AddNumbers(op, doc, m.Value, p, like)
	}
}

// AddOther reads a member without a specific meaning, which is forwarded unchanged: what it
// claims, its name, and every string, as addresses if the backend may send requests to them.
func (o *Options) AddOther(op *memproxy.Operation, doc *jsondoc.Doc, m jsondoc.Member, ptr string, like memproxy.Item) {
	origin.RecordMemberAssertions(op, doc, m, ptr, o.ConfidenceKeys)
	AddName(op, m.Name, ptr, like)
	if withheld.HoldsCallbackURL(m) {
		like.Kind = memproxy.ItemURL
	}
	AddStrings(op, m.Value, ptr, like)
}

// AddMember adds an item for a member's name, as AddName does, and for every string in its
// value.
func AddMember(op *memproxy.Operation, m jsondoc.Member, ptr string, like memproxy.Item) {
	AddName(op, m.Name, ptr, like)
	AddStrings(op, m.Value, ptr, like)
}

// received is the only member name of a stamp that reads like a sentence.
const received = memproxy.StampPrefix + "received_at"

// AppendSentences appends the strings and member names in a value that read like sentences,
// other than names in stamps.
func AppendSentences(texts []string, v *jsondoc.Value) []string {
	if v.Kind == jsondoc.String {
		texts = appendSentence(texts, v.Text())
	}
	for _, e := range v.Elems {
		texts = AppendSentences(texts, e)
	}
	for _, m := range v.Members {
		if m.Name != received {
			texts = appendSentence(texts, m.Name)
		}
		texts = AppendSentences(texts, m.Value)
	}
	return texts
}

func appendSentence(texts []string, text string) []string {
	switch {
	case !memproxy.LooksLikeSentence(text):
		return texts
	case texts == nil:
		texts = make([]string, 0, 4) // the number in a stamp
	}
	return append(texts, text)
}

// maxName is the length up to which a member's name does not count as text. maxKey is that
// length in metadata, where callers choose the names: the shortest credentials are longer.
const maxName, maxKey = 40, 18

// AddName adds an item for a member's name that is text, such as a sentence in metadata,
// because agents read names as they read values.
func AddName(op *memproxy.Operation, name, ptr string, like memproxy.Item) {
	if len(name) > maxName || strings.Contains(ptr, "/metadata") && (len(name) > maxKey || memproxy.LooksLikeSentence(name)) || name != "" && !spelling.IsPlainName(name) {
		AddItem(op, ptr, name, like)
	}
}
