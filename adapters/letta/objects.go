package letta

import (
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/stamps"
	"github.com/memproxy/memproxy/adapters/withheld"
)

// What an object is besides the text of a memory, and what a request makes of
// it. Which members an object has says the table of bodies; nothing here names
// the routes that change them.

// textual are the members that are the text of a memory, by kind of object:
// they have a history of their own.
var textual = map[string][]string{"block": {"value"}, "passage": {"text"}, "message": {"content", "reasoning"}}

// running are members that change with every run of an agent: they are kept
// where somebody sets them, and otherwise would be in every version.
func running(name string) bool { return strings.HasPrefix(name, "last_") }

// keptOut are members that no version holds: secrets. The source of a tool is
// none here, because it is what the tool does.
func keptOut(name string) bool { return withheld.Name(name) && name != "source_code" }

// stripped is an answer without secrets, also within its members.
func stripped(body []byte) ([]byte, error) {
	return withheld.Strip(body, func(name string) bool { return name == "source_code" || ofMemory(name) })
}

// references are the lists of objects in answers, by what their ids are called
// where they are set.
var references = map[string]string{"blocks": "block_ids", "tools": "tool_ids", "sources": "source_ids", "identities": "identity_ids"}

// unordered are the lists that the server keeps as relations: it tells them in
// any order.
func unordered() []string {
	return []string{"tags", "block_ids", "shared_block_ids", "tool_ids", "source_ids", "folder_ids", "identity_ids", "file_ids"}
}

