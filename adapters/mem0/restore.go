package mem0

import (
	"encoding/json"
	"net/url"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/stamps"
)

// pathOf returns the path of a memory on the self-hosted server, else on the platform.
func pathOf(selfHosted bool, id string) string {
	if selfHosted {
		return "/memories/" + url.PathEscape(id)
	}
	return "/v1/memories/" + url.PathEscape(id) + "/"
}

// bothDialects returns a request in the server's dialect, which merges metadata, and one in
// the platform's, with the bodies that body returns unless it is nil.
func bothDialects(method, id string, body func(merges bool) any) []memproxy.SideRequest {
	if id == "" {
		return nil
	}
	var out []memproxy.SideRequest
	for _, selfHosted := range [...]bool{true, false} {
		s := memproxy.SideRequest{Request: memproxy.Request{Method: method, EscapedPath: pathOf(selfHosted, id)}}
		if body != nil {
			s.Body, _ = json.Marshal(body(selfHosted)) // texts and JSON always marshal
			s.Request.Header = memproxy.Header{"Content-Type": {"application/json"}}
		}
		out = append(out, s)
	}
	return out
}

// FindRequests implements the gate's restorer.
func (a *Adapter) FindRequests(k memproxy.MemoryKey) []memproxy.SideRequest {
	return bothDialects("GET", k.ID, nil)
}

// Restore implements the gate's Restorer: it updates a memory to the text of the version,
// with the memory's current metadata and a new stamp. The platform replaces metadata, so
// all of it is sent. If the version has another field than the memory, or none, the
// field is restored too, so that a text is never filed where it was not admitted.
func (a *Adapter) Restore(to memproxy.Version, now memproxy.Memory, stamp memproxy.Stamp) []memproxy.SideRequest {
	if to.Kind == memproxy.TargetObject {
		return restoreObject(to, now)
	}
	if to.Text == "" {
		return nil
	}
	return bothDialects("PUT", to.ID, func(merges bool) any {
		return struct {
			Text     string          `json:"text"`
			Metadata json.RawMessage `json:"metadata"`
		}{to.Text, stamps.Object(append(filedAs(a.opt.FieldKey, to.Field, now, merges), stamps.Members(&stamp, merges))...)}
	})
}

// filedAs returns a memory's own metadata with the field of the version. With merges, other
// names of the field are set to null, because the server would keep them otherwise.
func filedAs(own, field string, now memproxy.Memory, merges bool) [][]byte {
	kept, members := stamps.Filter(now.Metadata, false)
	if memproxy.Key(field) == memproxy.Key(now.Field) && len(now.OtherFields) == 0 {
		return kept
	}
	var out [][]byte
	if field != "" {
		out = append(out, append(append(jsondoc.Quote(own), ':'), jsondoc.Quote(field)...))
	}
	for i, m := range members {
		switch {
		case m.Name == own && field != "":
		case !isFieldKey(own, m.Name):
			out = append(out, kept[i])
		case merges:
			out = append(out, append(jsondoc.Quote(m.Name), ":null"...))
		}
	}
	return out
}

// Remove implements the gate's restorer.
func (a *Adapter) Remove(k memproxy.MemoryKey) []memproxy.SideRequest {
	if k.Kind == memproxy.TargetObject {
		return nil // only memories are removed
	}
	return bothDialects("DELETE", k.ID, nil)
}
