package mem0

import (
	"net/url"
	"slices"
	"strings"
	"unicode"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/internal/wire"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/origin"
	"github.com/memproxy/memproxy/adapters/refusal"
	"github.com/memproxy/memproxy/adapters/routetable"
	"github.com/memproxy/memproxy/adapters/spelling"
)

// decoding is a payload that is being converted to an Operation.
type decoding struct {
	a                *Adapter
	row              *row
	req              memproxy.Request
	params           map[string]string // of the path
	doc              *jsondoc.Doc
	op               *memproxy.Operation
	fieldAssignments []fieldAssignment
	originClaims     origin.Claims
}

// Decode implements the gate's adapter.
func (a *Adapter) Decode(rt memproxy.Route, req memproxy.Request, body []byte) (*memproxy.Operation, error) {
	r := a.Row(rt.ID)
	if r.Shape == routetable.Opaque {
		return nil, malformed(memproxy.RouteUnknown, 403, "", "memproxy cannot decode this route, so it refuses it")
	}
	d := &decoding{a: a, row: r, req: req, params: rt.Params, op: &memproxy.Operation{
		Kind: rt.Kind, Bulk: rt.Bulk, Steering: rt.Steering, Derived: rt.Derived, Route: rt.ID, Administers: r.Is(shared),
	}}
	if err := media(r, req.Header, body); err != nil {
		return nil, withStatus(r, err)
	}
	if len(body) > 0 {
		read := jsondoc.ParseRequest
		if rt.Kind == memproxy.Recall {
			read = jsondoc.Parse // a read stores nothing
		}
		doc, err := read(body, a.opt.MaxDepth)
		if err != nil {
			return nil, withStatus(r, err)
		}
		d.doc, d.op.Parsed = doc, doc
	}
	for _, read := range [...]func() error{d.query, d.path, d.body, d.finish} {
		if err := read(); err != nil {
			return nil, err
		}
	}
	if d.doc != nil && projects(r, d.op) && rt.Params != nil {
		f, err := projection(d.doc)
		if err != nil {
			return nil, err
		}
		if f != nil {
			rt.Params["fields"] = strings.Join(f, ",")
		}
	}
	d.recordChanges()
	return d.op, nil
}

// withStatus returns the error with the status that the route's server would use.
func withStatus(r *row, err error) error {
	if !r.Is(server) {
		return err
	}
	return refusal.Unprocessable(err)
}

// media refuses bodies whose content type the backend might interpret differently.
func media(r *row, h memproxy.Header, body []byte) error {
	kind, params, err := spelling.ContentType(h)
	if err != nil || len(body) == 0 || kind == "" {
		return err
	}
	if kind != "application/json" && (!r.Is(server) || !spelling.IsJSON(kind)) {
		return malformed(memproxy.PayloadContentType, 415, "", "this route requires Content-Type application/json")
	}
	return spelling.CheckCharset(params)
}

// addTarget records a target by its id. An id from a body becomes a path segment of the side
// request that fetches the memory, so an id that could change the path is refused.
func addTarget(op *memproxy.Operation, v *jsondoc.Value, kind memproxy.TargetKind, ptr string) error {
	id := v.Text()
	if v.Kind != jsondoc.String || id == "" {
		return malformed(memproxy.PayloadMalformed, 422, ptr, "an id must be a string")
	}
	if variantUUID(id) || id == "." || id == ".." || strings.Contains(id, "/") || strings.ContainsFunc(id, routetable.IsUnsafeInPath) {
		return malformed(memproxy.PayloadPath, 422, ptr, "this cannot be an id")
	}
	if len(op.Targets) > 0 && op.TargetKind != kind { // an operation has one TargetKind for all targets
		return malformed(memproxy.PayloadMalformed, 422, ptr, "a request must not name objects of two kinds")
	}
	op.Targets, op.TargetKind = append(op.Targets, id), kind
	return nil
}

// variantUUID reports whether an id is a UUID in a spelling other than the server's:
// without dashes, in braces, as a URN or in upper case. The server accepts all of them for
// the same memory, but the ledger knows only one. A spelling counts if Python's uuid.UUID
// accepts it, including the digits that Python's int accepts.
func variantUUID(id string) bool {
	bare := strings.Trim(strings.NewReplacer("urn:", "", "uuid:", "").Replace(id), "{}")
	n, plain := 0, true
	for _, r := range bare {
		switch {
		case r == '-':
			continue
		case r >= '0' && r <= '9', r >= 'a' && r <= 'f':
		case r >= 'A' && r <= 'F', strings.ContainsRune("_+xX", r), unicode.IsSpace(r), unicode.IsDigit(r):
			plain = false
		default:
			return false
		}
		n++
	}
	return n == 32 && !(plain && spelling.IsUUID(id))
}

// targetJob is a job of the platform that makes a profile. Only the platform knows its
// owner.
const targetJob memproxy.TargetKind = "job"

func (d *decoding) path() error {
	op, params := d.op, d.params
	if id, ok := params["id"]; ok {
		if variantUUID(id) {
			return malformed(memproxy.PayloadPath, 422, "path:id", "this cannot be an id")
		}
		op.Targets, op.TargetKind = []string{id}, memproxy.TargetMemory
		if d.row.Shape == event {
			op.TargetKind = memproxy.TargetEvent
		}
	}
	if d.row.ID == "mem0.v1.export.get" { // also where the export is named by its owners
		op.TargetKind = memproxy.TargetExport
	}
	if job, ok := params["job"]; ok { // the platform shows a job to every caller with its id
		op.Refs = append(op.Refs, memproxy.Ref{Kind: targetJob, ID: job, Pointer: "path:job"})
	}
	if name, ok := params["entity_id"]; ok {
		dim, known := memproxy.DimUser, true
		if typ, has := params["entity_type"]; has {
			dim, known = entityDim(typ)
		}
		if !known {
			return malformed(memproxy.PayloadPath, 400, "path:entity_type", "unknown entity type")
		}
		addNameClaim(d.op, dim, name, "path:entity_id")
	}
	return nil
}

