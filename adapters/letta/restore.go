package letta

import (
	"encoding/json"
	"net/url"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/stamps"
)

func atBlock(method, id string, body []byte) []memproxy.Search {
	if KindOf(id) != TargetBlock {
		return nil // a passage is known only with its agent, and cannot be changed
	}
	q := memproxy.Request{Method: method, EscapedPath: "/v1/blocks/" + url.PathEscape(id), Header: memproxy.Header{"X-Stainless-Package-Version": {sdkVersion}}}
	if body != nil {
		q.Header.Set("Content-Type", "application/json")
	}
	return []memproxy.Search{{Request: q, Body: body}}
}

// Find implements the gate's restorer.
func (a *Adapter) Find(k memproxy.MemoryKey) []memproxy.Search {
	if k.Kind != memproxy.TargetObject {
		return atBlock("GET", k.ID, nil)
	}
	q := memproxy.Request{Method: "GET", Header: memproxy.Header{"X-Stainless-Package-Version": {sdkVersion}}}
	if q.EscapedPath, q.Query = a.whole(memproxy.Route{}, k.ID); q.EscapedPath == "" {
		return nil
	}
	return []memproxy.Search{{Request: q}}
}

// Found implements the gate's restorer.
func (a *Adapter) Found(k memproxy.MemoryKey, reply memproxy.Reply) (memproxy.Memory, error) {
	m, err := a.Located(memproxy.Route{ID: "letta.retrieve_block", Kind: memproxy.Recall}, k.ID, reply)
	if k.Kind == memproxy.TargetObject {
		m.Text = string(m.Members)
	}
	return m, err
}

// Restore implements the gate's restorer: a block's value is put back, with a
// stamp of its own in its metadata, which the server replaces whole. A passage
// cannot be changed, so it cannot be put back either.
func (a *Adapter) Restore(to memproxy.Version, now memproxy.Memory, stamp memproxy.Stamp) []memproxy.Search {
	if to.Kind == memproxy.TargetObject {
		return a.restoreObject(to, now)
	}
	body, err := json.Marshal(struct {
		Value    string          `json:"value"`
		Metadata json.RawMessage `json:"metadata"`
	}{to.Text, stamps.Object(append(stamps.Kept(now.Metadata, false), stamps.Members(&stamp, false)...))})
	if err != nil {
		return nil
	}
	return atBlock("PATCH", to.ID, body)
}

// Remove implements the gate's restorer.
func (a *Adapter) Remove(k memproxy.MemoryKey) []memproxy.Search {
	if k.Kind == memproxy.TargetObject {
		return nil // what has members is no memory that ends by itself
	}
	return atBlock("DELETE", k.ID, nil)
}
