package mem0

import (
	"encoding/json"
	"net/url"

	"github.com/memproxy/memproxy"
)

// Restore implements the gate's restorer: a memory is updated to the text that
// it had, on the server's route or on the platform's.
func (a *Adapter) Restore(to memproxy.Version) []memproxy.Search {
	if to.ID == "" || to.Text == "" {
		return nil
	}
	body, err := json.Marshal(map[string]string{"text": to.Text})
	if err != nil {
		return nil
	}
	header := memproxy.Header{"Content-Type": {"application/json"}}
	id := url.PathEscape(to.ID)
	return []memproxy.Search{
		{Request: memproxy.Request{Method: "PUT", EscapedPath: "/memories/" + id, Header: header}, Body: body},
		{Request: memproxy.Request{Method: "PUT", EscapedPath: "/v1/memories/" + id + "/", Header: header}, Body: body},
	}
}

// Remove implements the gate's restorer.
func (a *Adapter) Remove(k memproxy.MemoryKey) []memproxy.Search {
	if k.ID == "" {
		return nil
	}
	id := url.PathEscape(k.ID)
	return []memproxy.Search{
		{Request: memproxy.Request{Method: "DELETE", EscapedPath: "/memories/" + id}},
		{Request: memproxy.Request{Method: "DELETE", EscapedPath: "/v1/memories/" + id + "/"}},
	}
}