// body reads the payload by the route's shape.
func (d *decoding) body() error {
	if d.doc == nil {
		switch d.row.Shape {
		case addBody, search, update, batch:
			return withStatus(d.row, malformed(memproxy.PayloadMalformed, 400, "", "this route requires a JSON body"))
		}
		return nil
	}
	root := d.doc.Root
	if root.Kind != jsondoc.Object {
		return withStatus(d.row, malformed(memproxy.PayloadMalformed, 400, "", "the body must be a JSON object"))
	}
	if err := d.a.names.CheckMembers(root, "", topKeys); err != nil {
		return err
	}
	for _, m := range root.Members {
		if err := d.member(m, "", d.params["id"]); err != nil {
			return err
		}
	}
	return nil
}

// finish sets the fields that depend on the whole payload.
func (d *decoding) finish() error {
	op := d.op
	if d.doc != nil {
		addLooseRefs(d.op, d.doc.Root, "")
	}
	d.assignFields()
	for i := range op.Claims {
		c := &op.Claims[i]
		c.Pins = c.Pins && narrows(d.row, c)
	}
	setWithin(d)
	// An identity in metadata is the owner only if no other place of the payload
	// names one.
	for _, inside := range [...]bool{false, true} {
		for i := range op.Claims {
			c := &op.Claims[i]
			if c.Op != memproxy.ClaimIs || len(c.Values) != 1 || inMetadata(c) != inside {
				continue
			}
			if !wire.FillScope(&op.Scope, c, op.Kind.Writes() && !inside) {
				return malformed(memproxy.ScopeConflict, 422, c.Pointer, "the payload names different owners in two places")
			}
		}
	}
	op.Extracts = op.Kind == memproxy.Learn && d.extracts()
	d.originClaims.Apply(op)
	switch op.Kind {
	case memproxy.Learn:
		op.Cost = cost(op)
	case memproxy.Correct:
		op.Cost = max(1, len(op.Targets))
	case memproxy.Forget:
		op.DeletesScope = op.Bulk && len(op.Targets) == 0 && op.Scope.HasOwner() && onlyOwners(op, d.doc, d.req.Query) && d.row.ID != "mem0.v1.entity.delete" // the owner behind its number is unknown
		op.SingleOwner = op.DeletesScope && single(d.row, op)
	}
	return nil
}

// setWithin sets the names within which the filter narrows the request, in the dimensions
// that have a claim of other than equality. It reads the filter once for each dimension,
// however many claims there are.
func setWithin(d *decoding) {
	if d.doc == nil || d.doc.Root.Get("filters") == nil {
		return
	}
	filters := d.doc.Root.Get("filters")
	for _, dim := range memproxy.Dimensions {
		at := memproxy.Claim{Dim: dim, Pointer: "/filters/" + string(dim) + "_id"}
		if !narrows(d.row, &at) || !slices.ContainsFunc(d.op.Claims, func(c memproxy.Claim) bool { return c.Dim == dim && c.Op != memproxy.ClaimIs }) {
			continue
		}
		if b := within(filters, dim, false); !b.all {
			if d.op.Within == nil {
				d.op.Within = map[memproxy.Dimension][]string{}
			}
			d.op.Within[dim] = b.names
		}
	}
}

// single reports whether a sweep deletes the memories of one owner, named in a parameter
// that the route's server supports. The server ignores unknown parameters, and would delete
// everything that the other parameters select.
func single(r *row, op *memproxy.Operation) bool {
	if len(op.Claims) != 1 {
		return false
	}
	c := &op.Claims[0]
	name := c.Values[0]
	return strings.TrimSpace(name) == name && !strings.Contains(name, "*") && narrows(r, c)
}

// onlyOwners reports whether the request selects memories by owners only, each a single
// name. Besides owners the query may have labels.
func onlyOwners(op *memproxy.Operation, doc *jsondoc.Doc, query string) bool {
	if doc != nil && len(doc.Root.Members) > 0 {
		return false
	}
	for i := range op.Claims {
		if c := &op.Claims[i]; c.Op != memproxy.ClaimIs || !c.Pins || len(c.Values) != 1 {
			return false
		}
	}
	values, err := url.ParseQuery(query)
	for key := range values {
		if _, identity := dimOf(key); !identity && !labels[key] {
			return false
		}
	}
	return err == nil
}

func inMetadata(c *memproxy.Claim) bool {
	return strings.Contains(c.Pointer, "/metadata/") || strings.HasPrefix(c.Pointer, "query:metadata")
}

// cost returns how many memories an addition is expected to write: one for each message and
// each text. If the backend's model extracts facts it is an estimate.
func cost(op *memproxy.Operation) int {
	n, last := 0, ""
	for _, it := range op.Items {
		if it.Kind != memproxy.ItemContent || it.Role == "system" {
			continue
		}
		at := it.Pointer
		if parts := strings.SplitN(at, "/", 4); len(parts) == 4 {
			at = "/" + parts[1] + "/" + parts[2] // the parts of a message count as one
		}
		if at != last {
			n, last = n+1, at
		}
	}
	return max(1, n)
}
