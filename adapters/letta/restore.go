package letta

import (
	"encoding/json"
	"net/url"

	"github.com/memproxy/memproxy"
)

// Restore implements the gate's restorer: a block's value is put back. A
// passage cannot be changed, so it cannot be put back either.
func (a *Adapter) Restore(to memproxy.Version) []memproxy.Search {
	if KindOf(to.ID) != TargetBlock {
		return nil
	}
	body, err := json.Marshal(map[string]string{"value": to.Text})
	if err != nil {
		return nil
	}
	return []memproxy.Search{{
		Request: memproxy.Request{Method: "PATCH", EscapedPath: "/v1/blocks/" + url.PathEscape(to.ID), Header: memproxy.Header{"Content-Type": {"application/json"}}},
		Body:    body,
	}}
}

// Remove implements the gate's restorer: a block can be deleted by its id, a
// passage only with its agent's, which is not known here.
func (a *Adapter) Remove(k memproxy.MemoryKey) []memproxy.Search {
	if KindOf(k.ID) != TargetBlock {
		return nil
	}
	return []memproxy.Search{{Request: memproxy.Request{Method: "DELETE", EscapedPath: "/v1/blocks/" + url.PathEscape(k.ID)}}}
}
