package letta

import (
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/spelling"
)

// maxRefs bounds the objects that one request may name. Each is looked up, and
// some are asked for.
const maxRefs = 1000

// refs notes every existing object and every owner that the request names,
// wherever it does: nothing here knows the route. What is not known to hold
// text is taken for a name.
func (d *decoding) refs(p *payload) error {
	r := referring{op: d.op, row: d.row, depth: d.a.opt.MaxDepth, named: map[memproxy.Ref]bool{}}
	for _, name := range slices.Sorted(maps.Keys(d.params)) {
		r.path(name, d.params[name])
	}
	if strings.HasSuffix(d.row.path, "...}") && d.row.kind != memproxy.Admin {
		r.add(targetName, d.req.EscapedPath, "path:rest")
	}
	for segment := range strings.SplitSeq(d.req.EscapedPath, "/") { // what no parameter holds
		if plain, err := url.PathUnescape(segment); err == nil {
			r.ids(plain, "path")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(d.req.Header)) {
		for _, value := range d.req.Header[name] {
			r.ids(value, "header:"+strings.ToLower(name))
		}
	}
	values, err := d.a.names.Parse(d.req.Query)
	if err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		for _, value := range values[key] {
			r.ids(value, "query:"+key)
		}
	}
	if p != nil {
		for _, f := range p.fields {
			r.part(f)
		}
	}
	if d.doc != nil && d.doc.Root != nil {
		r.value("", d.doc.Root, "")
	}
	r.owners()
	if key := d.doc; key != nil && d.row.id == "letta.upsert_identity" {
		if v := given(key.Root.Get("identifier_key")); v != nil && v.Kind == jsondoc.String {
			d.op.Upserts = byKey + url.QueryEscape(v.Text())
			d.draft.target(d.op.Upserts)
		}
	}
	if len(d.op.Refs) > maxRefs {
		return bad(memproxy.PayloadMalformed, 422, "", "the request names too many objects")
	}
	return nil
}

// referring gathers the objects that one request names.
type referring struct {
	op    *memproxy.Operation
	row   *row
	depth int
	named map[memproxy.Ref]bool // those noted so far, without their pointers
}

// add notes an object once. The ledger knows all of them as memories, because
// Letta's ids tell their kinds.
func (r *referring) add(kind memproxy.TargetKind, id, ptr string) {
	at := memproxy.Ref{Kind: kind, ID: id}
	if r.named[at] || len(r.op.Refs) > maxRefs {
		return
	}
	r.named[at] = true
	at.Pointer = ptr
	r.op.Refs = append(r.op.Refs, at)
}

// path notes what a path parameter names: an object by its id, or what has
// the form of one.
func (r *referring) path(name, value string) {
	switch p := params[name]; {
	case p.kind != "" && KindOf(value) != "":
		r.add(memproxy.TargetMemory, value, "path:"+name)
	case p.unasked && r.row.kind != memproxy.Admin:
		r.add(targetName, name+":"+value, "path:"+name)
		fallthrough
	default:
		r.ids(value, "path:"+name)
	}
}

// targetName is what has a name and no owner whom the ledger or the server could
// tell.
const targetName memproxy.TargetKind = "name"

// ids notes the ids that a value is, one or several with commas between, as
// some routes take them.
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

// part notes the ids in a part of a form, which may be JSON itself.
func (r *referring) part(p part) {
	ptr := "part:" + p.name
	r.ids(string(p.data), ptr)
	if doc, err := jsondoc.Parse(p.data, r.depth); err == nil {
		r.value("", doc.Root, ptr)
	}
}

// value notes the ids in a JSON value, and names of members that are ids.
// The text of a member that holds text is none, whatever it looks like.
func (r *referring) value(name string, v *jsondoc.Value, ptr string) {
	switch v.Kind {
	case jsondoc.String:
		if !holdsText(name) {
			r.ids(v.Text(), ptr)
		}
		if what := byName[name]; what != "" && !builtIn(v.Text()) && !hasIDForm(v.Text()) {
			r.add(targetName, what+":"+v.Text(), ptr)
		}
	case jsondoc.Array:
		for i, e := range v.Elems {
			r.value(name, e, jsondoc.Index(ptr, i))
		}
	case jsondoc.Object:
		for _, m := range v.Members {
			if r.row.shape == file && strings.HasSuffix(m.Name, "_by_id") && strings.HasPrefix(m.Value.Text(), "user-") {
				continue // an account of the server that the file comes from
			}
			p := jsondoc.Child(ptr, m.Name)
			r.ids(m.Name, p)
			r.value(m.Name, m.Value, p)
		}
	}
}

