package letta

import (
	"net/url"
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/internal/wire"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/origin"
	"github.com/memproxy/memproxy/adapters/routetable"
	"github.com/memproxy/memproxy/adapters/spelling"
)

// decoding is a payload that is being converted to an Operation.
type decoding struct {
	draft
	a       *Adapter
	row     *row
	req     memproxy.Request
	params  map[string]string
	values  url.Values // of the query
	raw     []byte
	payload *payload // of raw; nil if it is empty
	cost    int      // number of memories read so far
}

// Decode implements the gate's adapter.
func (a *Adapter) Decode(rt memproxy.Route, req memproxy.Request, body []byte) (*memproxy.Operation, error) {
	r := a.Row(rt.ID)
	if r.Shape == routetable.Opaque {
		return nil, malformed(memproxy.RouteUnknown, 403, "", "memproxy does not support the payload of this route and so refuses it")
	}
	d := &decoding{a: a, row: r, req: req, params: rt.Params, raw: body, draft: draft{opt: &a.opt, layer: memproxy.Semantic, op: &memproxy.Operation{
		Kind: rt.Kind, Bulk: rt.Bulk, Steering: rt.Steering, Derived: rt.Derived, Route: rt.ID,
	}}}
	if r.Shape == chat || r.Shape == batch || r.Shape == gateway || r.Shape == capture {
		d.layer = memproxy.Episodic
	}
	for _, read := range [...]func() error{d.path, d.headers, d.query, d.body, d.finish, d.refs, d.recordMemberChanges} {
		if err := read(); err != nil {
			return nil, err
		}
	}
	if r.Shape == search && rt.Params != nil && d.doc != nil { // without an agent the server searches all agents
		rt.Params[searchedAgent] = d.doc.Root.Get("agent_id").Text()
	}
	return d.op, nil
}

// searchedAgent is a parameter that no path has. Decode stores in it the agent to which a
// search is limited, for Read.
const searchedAgent = "searched agent"

func (d *decoding) body() error {
	r := d.row
	p, err := newPayload(r, d.req, d.raw, d.a.opt.MaxDepth)
	if err != nil {
		return err
	}
	if p == nil {
		return checkMissingBody(r)
	}
	d.payload, d.doc, d.op.Parsed = p, p.doc, p
	for _, f := range p.fields {
		if err := d.formField(f); err != nil {
			return err
		}
	}
	if r.Shape == upload {
		d.readUpload(p.document)
		return nil
	}
	root := d.doc.Root
	switch {
	case root.Kind == jsondoc.Null:
		return checkMissingBody(r)
	case root.Kind == jsondoc.Array && r.Shape == blocks:
		return each(root, "", d.block)
	case root.Kind == jsondoc.Array && strings.HasSuffix(r.Path, "/properties"):
		return each(root, "", d.form)
	case root.Kind != jsondoc.Object:
		return malformed(memproxy.PayloadMalformed, 422, "", "the body must be a JSON object")
	case r.Shape == blocks:
		return d.wrapped(root, "blocks", d.block)
	case r.Shape == passages:
		return d.wrapped(root, "passages", d.passage)
	case r.Shape == batch:
		return d.wrapped(root, "requests", d.chat)
	}
	if read := bodies[r.Shape]; read != nil {
		return read(d, root, "")
	}
	return d.form(root, "")
}

// bodies are the decoders of objects by shape. Objects of other shapes are read by form.
var bodies = map[shape]func(d *decoding, v *jsondoc.Value, ptr string) error{
	block: (*decoding).block, agent: (*decoding).agent, passage: (*decoding).passage, chat: (*decoding).chat, gateway: (*decoding).chat,
	capture: (*decoding).capture, toolRun: (*decoding).toolRun, file: (*decoding).agentFile, config: (*decoding).config,
}

// checkMissingBody accepts a missing body for the shapes that need none.
func checkMissingBody(r *row) error {
	switch r.Shape {
	case bare, form, config, search:
		return nil
	}
	return malformed(memproxy.PayloadMalformed, 422, "", "this route requires a body")
}

