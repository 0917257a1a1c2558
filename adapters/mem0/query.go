package mem0

import (
	"maps"
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
)

// query reads the identities in the query string, and the ids in all parameters and
// headers. Each identity may occur once, in one spelling and without brackets, because
// backends differ in how they read other forms.
func (d *decoding) query() error {
	values, err := d.a.names.ParseQuery(d.req.Query)
	if err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		list := values[key]
		d.queryIDs(key, list)
		base := jsondoc.Fold(key)
		nested := ""
		if i := strings.IndexByte(base, '['); i >= 0 {
			base, nested = base[:i], base[i:]
		}
		dim, ok := dimOf(base)
		if !ok {
			if base == "metadata" || base == "filters" {
				if err := d.queryJSON(base, nested, list); err != nil {
					return err
				}
			}
			if base == "delete_linked" && d.op.Kind == memproxy.Forget && slices.ContainsFunc(list, func(v string) bool { return v != "false" && v != "0" && v != "" }) {
				d.op.Bulk = true // the backend decides which linked memories are deleted
			}
			if steers(base) {
				addSteering(d.op, base, list)
			}
			continue
		}
		addNameClaim(d.op, dim, list[0], queryPrefix+base)
	}
	recordHeaderIDs(d.op, d.req.Header)
	return nil
}

// addSteering reads a parameter that may instruct the backend's model. It is treated like a
// member of the body with that name, because it depends on the server's version which of
// the two it reads.
func addSteering(op *memproxy.Operation, base string, list []string) {
	for _, text := range list {
		it := newItem(memproxy.ItemSteering, "")
		it.Pointer, it.Text, it.Configures = queryPrefix+base, text, configures[base]
		op.Items, op.Steering = append(op.Items, it), true
	}
}

// queryIDs records the ids in a parameter, or that the parameter is removed.
func (d *decoding) queryIDs(key string, list []string) {
	base, _, _ := strings.Cut(key, "[")
	if base != "metadata" && base != "filters" && d.isUnknownIDName(base) && slices.ContainsFunc(list, notID) {
		d.op.Unclaimed = append(d.op.Unclaimed, queryPrefix+base)
		return
	}
	if mayRefer(jsondoc.Fold(base)) {
		for _, text := range list {
			addLooseIDs(d.op, text, queryPrefix+base)
		}
	}
}

// queryJSON reads metadata and filters in the query, as JSON text or as
// metadata[user_id]=…, at any depth of brackets.
func (d *decoding) queryJSON(base, nested string, list []string) error {
	ptr := queryPrefix + base
	if nested != "" {
		names := strings.FieldsFunc(nested, func(r rune) bool { return r == '[' || r == ']' })
		for _, name := range names {
			dim, ok := dimOf(name)
			if !ok {
				continue
			}
			c := memproxy.Claim{Dim: dim, Op: memproxy.ClaimIs, Values: list[:1], Pointer: ptr + nested}
			if len(names) > 1 {
				c.Op = memproxy.ClaimUnclear
			} else if slices.Contains(list, "*") {
				c.Op = memproxy.ClaimAny
			}
			d.op.Claims = append(d.op.Claims, c)
		}
		return nil
	}
	for _, text := range list {
		doc, err := jsondoc.ParseRequest([]byte(text), d.a.opt.MaxDepth)
		if err != nil {
			return malformed(memproxy.PayloadMalformed, 400, ptr, "not JSON")
		}
		was := d.doc
		d.doc = doc
		err = d.filters(doc.Root, ptr, false, false)
		d.doc = was
		if err != nil {
			return err
		}
	}
	return nil
}