// holdsText reports whether a member's string is text, of people, models or
// tools, which may say anything.
func holdsText(name string) bool {
	switch name {
	case "content", "text", "value", "input", "prompt", "summary", "description", "system", "instructions", "persona", "human",
		"reasoning", "tool_return", "arguments", "query", "query_text", "source_code", "label", "title", "message", "reason":
		return true
	}
	return false
}

// owners notes whom the request names plainly, and its targets. An
// identity's key is left out: it is a name that comes to be by being given, and
// the claim says it.
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
			case kind != "" && kind != TargetLabel: // a label stands in paths only, here it is a strange name
				r.add(memproxy.TargetMemory, v, c.Pointer)
			case !strings.Contains(c.Pointer, "identifier_key"):
				r.add(memproxy.TargetEntity, memproxy.OwnerID(c.Dim, v), c.Pointer)
			}
		}
	}
}

// minID is the length of the shortest id: a letter, a dash and a UUID.
const minID = spelling.UUIDLen + 2

// hasIDForm reports whether a value has the form of the server's ids: what it
// is, a dash, and a UUID. Newer servers may have more kinds than KindOf knows.
func hasIDForm(s string) bool {
	if len(s) < minID || len(s) > 128 {
		return false
	}
	at := len(s) - spelling.UUIDLen
	return s[at-1] == '-' && spelling.UUID(s[at:]) && spelling.Word(s[:at-1], "-_")
}

// param is what a path parameter of the table names.
type param struct {
	// kind is what it names, or "". What names nothing is looked through for ids
	// all the same.
	kind memproxy.TargetKind
	// because is why a parameter names no object that belongs to anybody.
	because string
	// unasked is set where what it names belongs to somebody, and nobody can be
	// asked to whom: where several tenants share the server it is out of reach.
	unasked bool
}

// params are the parameters of the table's paths. A test holds every parameter
// of every row to it.
var params = map[string]param{
	"agent_id":          {kind: TargetAgent},
	"archive_id":        {kind: TargetArchive},
	"batch_id":          {kind: TargetJob},
	"block_id":          {kind: TargetBlock},
	"conversation_id":   {kind: TargetConversation},
	"file_id":           {kind: TargetFile},
	"folder_id":         {kind: TargetFolder},
	"group_id":          {kind: TargetGroup},
	"identity_id":       {kind: TargetIdentity},
	"job_id":            {kind: TargetJob},
	"memory_id":         {kind: TargetPassage},
	"message_id":        {kind: TargetMessage},
	"passage_id":        {kind: TargetPassage},
	"run_id":            {kind: TargetRun},
	"source_id":         {kind: TargetFolder},
	"step_id":           {kind: TargetStep},
	"tool_id":           {kind: TargetTool},
	"connection":        {because: "a device of the caller's cloud account", unasked: true},
	"deployment_id":     {because: "a name that the templates' owner chose", unasked: true},
	"endpoint":          {because: "the rest of another provider's path"},
	"env_var_id":        {because: "a setting of the installation: administration"},
	"folder_name":       {because: "a name; the answer is an id, which is filtered"},
	"label":             {because: "a name within the agent of the path"},
	"mcp_server_id":     {because: "a setting of the installation", unasked: true},
	"mcp_server_name":   {because: "a setting of the installation", unasked: true},
	"mcp_tool_name":     {because: "a setting of the installation: administration"},
	"part":              {because: "a view of the agent of the path"},
	"path":              {because: "packs, which are refused"},
	"provider_id":       {because: "a setting of the installation: administration"},
	"rest":              {because: "the rest of a cloud route's path", unasked: true},
	"sandbox_config_id": {because: "a setting of the installation: administration"},
	"schedule":          {because: "a part of the agent of the path", unasked: true},
	"source_name":       {because: "a name; the answer is an id, which is filtered"},
	"template_version":  {because: "a name of the caller's cloud project", unasked: true},
	"tool_name":         {because: "a name within the agent, or the server, of the path"},
	"transaction_id":    {because: "a value that is noted with the step of the path"},
}

// paramKind is what a path parameter names, where the operation is done to it.
// What is done to what an agent holds is not done to the agent, and what runs
// with a tool does not change the tool: those are references only.
func paramKind(name string) memproxy.TargetKind {
	switch kind := params[name].kind; kind {
	case TargetAgent, TargetTool, TargetJob:
		return ""
	default:
		return kind
	}
}
