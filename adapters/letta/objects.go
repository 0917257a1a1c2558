package letta

import (
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/letta/turn"
	"github.com/memproxy/memproxy/adapters/stamps"
	"github.com/memproxy/memproxy/adapters/withheld"
)

// Members of objects other than a memory's text, and the changes that requests make to
// them. The table of bodies lists the members of each kind of object; no route is named
// here.

// textual are the members that hold a memory's text, which has its own history, by kind
// of object.
var textual = map[string][]string{"block": {"value"}, "passage": {"text"}, "message": {"content", "reasoning"}}

// running reports whether a member changes with every run of an agent. Versions contain
// it only if a request sets it.
func running(name string) bool { return strings.HasPrefix(name, "last_") }

// keptOut reports whether a member is a secret, which no version contains. A tool's
// source code is not one, because it is what the tool does.
func keptOut(name string) bool { return withheld.Name(name) && name != "source_code" }

// stripped returns an answer without secrets, at any depth.
func stripped(body []byte) ([]byte, error) {
	return withheld.Strip(body, func(name string) bool { return name == "source_code" || ofMemory(name) })
}

// references maps lists of objects in answers to the members that set their ids.
var references = map[string]string{"blocks": "block_ids", "tools": "tool_ids", "sources": "source_ids", "identities": "identity_ids"}

// unordered are the lists that the server stores as relations and returns in any order.
func unordered() []string {
	return []string{"tags", "block_ids", "shared_block_ids", "tool_ids", "source_ids", "folder_ids", "identity_ids", "file_ids"}
}

// image returns the members of an object in an answer, except a memory's text; nil
// without a table.
func (m members) image(kind string, v *jsondoc.Value, doc *jsondoc.Doc) []byte {
	known := m[kind]
	if m == nil || v.Kind != jsondoc.Object {
		return nil
	}
	c := memproxy.MemberChange{Set: map[string][]byte{}, Unordered: unordered()}
	for _, e := range v.Members {
		name := strings.TrimSuffix(e.Name, "_")
		if ids, refs := references[e.Name]; refs && e.Value.Kind == jsondoc.Array {
			if _, sets := known[ids]; sets && v.Get(ids) == nil {
				c.Set[ids] = idsIn(e.Value)
			}
			continue
		}
		_, sets := known[e.Name]
		if len(known) == 0 { // a kind that the server's document does not describe
			sets = name != "created_at" && name != "updated_at"
		}
		if !sets && name == "metadata" {
			_, sets = known["metadata"]
		}
		if sets && !running(e.Name) && e.Value.Kind != jsondoc.Null {
			set(&c, kind, e, doc)
		}
	}
	members, err := c.Over(nil)
	if err != nil {
		return nil
	}
	return members
}

// set adds a member to a change, unless it is a memory's text or a secret.
func set(c *memproxy.MemberChange, kind string, m jsondoc.Member, doc *jsondoc.Doc) {
	switch name := m.Name; {
	case name == "id", slices.Contains(textual[kind], name), keptOut(name), memproxy.Reserved(name):
	case name == "metadata" && m.Value.Kind == jsondoc.Object:
		c.Set[name] = stamps.Object(stamps.Kept(doc.Raw(m.Value), false)...)
	default:
		c.Set[name] = doc.Raw(m.Value)
	}
}

// idsIn returns the ids of objects as a JSON list.
func idsIn(v *jsondoc.Value) []byte {
	var ids [][]byte
	for _, e := range v.Elems {
		if id := e.Get("id"); id != nil && id.Kind == jsondoc.String {
			ids = append(ids, turn.Quoted(id.Text()))
		}
	}
	return turn.List(ids)
}

// objectKind returns the kind of object that an id names, as in the table of bodies.
func objectKind(id string) string {
	switch kind := KindOf(id); kind {
	case TargetLabel:
		return "block"
	case "":
		return "server"
	default:
		return string(kind)
	}
}

// alters records the request's changes to an object's members.
func (d *decoding) alters() error {
	switch {
	case d.op.Kind == memproxy.Attach, d.op.Kind == memproxy.Admin && d.row.verb() != "":
		return d.attaches()
	case d.op.Kind != memproxy.Correct && (d.op.Kind != memproxy.Admin || d.req.Method != "PATCH" && d.req.Method != "PUT"):
		return nil
	case d.doc == nil || d.doc.Root == nil:
		return nil
	}
	kind, c := objectOf(d.row), memproxy.MemberChange{Object: d.row.object(d.req, d.params), Set: map[string][]byte{}, Unordered: unordered()}
	root, doc := d.doc.Root, d.doc
	if clean, err := stripped(doc.Src); err != nil {
		return err
	} else if len(clean) != len(doc.Src) {
		if doc, err = jsondoc.Parse(clean, 0); err != nil {
			return err
		}
		root = doc.Root
	}
	if root.Kind == jsondoc.Array { // the body is the value of one list member
		c.Set[d.row.path[strings.LastIndexByte(d.row.path, '/')+1:]] = doc.Raw(root)
	}
	for _, m := range root.Members {
		if m.Value.Kind != jsondoc.Null { // the server ignores null
			set(&c, kind, m, doc)
		}
	}
	if len(c.Set) > 0 {
		d.op.Changes = append(d.op.Changes, c)
	}
	return nil
}

