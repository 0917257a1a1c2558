package mem0

import (
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/spelling"
)

// naming are the members of a payload's root, and the parameters of a query, that
// name something, with how the named things are treated. Any other one that looks
// like a name refers to something that no known backend has: servers ignore it, so
// it is removed, and cannot become a reference on a later version. Asking the
// ledger for its owner would reveal which names other tenants use. Values in the
// form of an id are kept, and looked up as such.
var naming = map[string]string{
	"user_id":           "an owner: claimed",
	"agent_id":          "an owner: claimed",
	"app_id":            "an owner: claimed",
	"run_id":            "an owner: claimed",
	"session_id":        "an owner: claimed",
	"entity_id":         "an owner, by entity_type: claimed",
	"actor_id":          "who said it: taken off unless it is the caller",
	"memory_id":         "a memory: the target, or found by its form",
	"memory_ids":        "memories: found by their form",
	"memory_export_id":  "an export: the target",
	"event_id":          "an event: found by its form",
	"source_id":         "where it comes from: found by its form",
	"id":                "what it is an id of, the route says; found by its form",
	"ids":               "found by their form",
	"org_id":            "the credential's organisation, and no tenant's",
	"project_id":        "the credential's project, and no tenant's",
	"prompt_profile_id": "a setting of the credential's project",
	"webhook_id":        "a setting of the credential's project",
	"request_id":        "the client's own name of the request",
}

// names reports whether a member or a parameter looks like a name of something.
func names(name string) bool {
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

// nameless reports whether a member or a parameter has a name that naming does not
// list. It is removed if its value is other than ids.
func (d *decoding) nameless(name string) bool {
	if _, row := naming[jsondoc.Fold(name)]; row || !names(name) || d.row.kind == memproxy.Admin || d.row.kind == memproxy.Other {
		return false
	}
	// Other spellings of an owner are claims or refused (spelling.Names).
	return !memproxy.Reserved(name) && d.a.names.Claim(name) == ""
}

// other reports whether one of the texts is no id.
func other(texts []string) bool {
	return slices.ContainsFunc(texts, func(text string) bool { return !spelling.UUID(text) })
}

// queryPrefix is the prefix of pointers to query parameters.
const queryPrefix = "query:"

// unclaimedQuery returns a query without the removed parameters; the rest keeps its
// spelling.
func unclaimedQuery(op *memproxy.Operation, query string) string {
	if len(op.Unclaimed) == 0 || query == "" {
		return query
	}
	pairs := slices.DeleteFunc(strings.Split(query, "&"), func(pair string) bool {
		key, _, _ := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(key)
		base, _, _ := strings.Cut(name, "[")
		return err == nil && slices.Contains(op.Unclaimed, queryPrefix+base)
	})
	return strings.Join(pairs, "&")
}

// texts returns the strings in a value, at any depth.
func texts(v *jsondoc.Value) (out []string) {
	switch v.Kind {
	case jsondoc.String:
		out = append(out, v.Text())
	case jsondoc.Array:
		for _, e := range v.Elems {
			out = append(out, texts(e)...)
		}
	case jsondoc.Object:
		for _, m := range v.Members {
			out = append(out, texts(m.Value)...)
		}
	}
	return out
}

// beside records the ids in the request's query parameters and headers, whatever
// their names.
func (d *decoding) beside() error {
	values, err := d.a.names.Parse(d.req.Query)
	if err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		base, _, _ := strings.Cut(key, "[")
		if base != "metadata" && base != "filters" && d.nameless(base) && other(values[key]) {
			d.op.Unclaimed = append(d.op.Unclaimed, queryPrefix+base)
			continue
		}
		for _, text := range values[key] {
			looseText(d.op, text, "query:"+base)
		}
	}
	var long []string // headers that may have ids
	for name, list := range d.req.Header {
		if slices.ContainsFunc(list, func(text string) bool { return len(text) >= spelling.UUIDLen }) {
			long = append(long, name)
		}
	}
	slices.Sort(long)
	for _, name := range long {
		for _, text := range d.req.Header[name] {
			looseText(d.op, text, "header:"+strings.ToLower(name))
		}
	}
	return nil
}

// newNames are the names that identify a request's owners, and the other known
// query parameters: page, size, and cascading deletion.
func newNames() *spelling.Names {
	return spelling.New(
		[]string{"user_id", "agent_id", "app_id", "run_id", "session_id"}, nil,
		[]string{"page", "page_size", "limit", "top_k", "delete_linked", "metadata", "filters"},
	)
}
