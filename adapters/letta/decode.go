package letta

import (
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/origin"
)

// decoding is one payload on its way to an Operation.
type decoding struct {
	a      *Adapter
	row    *row
	req    memproxy.Request
	params map[string]string
	doc    *jsondoc.Doc
	op     *memproxy.Operation
	cost   int // memories counted so far
	// said is what the payload says of its content's layer and origin.
	said origin.Claims
	// named are the references noted so far, without their pointers.
	named map[memproxy.Ref]bool
}

// Decode implements the gate's adapter.
func (a *Adapter) Decode(rt memproxy.Route, req memproxy.Request, body []byte) (*memproxy.Operation, error) {
	r := a.Row(rt.ID)
	if r == nil || r.shape == opaque {
		return nil, bad(memproxy.RouteUnknown, 403, "", "memproxy knows this route and cannot read its payload, so it cannot rule on it")
	}
	d := &decoding{a: a, row: r, req: req, params: rt.Params, op: &memproxy.Operation{
		Kind: rt.Kind, Bulk: rt.Bulk, Steering: rt.Steering, Derived: rt.Derived, Route: rt.ID,
	}}
	if err := d.path(); err != nil {
		return nil, err
	}
	if err := d.headers(); err != nil {
		return nil, err
	}
	if err := d.query(); err != nil {
		return nil, err
	}
	p, err := a.payload(r, req, body)
	if err != nil {
		return nil, err
	}
	if p != nil {
		d.doc, d.op.Parsed = p.doc, p
	}
	if err := d.body(p); err != nil {
		return nil, err
	}
	if err := d.settle(); err != nil {
		return nil, err
	}
	if err := d.refs(p); err != nil {
		return nil, err
	}
	if err := d.alters(); err != nil {
		return nil, err
	}
	if r.shape == search && rt.Params != nil {
		rt.Params[searched] = d.op.Scope.Agent
	}
	return d.op, nil
}

// searched is the path parameter, not of any path, under which Decode leaves
// the agent whose memory a search is limited to.
const searched = "searched agent"

// body reads the payload by the route's shape.
func (d *decoding) body(p *payload) error {
	r := d.row
	if p == nil {
		return d.bodyless()
	}
	if r.shape == upload {
		return d.document(p)
	}
	for _, f := range p.fields {
		if err := d.fields(f); err != nil {
			return err
		}
	}
	root := d.doc.Root
	if root.Kind == jsondoc.Null {
		return d.bodyless()
	}
	if root.Kind == jsondoc.Array && r.shape == blocks {
		return d.each(root, "", d.block)
	}
	if root.Kind == jsondoc.Array && strings.HasSuffix(r.path, "/properties") {
		return d.each(root, "", d.form)
	}
	if root.Kind != jsondoc.Object {
		return bad(memproxy.PayloadMalformed, 422, "", "the body must be a JSON object")
	}
	switch r.shape {
	case block:
		return d.block(root, "")
	case blocks:
		return d.wrapped(root, "blocks", d.block)
	case agent:
		return d.agent(root, "")
	case passage:
		return d.passage(root, "")
	case passages:
		return d.wrapped(root, "passages", d.passage)
	case chat:
		return d.chat(root, "")
	case batch:
		return d.wrapped(root, "requests", d.chat)
	case gateway:
		return d.gateway(root)
	case capture:
		return d.capture(root)
	case toolRun:
		return d.toolRun(root)
	case file:
		return d.file(root)
	case config:
		return d.config(root)
	}
	return d.form(root, "")
}

// bodyless is a request without a body: right for some shapes only.
func (d *decoding) bodyless() error {
	switch d.row.shape {
	case bare, form, config, search:
		return nil
	}
	return bad(memproxy.PayloadMalformed, 422, "", "this route needs a body")
}

// each reads the elements of a list of objects.
func (d *decoding) each(v *jsondoc.Value, ptr string, one func(*jsondoc.Value, string) error) error {
	if v.Kind == jsondoc.Null {
		return nil
	}
	if v.Kind != jsondoc.Array {
		return bad(memproxy.PayloadMalformed, 422, ptr, "this must be a list")
	}
	for i, e := range v.Elems {
		at := jsondoc.Index(ptr, i)
		if e.Kind != jsondoc.Object {
			return bad(memproxy.PayloadMalformed, 422, at, "an element must be an object")
		}
		if err := one(e, at); err != nil {
			return err
		}
	}
	return nil
}

