package letta

import (
	"maps"
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/internal/wire"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/spelling"
)

func (d *decoding) path() error {
	for _, name := range slices.Sorted(maps.Keys(d.params)) {
		value := d.params[name]
		switch name {
		case "agent_id":
			if err := checkID(value, TargetAgent, "path:agent_id"); err != nil {
				return err
			}
			d.addClaim(memproxy.DimAgent, []string{value}, "path:agent_id", true)
			if d.row.Is(self) {
				d.addTarget(value)
			}
		case "label":
			d.addTarget(d.params["agent_id"] + "/" + value)
		case "conversation_id":
			if err := d.conversation(value); err != nil {
				return err
			}
		default:
			// Changing what an agent holds does not change the agent, and running a tool does not
			// change the tool. They are references only, as are jobs.
			kind := paramKind(name)
			if kind == "" || kind == TargetAgent || kind == TargetTool || kind == TargetJob {
				continue
			}
			if name == "run_id" && KindOf(value) == TargetJob { // in older servers runs are jobs
				kind = TargetJob
			}
			if err := checkID(value, kind, "path:"+name); err != nil {
				return err
			}
			if kind == TargetIdentity {
				d.addClaim(memproxy.DimUser, []string{value}, "path:"+name, true)
			}
			if !d.row.Is(lists) {
				d.addTarget(value)
				// A deletion deletes only the object in the last segment.
				deleted := d.row.Method == "DELETE" && strings.HasSuffix(d.row.Path, "/{"+name+"}")
				if d.row.Kind == memproxy.Forget && !deleted {
					d.op.Kept = append(d.op.Kept, value)
				}
			}
		}
	}
	return nil
}

// ownConversation is the conversation id for an agent's own conversation.
const ownConversation = "default"

// conversation reads a conversation's id. For an agent's own conversation the body's
// agent_id names the agent; old clients send the agent's id as the conversation id.
func (d *draft) conversation(value string) error {
	const ptr = "path:conversation_id"
	switch {
	case value == ownConversation:
		return nil
	case KindOf(value) == TargetAgent:
		d.addClaim(memproxy.DimAgent, []string{value}, ptr, true)
		return checkID(value, TargetAgent, ptr)
	}
	if err := checkID(value, TargetConversation, ptr); err != nil {
		return err
	}
	d.addClaim(memproxy.DimRun, []string{value}, ptr, true)
	d.addTarget(value)
	return nil
}

// checkID refuses a value that cannot be an id of this kind. An id from a body becomes a
// path segment of the side request that looks the object up, so it must not contain
// characters with a meaning in paths.
func checkID(value string, kind memproxy.TargetKind, ptr string) error {
	if strings.Contains(value, "/") && strings.HasPrefix(ptr, "path:") {
		return malformed(memproxy.PayloadPath, 404, ptr, "an id has no slash") // the server decodes it, and finds no route
	}
	if KindOf(value) != kind || len(value) > 128 || !spelling.IsWord(value, "-_") {
		return malformed(memproxy.PayloadPath, 422, ptr, "this is not a valid id of kind "+string(kind))
	}
	return nil
}

// addTarget records an existing object as a target. Its id carries its kind.
func (d *draft) addTarget(id string) {
	d.op.TargetKind = memproxy.TargetMemory
	if !slices.Contains(d.op.Targets, id) {
		d.op.Targets = append(d.op.Targets, id)
	}
}

// addClaim adds a claim of these names. pins is set if it narrows the operation to them.
func (d *draft) addClaim(dim memproxy.Dimension, values []string, ptr string, pins bool) {
	d.op.Claims = append(d.op.Claims, memproxy.Claim{Dim: dim, Op: memproxy.ClaimIs, Values: values, Pointer: ptr, Pins: pins})
}

// readClaim reads an identity in a body: a string, a list of strings, or null. pins is set if it
// narrows the operation to its owner.
func (d *draft) readClaim(dim memproxy.Dimension, v *jsondoc.Value, ptr string, pins bool) {
	c := memproxy.Claim{Dim: dim, Op: memproxy.ClaimIs, Pointer: ptr}
	switch v.Kind {
	case jsondoc.Null:
		return
	case jsondoc.String:
		c.Values = []string{v.Text()}
		if dim == memproxy.DimRun && v.Text() == ownConversation {
			return
		}
	case jsondoc.Array:
		for _, e := range v.Elems {
			if e.Kind != jsondoc.String {
				c.Op = memproxy.ClaimUnclear
			}
			c.Values = append(c.Values, e.Text())
		}
		if len(v.Elems) == 0 {
			return
		}
	default:
		c.Op = memproxy.ClaimUnclear
	}
	if c.Op == memproxy.ClaimUnclear {
		c.Values = []string{string(d.doc.Raw(v))}
	}
	c.Pins = pins && c.Op == memproxy.ClaimIs
	d.op.Claims = append(d.op.Claims, c)
}

