package letta

import (
	"cmp"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/stamps"
	"github.com/memproxy/memproxy/adapters/withheld"
)

// This file reads members of objects other than a memory's text, and the changes that
// requests make to them. bodies.txt lists the members of each kind of object.

// textual has the members that hold a memory's text, by kind of object. Texts have a
// version history of their own.
var textual = map[string][]string{"block": {"value"}, "passage": {"text"}, "message": {"content", "reasoning"}}

// changesByItself reports whether a member changes with every run of an agent. Versions
// contain it only if a request sets it.
func changesByItself(name string) bool { return strings.HasPrefix(name, "last_") }

// versioned returns the members of an object in an answer that are versioned, without a
// memory's text and secrets, as memproxy.MemberChange encodes them. It returns nil if m is
// nil.
func (m members) versioned(kind string, v *jsondoc.Value, doc *jsondoc.Doc) []byte {
	known := m[kind]
	if m == nil || v.Kind != jsondoc.Object {
		return nil
	}
	c := memproxy.MemberChange{Set: map[string][]byte{}, Unordered: nameLists["unordered"]}
	for _, e := range v.Members {
		name := strings.TrimSuffix(e.Name, "_")
		if ids, refs := idMembers[e.Name]; refs && e.Value.Kind == jsondoc.Array {
			if _, sets := known[ids]; sets && v.Get(ids) == nil {
				var list [][]byte
				for _, o := range e.Value.Elems {
					if id := o.Get("id"); id != nil && id.Kind == jsondoc.String {
						list = append(list, jsondoc.Quote(id.Text()))
					}
				}
				c.Set[ids] = jsondoc.ListOf(list)
			}
			continue
		}
		_, sets := known[e.Name]
		if len(known) == 0 { // the server's document does not describe this kind
			sets = name != "created_at" && name != "updated_at"
		}
		if !sets && name == "metadata" {
			_, sets = known["metadata"]
		}
		if sets && !changesByItself(e.Name) && e.Value.Kind != jsondoc.Null {
			setMember(&c, kind, e, doc)
		}
	}
	members, _ := c.Apply(nil) // the values are of a document
	return members
}

// setMember adds a member to a change, unless it is a memory's text or a secret, which no version
// contains. A tool's source code is no secret here, because it defines what the tool does.
func setMember(c *memproxy.MemberChange, kind string, m jsondoc.Member, doc *jsondoc.Doc) {
	switch name := m.Name; {
	case name == "id", slices.Contains(textual[kind], name), withheld.IsSecretName(name) && name != "source_code", memproxy.Reserved(name):
	case name == "metadata" && m.Value.Kind == jsondoc.Object:
		c.Set[name] = stamps.Object(stamps.FilterMembers(doc.Raw(m.Value), false)...)
	default:
		c.Set[name] = doc.Raw(m.Value)
	}
}

// objectKind returns the kind of object that an id names, as bodies.txt spells it.
func objectKind(id string) string {
	if KindOf(id) == TargetLabel {
		return "block"
	}
	return cmp.Or(string(KindOf(id)), "server")
}

// recordMemberChanges records the request's changes to an object's members.
func (d *decoding) recordMemberChanges() error {
	switch {
	case d.row.Kind == memproxy.Attach, d.row.Kind == memproxy.Correct && verb(d.row) != "":
		d.recordReferenceChanges()
		return nil
	case d.row.Kind != memproxy.Correct && (d.row.Kind != memproxy.Admin || d.req.Method != "PATCH" && d.req.Method != "PUT"):
		return nil
	case d.doc == nil || d.doc.Root == nil:
		return nil
	}
	kind, c := objectOf(d.row), memproxy.MemberChange{Object: object(d.row, d.req, d.params), Set: map[string][]byte{}, Unordered: nameLists["unordered"]}
	doc := withheld.StripDoc(d.doc, keptMembers(true))
	if doc.Root.Kind == jsondoc.Array { // the body is the value of one list member
		c.Set[d.row.Path[strings.LastIndexByte(d.row.Path, '/')+1:]] = doc.Raw(doc.Root)
	}
	for _, m := range doc.Root.Members {
		if m.Value.Kind != jsondoc.Null { // the server ignores null
			setMember(&c, kind, m, doc)
		}
	}
	if len(c.Set) > 0 {
		d.op.Changes = append(d.op.Changes, c)
	}
	return nil
}

