package letta

import (
	"iter"

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
	return r.route(ps), true
}

// row finds a route's row again by its id.
func (a *Adapter) row(id string) *row { return a.rows[id] }

// Table gives every route with the method and the path that it is found by, for
// those who go through all of them.
func (a *Adapter) Table() iter.Seq2[string, memproxy.Route] {
	return func(yield func(string, memproxy.Route) bool) {
		for i := range table {
			if r := &table[i]; !yield(r.method+" "+r.path, r.route(nil)) {
				return
			}
		}
	}
}

func (r *row) route(params map[string]string) memproxy.Route {
	return memproxy.Route{
		ID: r.id, Kind: r.kind, Params: params,
		Bulk: r.is(bulk), Steering: r.is(steering), Derived: r.is(derived), Pass: r.is(pass), Public: r.is(public),
	}
}
