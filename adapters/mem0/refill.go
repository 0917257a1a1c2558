package mem0

import (
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/pages"
)

// The backends' largest numbers of elements per answer, and their smallest default numbers.
const (
	maxSearch     = 1000
	maxPage       = 200
	defaultSearch = 10
	defaultList   = 20
	maxRepaged    = 4 * maxPage // length of the longest list whose pages are recounted
	defaultPage   = 100
)

// Refill implements the gate's Adapter. Ranked and limited lists are requested again with
// a higher limit. Numbered pages are recounted without the dropped elements, unless the list
// has more than maxRepaged elements; such a list keeps short pages.
func (a *Adapter) Refill(rt memproxy.Route, sent memproxy.Request, body []byte, reply memproxy.Reply, rd *memproxy.Reading) memproxy.Refill {
	r := a.Row(rt.ID)
	if rt.Kind != memproxy.Recall || rt.Derived {
		return nil
	}
	o := pages.Options{Keys: listKeys[:], Ranked: true, Max: maxSearch, Whole: defaultSearch}
	ok := false
	switch {
	case r.Shape == search:
		ok = o.LimitInBody(sent, body, "limit", "top_k") // if both are present, the server uses top_k
	case r.ID == "mem0.server.list":
		o.Whole = defaultList
		ok = o.LimitInQuery(sent, "top_k")
	case r.ID == "mem0.v1.list" && !strings.Contains(sent.Query, "page"):
		o.Max, o.Whole = maxPage, defaultPage
		ok = o.LimitInQuery(sent, "limit")
	case !r.Is(server):
		return repage(sent, body, reply, rd)
	}
	if !ok {
		return nil
	}
	return pages.New(o, reply, rd)
}
