package mem0

import (
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/internal/wire"
	"github.com/memproxy/memproxy/adapters/jsondoc"
)

// dimOf returns the dimension of the identity that a key names.
func dimOf(key string) (memproxy.Dimension, bool) {
	if key == "session_id" {
		return memproxy.DimRun, true
	}
	name, ok := strings.CutSuffix(key, "_id")
	return memproxy.Dimension(name), ok && slices.Contains(memproxy.Dimensions[:], memproxy.Dimension(name))
}

// entityDim returns the dimension of a type of entity, in the singular or the plural.
func entityDim(typ string) (memproxy.Dimension, bool) {
	dim := memproxy.Dimension(strings.TrimSuffix(typ, "s"))
	return dim, slices.Contains(memproxy.Dimensions[:], dim)
}

// narrows reports whether a claim limits the request to its owner. The backend ignores
// owners in places that a route does not support. The result of a bulk or derived request
// cannot be filtered afterwards, and neither can counts and relations in the answer to a
// read, so these are narrowed only by places that their route is known to support.
func narrows(r *row, c *memproxy.Claim) bool {
	if !r.Derived && !r.Bulk && r.Kind != memproxy.Recall {
		return true
	}
	own := string(c.Dim) + "_id"
	known := c.Dim != memproxy.DimApp || !r.Is(server) // the server has no apps
	switch r.Shape {
	case search:
		older := r.ID == "mem0.v1.search" // does not support owners in filters
		return known && ((older || r.Is(server)) && c.Pointer == "/"+own || !older && inFilters(c.Pointer))
	case list:
		return inFilters(c.Pointer)
	case entity:
		return known && c.Pointer == "path:entity_id"
	case query:
		return known && slices.Contains(narrowedByQuery[:], r.ID) && c.Pointer == queryPrefix+own
	}
	return false
}

// narrowedByQuery are the routes that support owners in the query string.
var narrowedByQuery = [...]string{"mem0.v1.list", "mem0.server.list", "mem0.v1.delete.all", "mem0.server.delete.all"}

// inFilters reports whether the platform is documented to apply an owner at this pointer:
// a member of filters or of an object in its AND, in the documented spelling, compared by
// equality.
func inFilters(pointer string) bool {
	rest, ok := strings.CutPrefix(pointer, "/filters/")
	parts := strings.Split(rest, "/")
	for len(parts) > 2 && parts[0] == "AND" {
		parts = parts[2:]
	}
	_, owner := dimOf(parts[0])
	equal := len(parts) == 1 || len(parts) == 2 && (parts[1] == "in" || parts[1] == "eq")
	return ok && owner && equal && parts[0] != "session_id"
}

// addNameClaim adds a claim of one name that narrows the whole operation. The name "*"
// stands for every owner and does not narrow.
func addNameClaim(op *memproxy.Operation, dim memproxy.Dimension, name, ptr string) {
	c := memproxy.Claim{Dim: dim, Op: memproxy.ClaimIs, Values: []string{name}, Pointer: ptr, Pins: true}
	if name == "*" {
		c.Op, c.Pins = memproxy.ClaimAny, false
	}
	op.Claims = append(op.Claims, c)
}

// claim reads an identity value: a string, a list of strings, null, or an object of
// operators such as {"in":[…]}, each of which is a claim of its own. pins is set if the
// claim narrows the whole operation, negated if it is inside NOT.
func (d *decoding) claim(dim memproxy.Dimension, v *jsondoc.Value, ptr string, pins, negated bool) {
	c := memproxy.Claim{Dim: dim, Op: memproxy.ClaimIs, Pointer: ptr}
	switch {
	case v.Kind == jsondoc.Null:
	case v.Kind == jsondoc.String, v.Kind == jsondoc.Array:
		addClaim(d.op, c, v, pins, negated)
	case len(v.Members) > 0:
		for _, m := range v.Members {
			c.Pointer, c.Op = jsondoc.Child(ptr, m.Name), memproxy.ClaimUnclear
			switch strings.TrimPrefix(m.Name, "$") {
			case "eq", "in":
				c.Op = memproxy.ClaimIs
			case "ne", "nin":
				c.Op = memproxy.ClaimExclude
			}
			addClaim(d.op, c, m.Value, pins, negated)
		}
	default:
		c.Op = memproxy.ClaimUnclear
		if v.Kind != jsondoc.Object {
			c.Values = []string{string(d.doc.Raw(v))}
		}
		d.op.Claims = append(d.op.Claims, c)
	}
}

// addClaim adds a claim of the names in a value, a string or a list of strings. A claim
// with any other value is unclear, because it is unknown how the backend reads it.
func addClaim(op *memproxy.Operation, c memproxy.Claim, v *jsondoc.Value, pins, negated bool) {
	list := oneOrMore(v)
	for _, e := range list {
		if e.Kind != jsondoc.String {
			break
		}
		if e.Text() == "*" {
			c.Op = memproxy.ClaimAny
		}
		c.Values = append(c.Values, e.Text())
	}
	switch {
	case len(list) == 0, len(c.Values) < len(list):
		c.Op = memproxy.ClaimUnclear
	case negated && c.Op == memproxy.ClaimIs:
		c.Op = memproxy.ClaimExclude
	}
	c.Pins = pins && c.Op == memproxy.ClaimIs
	op.Claims = append(op.Claims, c)
}

// oneOrMore returns the elements of a list, or a string as the only one.
func oneOrMore(v *jsondoc.Value) []*jsondoc.Value {
	if v.Kind == jsondoc.String {
		return []*jsondoc.Value{v}
	}
	return v.Elems
}

