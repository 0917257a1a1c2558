package mem0

import (
	"maps"
	"reflect"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/stamps"
	"github.com/memproxy/memproxy/adapters/withheld"
)

// This file reads settings and members of memories other than the text, and the changes
// that requests make to them.

// versionedMembers returns the members of a memory or of settings that are versioned,
// without secrets, as memproxy.MemberChange encodes them.
func versionedMembers(body []byte) []byte {
	doc, err := jsondoc.Parse(body, 0)
	if err != nil || doc.Root.Kind != jsondoc.Object {
		return nil
	}
	c := otherMembers(doc, false)
	members, _ := c.Apply(nil) // the values are of a document
	return members
}

// otherMembers returns the members of an object except its text and secrets, as a change
// that sets them. With merges, metadata is merged instead, as the self-hosted server does.
func otherMembers(doc *jsondoc.Doc, merges bool) memproxy.MemberChange {
	doc = withheld.StripDoc(doc, func(m jsondoc.Member) bool { return m.Name == "metadata" })
	c := memproxy.MemberChange{Set: map[string][]byte{}}
	for _, m := range doc.Root.Members {
		switch {
		case unversioned[m.Name], withheld.IsSecretName(m.Name), memproxy.Reserved(m.Name), m.Value.Kind == jsondoc.Null:
		case m.Name == "metadata" && m.Value.Kind == jsondoc.Object:
			kept := stamps.Object(stamps.FilterMembers(doc.Raw(m.Value), false)...)
			if merges {
				c.Merge = map[string][]byte{m.Name: kept}
			} else {
				c.Set[m.Name] = kept
			}
		default:
			c.Set[m.Name] = doc.Raw(m.Value)
		}
	}
	return c
}

// recordChanges records the request's changes to members of memories, or to settings.
func (d *decoding) recordChanges() {
	if d.doc == nil || d.doc.Root == nil || d.doc.Root.Kind != jsondoc.Object {
		return
	}
	switch {
	case d.op.Kind == memproxy.Admin && d.changesSettings():
		d.recordChange(d.req.EscapedPath, d.doc.Root)
	case d.op.Kind != memproxy.Correct:
	case d.row.Shape == batch:
		for _, entry := range d.doc.Root.Get("memories").List() {
			d.recordChange(entry.Get("memory_id").Text(), entry)
		}
	case len(d.op.Targets) == 1:
		d.recordChange(d.op.Targets[0], d.doc.Root)
	}
}

// changesSettings reports whether an administrative request changes what a GET on
// the same path shows.
func (d *decoding) changesSettings() bool {
	switch d.req.Method {
	case "PATCH", "PUT":
		return true
	case "POST":
		if d.row.Method == "*" {
			return false // the request creates an object
		}
		r, _ := d.a.routes.Match("GET", d.req.EscapedPath)
		return r != nil && r.Path == d.row.Path
	}
	return false
}

// recordChange records the changes to the members of one object, which holder contains.
func (d *decoding) recordChange(object string, holder *jsondoc.Value) {
	if object == "" || holder.Kind != jsondoc.Object {
		return
	}
	c := otherMembers(d.doc.Part(holder), d.row.Is(server))
	if len(c.Set)+len(c.Merge) > 0 {
		c.Object = object
		d.op.Changes = append(d.op.Changes, c)
	}
}

// restoreObject returns the requests that restore the metadata of a version, one for each
// dialect. They include the current text, because the server requires a text. The backend
// has no request that could restore other members.
func restoreObject(to memproxy.Version, now memproxy.Memory) []memproxy.SideRequest {
	want, err := memproxy.DecodeMembers([]byte(to.Text))
	there, unread := memproxy.DecodeMembers([]byte(now.Text))
	if err != nil || unread != nil || len(now.OtherTexts) == 0 || strings.HasPrefix(to.ID, "/") || reflect.DeepEqual(want["metadata"], there["metadata"]) {
		return nil
	}
	meta, _ := want["metadata"].(map[string]any)
	old, _ := there["metadata"].(map[string]any)
	return bothDialects("PUT", to.ID, func(merges bool) any {
		metadata := make(map[string]any, len(meta)+len(old))
		for name := range old {
			if merges {
				metadata[name] = nil // the server keeps members that are left out
			}
		}
		maps.Copy(metadata, meta)
		return map[string]any{"text": now.OtherTexts[0], "metadata": metadata}
	})
}
