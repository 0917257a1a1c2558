package letta

import (
	"cmp"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/letta/selfedit"
	"github.com/memproxy/memproxy/adapters/spelling"
)

// maxRefs bounds the objects that one request may name. Each is looked up in the ledger,
// and some on the server.
const maxRefs = 1000

// refs records every existing object and every owner that the request names, in its
// path, headers, query, form parts and body, whatever its route. A string counts as an
// id unless its member is known to hold free text.
func (d *decoding) refs() error {
	r := referring{op: d.op, row: d.row, named: map[memproxy.Ref]int{}}
	for _, name := range slices.Sorted(maps.Keys(d.params)) {
		r.path(name, d.params[name])
	}
	if strings.HasSuffix(d.row.Path, "...}") && d.row.Kind != memproxy.Admin {
		r.add(targetName, d.req.EscapedPath, "path:rest")
	}
	for segment := range strings.SplitSeq(d.req.EscapedPath, "/") { // also segments that no parameter captures
		if plain, err := url.PathUnescape(segment); err == nil {
			r.ids(plain, "path")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(d.req.Header)) {
		for _, value := range d.req.Header[name] {
			r.ids(value, "header:"+strings.ToLower(name))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(d.values)) {
		for _, value := range d.values[key] {
			r.ids(value, "query:"+key)
		}
	}
	if d.payload != nil {
		for _, f := range d.payload.fields {
			r.ids(string(f.data), "part:"+f.name)
			if doc, err := jsondoc.Parse(f.data, d.a.opt.MaxDepth); err == nil { // a part may itself be JSON
				r.value("", doc.Root, "part:"+f.name)
			}
		}
	}
	if d.doc != nil && d.doc.Root != nil {
		r.value("", d.doc.Root, "")
	}
	r.owners()
	if key := d.doc; key != nil && d.row.ID == "letta.upsert_identity" {
		if v := nonNull(key.Root.Get("identifier_key")); v != nil && v.Kind == jsondoc.String {
			d.op.Upserts = byKey + url.QueryEscape(v.Text())
			d.addTarget(d.op.Upserts)
		}
	}
	if len(d.op.Refs) > maxRefs {
		return tooManyObjects()
	}
	return nil
}

func tooManyObjects() error {
	return malformed(memproxy.PayloadMalformed, 422, "", "the request names too many objects")
}

// referring collects the objects that one request names.
type referring struct {
	op    *memproxy.Operation
	row   *row
	named map[memproxy.Ref]int // the index of each in op.Refs, by kind and id
}

// add records an object once, at its first place that is no cursor. Objects with an id are
// TargetMemory in the ledger, because a Letta id carries its kind.
func (r *referring) add(kind memproxy.TargetKind, id, ptr string) {
	key, ref := memproxy.Ref{Kind: kind, ID: id}, memproxy.Ref{Kind: kind, ID: id, Pointer: ptr}
	i, named := r.named[key]
	switch {
	case named && r.op.Refs[i].IsCursor() && !ref.IsCursor():
		r.op.Refs[i] = ref
	case !named && len(r.op.Refs) <= maxRefs:
		r.named[key] = len(r.op.Refs)
		r.op.Refs = append(r.op.Refs, ref)
	}
}

// path records the object that a path parameter names by id, or by name if its owner cannot
// be looked up, and the ids in other parameters.
func (r *referring) path(name, value string) {
	switch {
	case paramKind(name) != "" && KindOf(value) != "":
		r.add(memproxy.TargetMemory, value, "path:"+name)
	case ownerless[name] && r.row.Kind != memproxy.Admin:
		r.add(targetName, name+":"+value, "path:"+name)
		fallthrough
	default:
		r.ids(value, "path:"+name)
	}
}

// targetName is the kind of objects that a request identifies by name, whose owner neither
// the ledger nor the server can report.
const targetName memproxy.TargetKind = "name"

// ids records the ids in a value: one id, or several separated by commas, which some routes
// accept.
func (r *referring) ids(value, ptr string) {
	if len(value) < minID {
		return
	}
	for one := range strings.SplitSeq(value, ",") {
		if one = strings.TrimSpace(one); hasIDForm(one) {
			r.add(memproxy.TargetMemory, one, ptr)
		}
	}
}

// value records the ids in a JSON value and member names that are ids. It skips members
// that hold free text.
func (r *referring) value(name string, v *jsondoc.Value, ptr string) {
	if v.Kind == jsondoc.String {
		if !freeText[name] {
			r.ids(v.Text(), ptr)
		}
		tool, own := selfedit.Tools[v.Text()] // every server has it, and it has no owner
		if what := byName[name]; what != "" && (!own || tool.Old) && !hasIDForm(v.Text()) {
			r.add(targetName, what+":"+v.Text(), ptr)
		}
	}
	for i, e := range v.Elems {
		r.value(name, e, jsondoc.Index(ptr, i))
	}
	for _, m := range v.Members {
		if r.row.Shape == file && (m.Name == "id" || strings.HasSuffix(m.Name, "_by_id") && strings.HasPrefix(m.Value.Text(), "user-")) {
			continue // the id of an object inside the file, or an account of the server that exported it
		}
		p := jsondoc.Child(ptr, m.Name)
		r.ids(m.Name, p)
		r.value(m.Name, m.Value, p)
	}
}

// owners records the identities that the request claims, and its targets. It leaves out an
// identity's key: the request that sets a key creates it, and the claim already has it.
func (r *referring) owners() {
	for _, id := range r.op.Targets {
		if KindOf(id) != TargetLabel {
			r.add(memproxy.TargetMemory, id, "target")
		}
	}
	for i := range r.op.Claims {
		c := &r.op.Claims[i]
		if c.Op != memproxy.ClaimIs || c.Dim == memproxy.DimActor {
			continue
		}
		for _, v := range c.Values {
			switch kind := KindOf(v); {
			case kind != "" && kind != TargetLabel: // only paths have labels; elsewhere such a value is an unknown name
				r.add(memproxy.TargetMemory, v, c.Pointer)
			case !strings.Contains(c.Pointer, "identifier_key"):
				r.add(memproxy.TargetEntity, memproxy.OwnerID(c.Dim, v), c.Pointer)
			}
		}
	}
}

// minID is the length of the shortest id: a letter, a dash and a UUID.
const minID = spelling.UUIDLen + 2

// hasIDForm reports whether a value has the form of a server id: a kind, a dash and a
// UUID. Newer servers may have kinds that KindOf does not know.
func hasIDForm(s string) bool {
	if len(s) < minID || len(s) > 128 {
		return false
	}
	at := len(s) - spelling.UUIDLen
	return s[at-1] == '-' && spelling.IsUUID(s[at:]) && spelling.IsWord(s[:at-1], "-_")
}

// paramKind returns the kind of object that a path parameter names by its id, or "". A test
// has the reason for every parameter without a kind.
func paramKind(param string) memproxy.TargetKind {
	return cmp.Or(paramKinds[param], idPrefixes[strings.TrimSuffix(param, "_id")])
}
