package mem0

import (
	"net/url"
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/spelling"
)

// looksLikeIDName reports whether the name of a member or a parameter has the form of one
// that identifies an object: it ends in "id" or "ids" as a word of its own.
func looksLikeIDName(name string) bool {
	for _, end := range [...]string{"Id", "Ids", "ID", "IDs"} {
		if rest, ok := strings.CutSuffix(name, end); ok && rest != "" && strings.ToUpper(rest) != rest {
			return true
		}
	}
	low := jsondoc.Fold(name)
	if low == "id" || low == "ids" {
		return true
	}
	return slices.ContainsFunc([]string{"_id", "_ids", "-id", "-ids", ".id", ".ids"}, func(end string) bool { return strings.HasSuffix(low, end) })
}

// isUnknownIDName reports whether a member or a parameter looks like one that identifies an
// object, but is not in knownIDNames. It is removed unless its value consists of ids.
func (d *decoding) isUnknownIDName(name string) bool {
	if knownIDNames[jsondoc.Fold(name)] || !looksLikeIDName(name) || d.row.Kind == memproxy.Admin || d.row.Kind == memproxy.Other {
		return false
	}
	// Other spellings of an owner's name are claims or are refused; see spelling.Names.
	return !memproxy.Reserved(name) && d.a.names.Claim(name) == ""
}

// hasNonID reports whether a value has a string, at any depth, that is not an id.
func hasNonID(v *jsondoc.Value) bool {
	return v.Kind == jsondoc.String && notID(v.Text()) || slices.ContainsFunc(v.Elems, hasNonID) ||
		slices.ContainsFunc(v.Members, func(m jsondoc.Member) bool { return hasNonID(m.Value) })
}

func notID(text string) bool { return !spelling.IsUUID(text) }

// queryPrefix is the prefix of pointers to query parameters.
const queryPrefix = "query:"

// rewriteQuery returns a query with masked names and hidden ids replaced, and without the
// removed parameters. The other parameters keep their spelling.
func rewriteQuery(op *memproxy.Operation, query string) string {
	if query == "" || len(op.Unclaimed)+len(op.Masked)+len(op.Hidden) == 0 {
		return query
	}
	var kept []string
	for pair := range strings.SplitSeq(query, "&") {
		key, value, _ := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(key)
		base, _, _ := strings.Cut(name, "[")
		if err == nil && slices.Contains(op.Unclaimed, queryPrefix+base) {
			continue
		}
		if dim, ok := dimOf(name); ok {
			value, err := url.QueryUnescape(value)
			if as, masked := op.Masked[memproxy.OwnerID(dim, value)]; masked && err == nil {
				pair = key + "=" + url.QueryEscape(as)
			}
		} else if value, err := url.QueryUnescape(value); err == nil && mayRefer(jsondoc.Fold(base)) && replaceHidden(op, value) != value {
			pair = key + "=" + url.QueryEscape(replaceHidden(op, value))
		}
		kept = append(kept, pair)
	}
	return strings.Join(kept, "&")
}

// recordHeaderIDs records the ids in the request's headers, whatever their names.
func recordHeaderIDs(op *memproxy.Operation, h memproxy.Header) {
	var long []string // headers that are long enough for an id
	for name, list := range h {
		if slices.ContainsFunc(list, func(text string) bool { return len(text) >= spelling.UUIDLen }) {
			long = append(long, name)
		}
	}
	slices.Sort(long)
	for _, name := range long {
		for _, text := range h[name] {
			addLooseIDs(op, text, "header:"+strings.ToLower(name))
		}
	}
}