// bound is the names of a dimension that memories can have: all, or the listed ones.
type bound struct {
	all   bool
	names []string
}

// combined combines the bounds of conditions that apply together, or else of alternatives. No
// conditions exclude no name, because a backend may ignore an empty list.
func combined(parts []bound, together bool) bound {
	out := bound{all: together || len(parts) == 0}
	for _, b := range parts {
		switch {
		case !together:
			out = bound{out.all || b.all, append(out.names, b.names...)}
		case out.all:
			out = b
		case !b.all:
			out.names = both(out.names, b.names)
		}
	}
	return out
}

// both returns the names of a that are in b. Filters list thousands of names, so that it
// looks them up.
func both(a, b []string) []string {
	in := make(map[string]bool, len(b))
	for _, name := range b {
		in[name] = true
	}
	return slices.DeleteFunc(slices.Clone(a), func(name string) bool { return !in[name] })
}

// within returns the names that a memory can have in a dimension if it matches a filter or,
// negated, if it does not. The bound narrows a read. It holds however a backend reads
// what its documentation leaves open: it may ignore an OR next to an AND, and a list in NOT
// may exclude what matches one of its filters, or only what matches all of them. Every
// condition but equality with names excludes no name.
func within(v *jsondoc.Value, dim memproxy.Dimension, negated bool) bound {
	if v.Kind == jsondoc.Array {
		return eachWithin(v, dim, negated, !negated)
	}
	and := slices.ContainsFunc(v.Members, func(m jsondoc.Member) bool { return keyword(m.Name) == "and" })
	parts := make([]bound, len(v.Members))
	for i, m := range v.Members {
		switch word := keyword(m.Name); {
		case word == "and":
			parts[i] = eachWithin(m.Value, dim, negated, !negated)
		case word == "or" && (negated || !and):
			parts[i] = eachWithin(m.Value, dim, negated, negated)
		case word == "not", word == "nor":
			parts[i] = eachWithin(m.Value, dim, !negated, false)
		case word == string(dim)+"_id":
			parts[i] = namesIn(m.Value, negated)
		default:
			parts[i].all = true
		}
	}
	return combined(parts, !negated)
}

// eachWithin combines the bounds of the filters in a list, or of a single one.
func eachWithin(v *jsondoc.Value, dim memproxy.Dimension, negated, together bool) bound {
	if v.Kind != jsondoc.Array {
		return within(v, dim, negated)
	}
	parts := make([]bound, len(v.Elems))
	for i, e := range v.Elems {
		parts[i] = within(e, dim, negated)
	}
	return combined(parts, together)
}

// namesIn returns the names that match the value of an owner's key: a name, a list of
// names, or an object of operators. Empty names and wildcards match all.
func namesIn(v *jsondoc.Value, negated bool) bound {
	if v.Kind == jsondoc.Object {
		parts := make([]bound, len(v.Members))
		for i, m := range v.Members {
			equal, list := m.Value.Kind == jsondoc.String, m.Value.Kind == jsondoc.Array
			switch op := strings.TrimPrefix(m.Name, "$"); {
			case op == "eq" && equal, op == "in" && list:
				parts[i] = namesIn(m.Value, negated)
			case op == "ne" && equal, op == "nin" && list:
				parts[i] = namesIn(m.Value, !negated)
			default:
				parts[i].all = true
			}
		}
		return combined(parts, !negated)
	}
	b := bound{all: negated || len(oneOrMore(v)) == 0}
	for _, e := range oneOrMore(v) {
		b.all = b.all || e.Text() == "" || e.Text() == "*"
		b.names = append(b.names, e.Text())
	}
	return b
}

// keyword returns a filter's key as the backend may read it.
func keyword(key string) string { return jsondoc.Fold(strings.TrimPrefix(key, "$")) }

// filters reads a filter at any depth. A claim inside AND narrows the operation if the
// surrounding filter does; a claim inside OR or NOT never does.
func (d *decoding) filters(v *jsondoc.Value, ptr string, pins, negated bool) error {
	switch v.Kind {
	case jsondoc.Null:
		return nil
	case jsondoc.Array:
		return v.Each(ptr, func(e *jsondoc.Value, at string) error { return d.filters(e, at, pins, negated) })
	case jsondoc.Object:
	default:
		return malformed(memproxy.PayloadMalformed, 400, ptr, "filters must be an object")
	}
	for _, m := range v.Members {
		p := jsondoc.Child(ptr, m.Name)
		low := keyword(m.Name)
		if dim, ok := dimOf(low); ok {
			if low != m.Name {
				return malformed(memproxy.PayloadDuplicate, 400, p, "a known key is spelled with different letter case")
			}
			d.claim(dim, m.Value, p, pins, negated)
			continue
		}
		if d.a.names.Claim(m.Name) != "" && !strings.Contains(ptr, "/metadata") && m.Value.Kind != jsondoc.Null {
			return malformed(memproxy.PayloadDuplicate, 400, p, "a known key has a non-standard spelling")
		}
		var err error
		switch low {
		case "and":
			err = d.filters(m.Value, p, pins, negated)
		case "or":
			err = d.filters(m.Value, p, false, negated)
		case "not", "nor":
			err = d.filters(m.Value, p, false, true)
		case "metadata":
			if m.Value.Kind == jsondoc.Object {
				err = d.filters(m.Value, p, false, negated)
			}
		default:
			if d.op.Kind.Writes() || d.op.Kind == memproxy.Admin { // the backend may store the filter
				wire.AddMember(d.op, m, p, newItem(memproxy.ItemMetadata, ""))
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}