// object returns the location of the row's object: its id, or the path if it has none.
// It is "" for an object that the body names.
func (r *row) object(req memproxy.Request, params map[string]string) string {
	segments := strings.Split(r.path, "/")
	if r.shape == block && params["label"] != "" {
		return params["agent_id"] + "/" + params["label"]
	}
	last := ""
	for i, word := range segments { // the parameter after the last collection
		if _, is := collections[word]; (is || word == "blocks" || word == "_internal_blocks") && i+1 < len(segments) {
			last = strings.TrimSuffix(strings.Trim(segments[i+1], "{}"), "...")
		}
	}
	switch id := params[last]; {
	case KindOf(id) != "":
		return id
	case strings.Contains(r.path, "{"):
		return req.EscapedPath
	}
	return ""
}

// verb returns what a row does with the reference at the end of its path, such as
// "attach", "detach", "close-all" or "approval".
func (r *row) verb() string {
	for word := range strings.SplitSeq(r.path, "/") {
		switch word {
		case "attach", "detach", "open", "close", "close-all", "approval", "repositories":
			return word
		}
	}
	return ""
}

// attaches records the changes to the references of the path's first object.
func (d *decoding) attaches() error {
	var named []string // the path's parameters
	for word := range strings.SplitSeq(d.row.path, "/") {
		if name, param := strings.CutPrefix(word, "{"); param {
			named = append(named, strings.TrimSuffix(strings.TrimSuffix(name, "}"), "..."))
		}
	}
	last := named[len(named)-1]
	c := memproxy.MemberChange{Object: d.params[named[0]], Unordered: unordered()}
	list, element := last+"s", d.params[last]
	switch {
	case list == "folder_ids":
		list = "source_ids"
	case list == "block_ids" && objectOf(d.row) == "group":
		list = "shared_block_ids"
	}
	one := map[string][]byte{list: turn.Quoted(element)}
	c.View = list == "file_ids"
	switch verb := d.row.verb(); {
	case verb == "approval":
		if err := approves(&c, d.req.Query, d.doc, element); err != nil {
			return err
		}
	case verb == "close-all":
		c.Set = map[string][]byte{"file_ids": []byte("[]")}
	case verb == "detach", verb == "close", d.req.Method == "DELETE":
		c.Remove = one
	default:
		c.Add = one
	}
	d.op.Changes = append(d.op.Changes, c)
	return nil
}

// approves records that a tool of an agent requires a person's approval, or no longer
// does.
func approves(c *memproxy.MemberChange, query string, doc *jsondoc.Doc, tool string) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return bad(memproxy.PayloadMalformed, 400, "", "the query cannot be read")
	}
	waits := jsondoc.Yes(values.Get("requires_approval"))
	if doc != nil && doc.Root != nil {
		if v := doc.Root.Get("requires_approval"); v != nil {
			waits = doc.Yes(v)
		}
	}
	rule := append(append([]byte(`{"tool_name":`), turn.Quoted(tool)...), `,"type":"requires_approval"}`...)
	if waits {
		c.Add = map[string][]byte{"tool_rules": rule}
	} else {
		c.Remove = map[string][]byte{"tool_rules": rule}
	}
	return nil
}

// included requests the relations that an agent's answer omits by default.
const included = "include=agent.blocks&include=agent.tools&include=agent.sources&include=agent.identities&include=agent.tags"

// settable returns the path prefix and the members of the route that changes objects of
// a kind.
func (m members) settable(kind string) (path string, names map[string]bool) {
	for i := range table {
		r := &table[i]
		if r.method == "PATCH" && m[r.id] != nil && objectOf(r) == kind && strings.Count(r.path, "{") == 1 && strings.HasSuffix(r.path, "_id}") {
			return r.path[:strings.IndexByte(r.path, '{')], m[r.id]
		}
	}
	return "", nil
}

// restore returns the request that sets an object's members to those of a
// version, as far as they differ. It leaves out members that change with every run,
// lists of messages, and members that the route does not accept.
func (m members) restore(to memproxy.Version, now memproxy.Memory) []memproxy.SideRequest {
	want, err := memproxy.ReadMembers([]byte(to.Text))
	if err != nil {
		return nil
	}
	there, err := memproxy.ReadMembers([]byte(now.Text))
	if err != nil {
		return nil
	}
	kind := objectKind(to.ID)
	path, takes := m.settable(kind)
	if path == "" {
		return nil
	}
	c := map[string]any{}
	for name, takes := range takes {
		v, had := want[name]
		switch {
		case !takes, name == "message_ids", running(name), slices.Contains(textual[kind], name), reflect.DeepEqual(v, there[name]):
		case had:
			c[name] = v
		default: // a member that the version lacks
			switch there[name].(type) {
			case string:
				c[name] = ""
			case []any:
				c[name] = []any{}
			case map[string]any:
				c[name] = map[string]any{}
			}
		}
	}
	if len(c) == 0 {
		return nil
	}
	body, err := memproxy.Members(c)
	if err != nil {
		return nil
	}
	q := side(memproxy.Request{}, "PATCH", path+url.PathEscape(to.ID), "")
	q.Path = path + to.ID
	q.Header.Set("Content-Type", "application/json")
	return []memproxy.SideRequest{{Request: q, Body: body}}
}
