package mem0

import (
	"iter"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/routetable"
)

// newRoutes lays the table out for finding. Mem0's servers tell paths apart by
// their last slash.
func newRoutes() *routetable.Table[row] {
	return routetable.New(table[:], func(r *row) (string, string) { return r.method, r.path }, routetable.Options{LastSlash: true})
}

// Route implements the gate's adapter.
func (a *Adapter) Route(req memproxy.Request) (memproxy.Route, bool) {
	r, ps := a.routes.Match(req.Method, req.EscapedPath)
	if r == nil {
		return memproxy.Route{}, false
	}
	if ps == nil && (r.shape == search || r.shape == list) {
		ps = map[string]string{} // Decode notes the projection here, for Rewrite
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
		Bulk: r.flags&bulk != 0, Steering: r.flags&steering != 0, Derived: r.flags&derived != 0, Pass: r.flags&pass != 0, Public: r.flags&public != 0,
	}
}