// image is what an object in an answer is, besides the text of a memory.
func (m members) image(kind string, v *jsondoc.Value, doc *jsondoc.Doc) []byte {
	known := m[kind]
	if v.Kind != jsondoc.Object {
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
		if len(known) == 0 { // what the server's document does not know
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

// set takes a member into a change, unless it is a memory's text or a secret.
func set(c *memproxy.MemberChange, kind string, m jsondoc.Member, doc *jsondoc.Doc) {
	switch name := m.Name; {
	case name == "id", slices.Contains(textual[kind], name), keptOut(name), memproxy.Reserved(name):
	case name == "metadata" && m.Value.Kind == jsondoc.Object:
		c.Set[name] = stamps.Object(stamps.Kept(doc.Raw(m.Value), false))
	default:
		c.Set[name] = doc.Raw(m.Value)
	}
}

// quoted writes a text as JSON.
func quoted(text string) []byte {
	out, err := jsontext.AppendQuote(nil, text)
	if err != nil {
		return []byte(`""`) // no text of a document or a path is like that
	}
	return out
}

// idsIn is the list of the ids of objects.
func idsIn(v *jsondoc.Value) []byte {
	out := []byte{'['}
	for _, e := range v.Elems {
		if id := e.Get("id"); id != nil && id.Kind == jsondoc.String {
			if len(out) > 1 {
				out = append(out, ',')
			}
			out = append(out, quoted(id.Text())...)
		}
	}
	return append(out, ']')
}

// objectKind is the kind of object that an id names, as the table of bodies has it.
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

// alters notes what the request makes of an object's members.
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
	if root.Kind == jsondoc.Array { // the object's one member that is a list of its own
		c.Set[d.row.path[strings.LastIndexByte(d.row.path, '/')+1:]] = doc.Raw(root)
	}
	for _, m := range root.Members {
		if m.Value.Kind != jsondoc.Null { // the server leaves what is null as it is
			set(&c, kind, m, doc)
		}
	}
	if len(c.Set) > 0 {
		d.op.Changes = append(d.op.Changes, c)
	}
	return nil
}

// object is what the object of the row is located by: its id, or the path where
// it has none that the server is asked by. It is "" for one that is named by a
// member of the body.
func (r *row) object(req memproxy.Request, params map[string]string) string {
	segments := strings.Split(r.path, "/")
	if r.shape == block && params["label"] != "" {
		return params["agent_id"] + "/" + params["label"]
	}
	last := ""
	for i, word := range segments { // the parameter behind the last collection
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

// verb is what a row does with the reference that its path ends in: "attach",
// "detach", "open", "close", "close-all" or "approval".
func (r *row) verb() string {
	for word := range strings.SplitSeq(r.path, "/") {
		switch word {
		case "attach", "detach", "open", "close", "close-all", "approval", "repositories":
			return word
		}
	}
	return ""
}

// attaches notes what becomes of the references of the object that the path
// begins with.
func (d *decoding) attaches() error {
	segments := strings.Split(d.row.path, "/")
	c := memproxy.MemberChange{Unordered: unordered()}
	list, element := "", ""
	for _, word := range segments {
		name, param := strings.CutPrefix(word, "{")
		name = strings.TrimSuffix(strings.TrimSuffix(name, "}"), "...")
		switch {
		case !param:
		case c.Object == "":
			c.Object = d.params[name]
		default:
			list, element = name+"s", d.params[name]
		}
	}
	switch {
	case list == "folder_ids":
		list = "source_ids"
	case list == "block_ids" && objectOf(d.row) == "group":
		list = "shared_block_ids"
	}
	one := map[string][]byte{list: quoted(element)}
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

// approves changes an object so that a tool of an agent waits for a person, or no
// longer does.
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
	rule := append(append([]byte(`{"tool_name":`), quoted(tool)...), `,"type":"requires_approval"}`...)
	if waits {
		c.Add = map[string][]byte{"tool_rules": rule}
	} else {
		c.Remove = map[string][]byte{"tool_rules": rule}
	}
	return nil
}

// included asks for what an agent's answer else leaves out.
const included = "include=agent.blocks&include=agent.tools&include=agent.sources&include=agent.identities&include=agent.tags"

// settable are the members that an object of a kind can be given, and where.
func settable(rows *routes, kind string) (path string, names map[string]bool) {
	for line := range strings.Lines(bodyTable) {
		id, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		r := rows.Row(id)
		if r == nil || r.method != "PATCH" || objectOf(r) != kind || strings.Count(r.path, "{") != 1 || !strings.HasSuffix(r.path, "_id}") {
			continue
		}
		names = map[string]bool{}
		for member := range strings.FieldsSeq(rest) {
			names[member] = member != "|" && !slices.Contains(textual[kind], member)
		}
		return r.path[:strings.IndexByte(r.path, '{')], names
	}
	return "", nil
}

// restoreObject is the request that gives an object the members of a version of
// it, as far as they are others now. What runs and lists of messages are not
// put back, nor what the server's route does not take.
func restoreObject(rows *routes, to memproxy.Version, now memproxy.Memory) []memproxy.Search {
	want, err := memproxy.ReadMembers([]byte(to.Text))
	if err != nil {
		return nil
	}
	there, err := memproxy.ReadMembers([]byte(now.Text))
	if err != nil {
		return nil
	}
	kind := objectKind(to.ID)
	path, takes := settable(rows, kind)
	if path == "" {
		return nil
	}
	c := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if takes[name] && name != "message_ids" && !running(name) && !reflect.DeepEqual(want[name], there[name]) {
			c[name] = want[name]
		}
	}
	for name, v := range there { // what it had not
		if _, had := want[name]; had || !takes[name] || name == "message_ids" || running(name) {
			continue
		}
		switch v.(type) {
		case string:
			c[name] = ""
		case []any:
			c[name] = []any{}
		case map[string]any:
			c[name] = map[string]any{}
		}
	}
	if len(c) == 0 {
		return nil
	}
	body, err := memproxy.Members(c)
	if err != nil {
		return nil
	}
	return []memproxy.Search{{Request: memproxy.Request{
		Method: "PATCH", Path: path + to.ID, EscapedPath: path + url.PathEscape(to.ID),
		Header: memproxy.Header{"X-Stainless-Package-Version": {sdkVersion}, "Content-Type": {"application/json"}},
	}, Body: body}}
}
