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
	switch key {
	case "user_id":
		return memproxy.DimUser, true
	case "agent_id":
		return memproxy.DimAgent, true
	case "app_id":
		return memproxy.DimApp, true
	case "run_id", "session_id":
		return memproxy.DimRun, true
	}
	return "", false
}

// narrows reports whether the backend uses an owner at the place of a claim. It
// ignores places that a route does not have: a request that derives from many
// memories, or changes many, is narrowed only by places that its route is known to
// support, because its result cannot be filtered afterwards; nor can what a read
// counts, or draws as relations.
func (r *row) narrows(c *memproxy.Claim) bool {
	if r.flags&(derived|bulk) == 0 && r.kind != memproxy.Recall {
		return true
	}
	own := string(c.Dim) + "_id"
	known := c.Dim != memproxy.DimApp || r.dialect == hosted // the server has no apps
	switch r.shape {
	case search:
		older := r.id == "mem0.v1.search" // it has no owners in filters
		return known && ((older || r.dialect == server) && c.Pointer == "/"+own || !older && inFilters(c.Pointer))
	case list:
		return inFilters(c.Pointer)
	case entity:
		return known && c.Pointer == "path:entity_id"
	case query:
		return known && slices.Contains(narrowed[:], r.id) && c.Pointer == queryPrefix+own
	}
	return false
}

// narrowed are the routes that look for owners in the query.
var narrowed = [...]string{"mem0.v1.list", "mem0.server.list", "mem0.v1.delete.all", "mem0.server.delete.all"}

// inFilters reports whether the platform is documented to use an owner at a place
// of the payload: a member of the filters or of the list in its AND, in that
// spelling, by equality.
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

// claim reads an identity value: a string, a list of strings, an operator object,
// or null. Pins is set if the claim narrows the whole operation; negated if it is
// under NOT.
func (d *decoding) claim(dim memproxy.Dimension, v *jsondoc.Value, ptr string, pins, negated bool) {
	c := memproxy.Claim{Dim: dim, Op: memproxy.ClaimIs, Pointer: ptr, Pins: pins && !negated}
	switch v.Kind {
	case jsondoc.Null:
		return
	case jsondoc.String:
		c.Values = []string{v.Text()}
		if v.Text() == "*" {
			c.Op = memproxy.ClaimAny
		}
	case jsondoc.Array:
		if !values(&c, v) {
			c.Op = memproxy.ClaimUnclear
		}
	case jsondoc.Object:
		operators(d.op, c, v, ptr, pins, negated)
		return
	default:
		c.Op, c.Values = memproxy.ClaimUnclear, []string{string(d.doc.Raw(v))}
	}
	if negated && c.Op == memproxy.ClaimIs {
		c.Op = memproxy.ClaimExclude
	}
	c.Pins = c.Pins && c.Op == memproxy.ClaimIs
	d.op.Claims = append(d.op.Claims, c)
}

func values(c *memproxy.Claim, v *jsondoc.Value) bool {
	for _, e := range v.Elems {
		if e.Kind != jsondoc.String {
			return false
		}
		if e.Text() == "*" {
			c.Op = memproxy.ClaimAny
		}
		c.Values = append(c.Values, e.Text())
	}
	return len(v.Elems) > 0
}

// operators reads {"in":[…]}, {"ne":…} and similar objects. Each member is a claim of
// its own.
func operators(op *memproxy.Operation, c memproxy.Claim, v *jsondoc.Value, ptr string, pins, negated bool) {
	if len(v.Members) == 0 {
		c.Op, c.Pins = memproxy.ClaimUnclear, false
		op.Claims = append(op.Claims, c)
	}
	for _, m := range v.Members {
		one := c
		one.Pointer = jsondoc.Child(ptr, m.Name)
		one.Op = memproxy.ClaimUnclear
		list := m.Value
		if list.Kind == jsondoc.String {
			list = &jsondoc.Value{Kind: jsondoc.Array, Elems: []*jsondoc.Value{m.Value}}
		}
		if list.Kind == jsondoc.Array {
			switch strings.TrimPrefix(m.Name, "$") {
			case "eq", "in":
				one.Op = memproxy.ClaimIs
			case "ne", "nin":
				one.Op = memproxy.ClaimExclude
			}
			if !values(&one, list) {
				one.Op = memproxy.ClaimUnclear
			}
		}
		if negated && one.Op == memproxy.ClaimIs {
			one.Op = memproxy.ClaimExclude
		}
		one.Pins = pins && !negated && one.Op == memproxy.ClaimIs
		op.Claims = append(op.Claims, one)
	}
}

// filters reads a filter at any depth. Inside AND a claim narrows as the whole
// does; inside OR and NOT it does not.
func (d *decoding) filters(v *jsondoc.Value, ptr string, pins, negated bool) error {
	switch v.Kind {
	case jsondoc.Null:
		return nil
	case jsondoc.Array:
		for i, e := range v.Elems {
			if err := d.filters(e, jsondoc.Index(ptr, i), pins, negated); err != nil {
				return err
			}
		}
		return nil
	case jsondoc.Object:
	default:
		return bad(memproxy.PayloadMalformed, 400, ptr, "filters must be an object")
	}
	for _, m := range v.Members {
		p := jsondoc.Child(ptr, m.Name)
		low := jsondoc.Fold(strings.TrimPrefix(m.Name, "$"))
		if dim, ok := dimOf(low); ok {
			if low != m.Name {
				return bad(memproxy.PayloadDuplicate, 400, p, "a known key in another letter case")
			}
			d.claim(dim, m.Value, p, pins, negated)
			continue
		}
		if d.a.names.Claim(m.Name) != "" && !strings.Contains(ptr, "/metadata") && m.Value.Kind != jsondoc.Null {
			return bad(memproxy.PayloadDuplicate, 400, p, "a known key in another spelling")
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
			if d.op.Kind.Writes() || d.op.Kind == memproxy.Admin { // a backend may store it
				wire.Name(d.op, m.Name, p, as(memproxy.ItemMetadata, ""))
				wire.Strings(d.op, m.Value, p, as(memproxy.ItemMetadata, ""))
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}