// members reads the members of an object, each with its pointer.
func (d *decoding) members(v *jsondoc.Value, ptr string, one func(m jsondoc.Member, ptr string) error) error {
	if err := checkSpelling(d.a.names, v, ptr); err != nil {
		return err
	}
	for _, m := range v.Members {
		if err := one(m, jsondoc.Child(ptr, m.Name)); err != nil {
			return err
		}
	}
	return nil
}

func each(v *jsondoc.Value, ptr string, one func(*jsondoc.Value, string) error) error {
	if v.Kind == jsondoc.Null {
		return nil
	}
	if v.Kind != jsondoc.Array {
		return malformed(memproxy.PayloadMalformed, 422, ptr, "this must be a list")
	}
	return v.Each(ptr, func(e *jsondoc.Value, at string) error {
		if e.Kind != jsondoc.Object {
			return malformed(memproxy.PayloadMalformed, 422, at, "an element must be an object")
		}
		return one(e, at)
	})
}

// finish sets the fields that depend on the whole payload.
func (d *decoding) finish() error {
	op := d.op
	// A run that names no agent claims every agent, because the backend then chooses one.
	runs := op.Kind == memproxy.Run && (d.row.Shape == chat || d.row.Shape == batch || d.row.Shape == gateway)
	ofAgent := func(c memproxy.Claim) bool { return c.Dim == memproxy.DimAgent }
	if runs && len(op.Targets) == 0 && !slices.ContainsFunc(op.Claims, ofAgent) {
		op.Claims = append(op.Claims, memproxy.Claim{Dim: memproxy.DimAgent, Op: memproxy.ClaimAny, Values: []string{"*"}})
	}
	talks := KindOf(d.params["conversation_id"]) == TargetConversation
	for i := range op.Claims {
		c := &op.Claims[i]
		if talks && (c.Pointer == "/agent_id" || c.Pointer == "query:agent_id") {
			c.Pins = false // the server runs the conversation's agent, whatever agent the request names
		}
		if c.Op != memproxy.ClaimIs || len(c.Values) != 1 || !c.Pins {
			continue
		}
		if !wire.FillScope(&op.Scope, c, op.Kind.Writes()) {
			return malformed(memproxy.ScopeConflict, 422, c.Pointer, "the request names different owners in two places")
		}
	}
	d.originClaims.Apply(op)
	if op.Kind.Writes() || op.Kind == memproxy.Admin { // each text has a member name
		root := objectOf(d.row)
		for i := range op.Items {
			it := &op.Items[i]
			it.Member = d.a.bodies.member(root, it.Pointer)
			it.Configures = it.Kind == memproxy.ItemSteering && configures(d.row, it.Member)
		}
	}
	switch op.Kind {
	case memproxy.Learn, memproxy.Correct:
		op.Cost = max(1, d.cost, estimate(op, d.row.Shape))
	case memproxy.Forget:
		// Deleting an agent deletes its messages; claims in the request do not change that.
		op.SingleOwner = d.row.ID == "letta.delete_agent" && len(op.Claims) == 1 && len(op.Targets) == 1 && d.req.Query == "" &&
			(d.doc == nil || d.doc.Root.Kind == jsondoc.Object && len(d.doc.Root.Members) == 0)
	}
	return nil
}

// draft is the operation that a decoding builds, with the state that its items need.
type draft struct {
	op           *memproxy.Operation
	opt          *Options
	doc          *jsondoc.Doc
	layer        memproxy.Layer // of the route's content
	originClaims origin.Claims
}

func (d *draft) newItem(kind memproxy.ItemKind) memproxy.Item {
	return memproxy.Item{Kind: kind, Layer: d.layer}
}

// checkSpelling refuses member names that some readers could take for known ones. Names of
// tool parameters are not compared with owners' names, because tool authors choose them.
func checkSpelling(names *spelling.Names, v *jsondoc.Value, pointer string) error {
	if strings.Contains(pointer, "json_schema") {
		names = &spelling.Names{}
	}
	return names.CheckMembers(v, pointer, known)
}