// object returns the location of the object that a row changes: its id, or the request's
// path if it has none. It returns "" if only the body names the object.
func object(r *row, req memproxy.Request, params map[string]string) string {
	segments := strings.Split(r.Path, "/")
	if r.Shape == block && params["label"] != "" {
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
	case strings.Contains(r.Path, "{"):
		return req.EscapedPath
	}
	return ""
}

// verb returns what a row does with the reference in its path, such as "attach", "detach",
// "close-all" or "approval"; "" if it does nothing with one.
func verb(r *row) string {
	for word := range strings.SplitSeq(r.Path, "/") {
		if references[word] {
			return word
		}
	}
	return ""
}

// recordReferenceChanges records a change to the list in which the path's first object
// refers to the path's last one.
func (d *decoding) recordReferenceChanges() {
	var named []string // the path's parameters
	for word := range strings.SplitSeq(d.row.Path, "/") {
		if name, param := strings.CutPrefix(word, "{"); param {
			named = append(named, strings.TrimSuffix(strings.TrimSuffix(name, "}"), "..."))
		}
	}
	last := named[len(named)-1]
	c := memproxy.MemberChange{Object: d.params[named[0]], Unordered: nameLists["unordered"]}
	list, element := last+"s", d.params[last]
	switch {
	case list == "folder_ids":
		list = "source_ids"
	case list == "block_ids" && objectOf(d.row) == "group":
		list = "shared_block_ids"
	}
	one := map[string][]byte{list: jsondoc.Quote(element)}
	c.View = list == "file_ids"
	switch verb := verb(d.row); {
	case verb == "approval":
		recordApprovalRule(&c, d, element)
	case verb == "close-all":
		c.Set = map[string][]byte{"file_ids": []byte("[]")}
	case verb == "detach", verb == "close", d.req.Method == "DELETE":
		c.Remove = one
	default:
		c.Add = one
	}
	d.op.Changes = append(d.op.Changes, c)
}

// recordApprovalRule records the change of the tool rule that requires a person's approval
// for a tool of an agent.
func recordApprovalRule(c *memproxy.MemberChange, d *decoding, tool string) {
	waits := jsondoc.LaxTrue(d.values.Get("requires_approval"))
	if d.doc != nil {
		if v := d.doc.Root.Get("requires_approval"); v != nil {
			waits = d.doc.LaxTrue(v)
		}
	}
	rule := append(append([]byte(`{"tool_name":`), jsondoc.Quote(tool)...), `,"type":"requires_approval"}`...)
	if waits {
		c.Add = map[string][]byte{"tool_rules": rule}
	} else {
		c.Remove = map[string][]byte{"tool_rules": rule}
	}
}

// included is the query for the relations that an answer with an agent omits by default.
const included = "include=agent.blocks&include=agent.tools&include=agent.sources&include=agent.identities&include=agent.tags"

// restore returns the request that sets an object's members to those of a version, as far
// as they differ. It leaves out members that change with every run, lists of messages, and
// members that the route does not accept.
func (m members) restore(to memproxy.Version, now memproxy.Memory) []memproxy.SideRequest {
	want, err := memproxy.DecodeMembers([]byte(to.Text))
	if err != nil {
		return nil
	}
	there, err := memproxy.DecodeMembers([]byte(now.Text))
	if err != nil {
		return nil
	}
	kind := objectKind(to.ID)
	rows := indexed().Rows
	route := slices.IndexFunc(rows, func(r row) bool { // that changes objects of the kind
		byID := strings.Count(r.Path, "{") == 1 && strings.HasSuffix(r.Path, "_id}")
		return r.Method == "PATCH" && byID && m[r.ID] != nil && objectOf(&r) == kind
	})
	if route < 0 {
		return nil
	}
	path, _, _ := strings.Cut(rows[route].Path, "{")
	c := map[string]any{}
	for name, takes := range m[rows[route].ID] {
		v, had := want[name]
		switch {
		case !takes, name == "message_ids", changesByItself(name), slices.Contains(textual[kind], name), reflect.DeepEqual(v, there[name]):
		case had:
			c[name] = v
		default: // the version lacks the member, so it becomes empty
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
	q := sideRequest(memproxy.Request{}, "PATCH", path+url.PathEscape(to.ID), "")
	q.Header.Set("Content-Type", "application/json")
	return []memproxy.SideRequest{{Request: q, Body: memproxy.EncodeMembers(c)}}
}