// readTargets reads one id or a list of ids in a body.
func (d *draft) readTargets(kind memproxy.TargetKind, v *jsondoc.Value, ptr string) error {
	switch v.Kind {
	case jsondoc.Null:
		return nil
	case jsondoc.Array:
		return v.Each(ptr, func(e *jsondoc.Value, at string) error {
			if e.Kind != jsondoc.String {
				return malformed(memproxy.PayloadMalformed, 422, at, "an id must be a string")
			}
			return d.readTargets(kind, e, at)
		})
	case jsondoc.String:
		if err := checkID(v.Text(), kind, ptr); err != nil {
			return err
		}
		if len(d.op.Targets) > maxRefs { // each is compared with the others
			return tooManyObjects()
		}
		if d.op.Kind == memproxy.Correct && !slices.Contains(d.op.Targets, v.Text()) {
			d.op.Kept = append(d.op.Kept, v.Text()) // only the object in the path is changed
		}
		d.addTarget(v.Text())
		return nil
	}
	return malformed(memproxy.PayloadMalformed, 422, ptr, "an id must be a string")
}

func (d *decoding) headers() error {
	if err := d.a.headers.CheckHeaders(d.req.Header); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(identityHeaders)) {
		values := d.req.Header.Values(name)
		if len(values) == 0 {
			continue
		}
		ptr, dim := "header:"+strings.ToLower(name), identityHeaders[name]
		if len(values) > 1 {
			return malformed(memproxy.PayloadDuplicate, 400, ptr, "the header is repeated")
		}
		d.addClaim(dim, values, ptr, dim == memproxy.DimAgent && d.row.Shape == gateway)
	}
	return nil
}

// narrows reports whether a query parameter narrows the request. The server ignores
// parameters that a route does not define. An aggregate cannot be filtered afterwards, so
// it is narrowed only by parameters that its route is known to define (0.16.8).
func narrows(r *row, param string) bool {
	switch {
	case r.Shape == search: // the body narrows a search
		return false
	case !r.Derived && !r.Bulk:
		return true
	}
	return r.ID == "letta.count_agents" && (param == "identity_id" || param == "identifier_keys")
}

// query reads the identities and search texts in the query string.
func (d *decoding) query() error {
	var err error
	if d.values, err = d.a.names.ParseQuery(d.req.Query); err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(d.values)) {
		list := d.values[key]
		base, _, _ := strings.Cut(key, "[")
		ptr := "query:" + base
		if low := strings.ToLower(base); low != base && known[low] {
			return malformed(memproxy.PayloadDuplicate, 400, ptr, "a known key is spelled with different letter case")
		}
		if dim, ok := dims[base]; ok && !(dim == memproxy.DimRun && list[0] == ownConversation) {
			d.addClaim(dim, list, ptr, narrows(d.row, base))
		}
		switch base {
		case "query", "query_text", "search", "value_search", "label_search", "description_search":
			for _, text := range list {
				wire.AddItem(d.op, ptr, text, d.newItem(memproxy.ItemQuery))
			}
		case "include", "include_relationships":
			for _, what := range list {
				part := strings.TrimPrefix(what, "agent.")
				d.op.Administers = d.op.Administers || part != "" && !agentRelations[part] // an agent's secrets are not memory
			}
		case "archive_id", "source_id":
			for _, id := range list {
				if err := checkID(id, paramKind(base), ptr); err != nil {
					return err
				}
			}
		case "duplicate_handling": // replace deletes a file that cannot be determined beforehand
			d.op.Administers = d.op.Administers || d.row.Shape == upload && slices.Contains(list, "replace")
		case "name":
			if d.row.Shape == upload {
				wire.AddItem(d.op, ptr, strings.Join(list, "\n"), d.newItem(memproxy.ItemMetadata))
			}
		}
	}
	return nil
}
