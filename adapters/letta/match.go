package letta

import (
	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/routetable"
)

// newRoutes lays the table out for finding. The server redirects a last slash
// away and has every path under /latest too.
func newRoutes() *routetable.Table[row] {
	return routetable.New(table[:], func(r *row) (string, string) { return r.method, r.path }, routetable.Options{Alias: map[string]string{"latest": "v1"}})
}

// Route implements the gate's adapter.
func (a *Adapter) Route(req memproxy.Request) (memproxy.Route, bool) {
	r, ps := a.routes.Match(req.Method, req.EscapedPath)
	if r == nil {
		return memproxy.Route{}, false
	}
	if ps == nil && r.shape == search {
		ps = map[string]string{} // Decode notes whose memory is searched here, for Read
	}
	return memproxy.Route{
		ID: r.id, Kind: r.kind, Params: ps,
		Bulk: r.is(bulk), Steering: r.is(steering), Derived: r.is(derived), Pass: r.is(pass),
	}, true
}

// row finds a route's row again by its id.
func (a *Adapter) row(id string) *row { return a.rows[id] }