// settle fills what follows from everything that was read.
func (d *decoding) settle() error {
	op := d.op
	d.anybody()
	for i := range op.Claims {
		c := &op.Claims[i]
		if c.Op != memproxy.ClaimIs || len(c.Values) != 1 || !c.Pins {
			continue
		}
		if err := fill(&op.Scope, c, op.Kind.Writes()); err != nil {
			return err
		}
	}
	d.said.Settle(op)
	d.govern()
	switch op.Kind {
	case memproxy.Learn, memproxy.Correct:
		op.Cost = max(1, d.cost, d.estimate())
	case memproxy.Forget:
		// What an agent has goes with it; nothing narrows or widens that.
		op.Single = d.row.id == "letta.delete_agent" && len(op.Claims) == 1 && len(op.Targets) == 1 && d.doc == nil && d.req.Query == ""
	}
	return nil
}

// anybody claims every agent for a run that names none: the backend then picks
// one.
func (d *decoding) anybody() {
	switch d.row.shape {
	case chat, batch, gateway:
	default:
		return
	}
	if d.op.Kind != memproxy.Run || len(d.op.Targets) > 0 {
		return
	}
	for i := range d.op.Claims {
		if d.op.Claims[i].Dim == memproxy.DimAgent {
			return
		}
	}
	d.op.Claims = append(d.op.Claims, memproxy.Claim{Dim: memproxy.DimAgent, Op: memproxy.ClaimAny, Values: []string{"*"}})
}

// fill sets the scope from a plain claim. In a write two places must agree.
func fill(s *memproxy.Scope, c *memproxy.Claim, write bool) error {
	var at *string
	switch c.Dim {
	case memproxy.DimUser:
		at = &s.User
	case memproxy.DimAgent:
		at = &s.Agent
	case memproxy.DimRun:
		at = &s.Run
	default:
		return nil
	}
	if write && *at != "" && *at != c.Values[0] {
		return bad(memproxy.ScopeConflict, 422, c.Pointer, "two places of the request name different owners")
	}
	if *at == "" {
		*at = c.Values[0]
	}
	return nil
}

func (d *decoding) item(kind memproxy.ItemKind, ptr, text string) {
	layer := memproxy.Semantic
	if d.row.shape == chat || d.row.shape == batch || d.row.shape == gateway || d.row.shape == capture {
		layer = memproxy.Episodic
	}
	d.op.Items = append(d.op.Items, memproxy.Item{Kind: kind, Pointer: ptr, Text: text, Layer: layer})
}

// strings makes an item of every string in a value.
func (d *decoding) strings(v *jsondoc.Value, ptr string, kind memproxy.ItemKind) {
	switch v.Kind {
	case jsondoc.String:
		if v.Text() != "" {
			d.item(kind, ptr, v.Text())
		}
	case jsondoc.Object:
		for _, m := range v.Members {
			p := jsondoc.Child(ptr, m.Name)
			d.name(m.Name, p, kind)
			d.strings(m.Value, p, kind)
		}
	case jsondoc.Array:
		for i, e := range v.Elems {
			d.strings(e, jsondoc.Index(ptr, i), kind)
		}
	}
}

// maxName is how long a name may be and still be one.
const maxName = 40

// name makes an item of a member's name that is a text rather than a name, as
// names in metadata are when they read like sentences.
func (d *decoding) name(name, ptr string, kind memproxy.ItemKind) {
	if len(name) > maxName || strings.Contains(ptr, "/metadata") && memproxy.Wordy(name) || strings.ContainsFunc(name, func(r rune) bool {
		return r != '_' && r != '-' && r != '.' && r != '$' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}) {
		d.item(kind, ptr, name)
	}
}

// cased refuses names that readers could take for known ones: in another
// letter case or in look-alikes of its letters, and another spelling of one
// that is next to it ("metadata_", which the server takes for metadata). What
// says whose a request is has one spelling, also where it stands alone.
func (d *decoding) cased(v *jsondoc.Value, pointer string) error {
	for _, m := range v.Members {
		if low := jsondoc.Fold(m.Name); low != m.Name && known(low) {
			return bad(memproxy.PayloadDuplicate, 400, jsondoc.Child(pointer, m.Name), "a known key in another letter case")
		}
	}
	if m, ok := jsondoc.Alias(v, known); ok {
		return bad(memproxy.PayloadDuplicate, 400, jsondoc.Child(pointer, m.Name), "a known key stands there in two spellings")
	}
	if strings.Contains(pointer, "json_schema") { // what tools take is named by their authors
		return nil
	}
	if m, ok := d.a.names.Respelled(v); ok {
		return bad(memproxy.PayloadDuplicate, 400, jsondoc.Child(pointer, m.Name), "a known key in another spelling")
	}
	return nil
}
