// Package spelling reads the names that identify the owner of a request, in query strings,
// forms, headers and JSON bodies, and refuses those that servers and clients read
// differently (parser differentials).
//
// A name is refused if one reader takes it for an owner's and another does not: other
// spellings, brackets, repetitions, doubly encoded names, and names and values that are not
// plain text. Lists has the names on which an adapter depends.
package spelling

import (
	"maps"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
)

// Names are the names that have a meaning for an adapter. The zero value has none; see
// New.
type Names struct {
	claims        map[string]string // by squashed spelling
	lists, single []string
}

// New returns the names. claims name an owner and have one value. lists are claims that may
// be repeated. single are other known parameters, which also have one value.
func New(claims, lists, single []string) *Names {
	n := &Names{claims: map[string]string{}, lists: lists, single: single}
	for _, name := range slices.Concat(claims, lists) {
		n.claims[jsondoc.Squash(name)] = name
	}
	return n
}

// Claim returns the claim of which a name is a spelling, or "".
func (n *Names) Claim(name string) string {
	var buf [64]byte // a longer name is allocated
	return n.claims[string(jsondoc.AppendSquashed(buf[:0], name))]
}

// CheckMembers refuses members of an object that some readers could take for known ones: a
// known name in another letter case or with look-alike letters, another spelling of a
// present member ("userId" next to "user_id"), and any other spelling of a claim, even if
// the claim itself is absent. Errors are *memproxy.Malformed.
func (n *Names) CheckMembers(v *jsondoc.Value, ptr string, known map[string]bool) error {
	for _, m := range v.Members {
		if low := jsondoc.Fold(m.Name); low != m.Name && known[low] {
			return refused(memproxy.PayloadDuplicate, jsondoc.Child(ptr, m.Name), "a known key is spelled with different letter case")
		}
	}
	if m, ok := jsondoc.Alias(v, func(name string) bool { return known[name] }); ok {
		return refused(memproxy.PayloadDuplicate, jsondoc.Child(ptr, m.Name), "a known key occurs twice, in two spellings")
	}
	present := map[string]bool{}
	for _, m := range v.Members { // some readers take another spelling for the claim, others ignore it; null is harmless
		if claim := n.Claim(m.Name); claim != "" && claim != m.Name && m.Value.Kind != jsondoc.Null && !present[claim] {
			if v.Get(claim) == nil {
				return refused(memproxy.PayloadDuplicate, jsondoc.Child(ptr, m.Name), "a known key has a non-standard spelling")
			}
			present[claim] = true
		}
	}
	return nil
}

// ParseQuery reads a query string, and refuses ambiguous names in it. Errors are
// *memproxy.Malformed.
func (n *Names) ParseQuery(query string) (url.Values, error) {
	if query == "" {
		return nil, nil
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, refused(memproxy.PayloadMalformed, "query", "the query string is ambiguous")
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if err := n.checkParam(key, values[key]); err != nil {
			return nil, err
		}
	}
	return values, nil
}

func (n *Names) checkParam(key string, list []string) error {
	base, nested, ok := brackets(key)
	ptr := "query:" + base
	if !ok {
		return refused(memproxy.PayloadMalformed, "query", "the name of a query parameter is ambiguous")
	}
	claim := n.Claim(base)
	switch {
	case claim != "" && claim != base:
		return refused(memproxy.PayloadDuplicate, "query:"+claim, "a known query parameter has a non-standard spelling")
	case claim != "" && nested != nil:
		return refused(memproxy.PayloadDuplicate, ptr, "a known query parameter has brackets, which servers interpret differently")
	case (slices.Contains(n.single, base) || claim != "" && !slices.Contains(n.lists, base)) && valuesDiffer(list):
		return refused(memproxy.PayloadDuplicate, ptr, "a known query parameter is repeated")
	}
	for _, name := range nested {
		if claim := n.Claim(name); claim != "" && claim != name {
			return refused(memproxy.PayloadDuplicate, ptr, "a known name has a non-standard spelling")
		}
	}
	for _, text := range list {
		if !utf8.ValidString(text) || strings.IndexByte(text, 0) >= 0 {
			return refused(memproxy.PayloadEncoding, ptr, "a query parameter is not valid UTF-8")
		}
	}
	return nil
}

// valuesDiffer reports whether a repeated parameter has different values. Equal values are
// unambiguous.
func valuesDiffer(list []string) bool {
	return slices.ContainsFunc(list[1:], func(v string) bool { return v != list[0] })
}

// IsPlainName reports whether a name consists of characters that all servers and forms read
// in the same way.
func IsPlainName(name string) bool {
	return name != "" && IsWord(name, "_-.$")
}

// IsWord reports whether a text has only ASCII letters, digits and the characters of
// marks.
func IsWord(s, marks string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && !strings.ContainsRune(marks, r)
	})
}

// brackets splits a key with brackets: "a[b][]" is the base "a" with the nested keys "b" and
// "". ok is false if a nested key contains characters with a meaning in keys or encodings.
func brackets(key string) (base string, nested []string, ok bool) {
	i := strings.IndexByte(key, '[')
	if i < 0 {
		return key, nil, IsPlainName(key)
	}
	base, rest := key[:i], key[i:]
	for rest != "" {
		end := strings.IndexByte(rest, ']')
		if rest[0] != '[' || end < 0 {
			return base, nil, false
		}
		name := rest[1:end]
		if strings.ContainsAny(name, "[%&=;") || strings.ContainsFunc(name, unicode.IsControl) || !utf8.ValidString(name) {
			return base, nil, false
		}
		nested, rest = append(nested, name), rest[end+1:]
	}
	return base, nested, IsPlainName(base)
}

// CheckField checks the name of a form's field. Errors are *memproxy.Malformed.
func (n *Names) CheckField(name string) error {
	ptr := "part:" + name
	switch claim := n.Claim(name); {
	case !IsPlainName(name), name == "_charset_": // in HTML, _charset_ names the encoding of the other fields
		return refused(memproxy.PayloadMalformed, "part", "the name of a form field is ambiguous")
	case claim != "" && claim != name:
		return refused(memproxy.PayloadDuplicate, ptr, "a known form field has a non-standard spelling")
	}
	return nil
}

// CheckHeaders refuses headers whose names are other spellings of a header that names an
// identity, because servers that convert headers to variables accept several spellings. Errors are
// *memproxy.Malformed.
func (n *Names) CheckHeaders(h memproxy.Header) error {
	for name := range h {
		if claim := n.Claim(name); claim != "" && !strings.EqualFold(claim, name) {
			return refused(memproxy.PayloadDuplicate, "header:"+strings.ToLower(claim), "a known header has a non-standard spelling")
		}
	}
	return nil
}

func refused(code memproxy.ReasonCode, ptr, detail string) error {
	return &memproxy.Flaw{Code: code, Status: 400, Pointer: ptr, Detail: detail}
}
