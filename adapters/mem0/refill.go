package mem0

import (
	"slices"
	"strconv"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
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

// Refill implements the gate's Refiller. Ranked and limited lists are requested again with
// a higher limit. Numbered pages are recounted without the dropped elements, unless the list
// has more than maxRepaged elements; such a list keeps short pages.
func (a *Adapter) Refill(rt memproxy.Route, sent memproxy.Request, body []byte, reply memproxy.Reply, rd *memproxy.Reading) memproxy.Refill {
	r := a.Row(rt.ID)
	if r == nil || rt.Kind != memproxy.Recall || rt.Derived {
		return nil
	}
	switch {
	case r.shape == search:
		return refillSearch(sent, body, reply, rd)
	case r.id == "mem0.server.list":
		return refillList(sent, "top_k", maxSearch, defaultList, reply, rd)
	case r.id == "mem0.v1.list" && !strings.Contains(sent.Query, "page"):
		return refillList(sent, "limit", maxPage, defaultPage, reply, rd)
	case r.dialect == hosted:
		return repage(sent, body, reply, rd)
	}
	return nil
}

// refillSearch repeats a search with a higher limit, which is in the body.
func refillSearch(sent memproxy.Request, body []byte, reply memproxy.Reply, rd *memproxy.Reading) memproxy.Refill {
	doc, err := jsondoc.Parse(body, 0)
	if err != nil || doc.Root.Kind != jsondoc.Object {
		return nil
	}
	var names []string
	want := 0
	for _, name := range [...]string{"limit", "top_k"} { // if both are present, the server uses top_k
		v := doc.Root.Get(name)
		if v == nil {
			continue
		}
		n, err := strconv.Atoi(string(doc.Raw(v)))
		if err != nil || n <= 0 {
			return nil
		}
		names, want = append(names, name), n
	}
	if names == nil {
		names = []string{"top_k"}
	}
	return pages.New(pages.Options{
		Want: want, Max: maxSearch, Keys: listKeys[:], Ranked: true, Whole: defaultSearch,
		Ask: func(n int, _ string) (memproxy.SideRequest, bool) {
			e := doc.Edit()
			var added [][]byte
			for _, name := range names {
				added = append(added, []byte(`"`+name+`":`+strconv.Itoa(n)))
			}
			e.Object(doc.Root, func(m *jsondoc.Member) bool { return slices.Contains(names, m.Name) }, added)
			return memproxy.SideRequest{Request: sent, Body: e.Apply()}, true
		},
	}, reply, rd)
}

// refillList repeats a list with a higher limit, which is in the query.
func refillList(sent memproxy.Request, name string, most, whole int, reply memproxy.Reply, rd *memproxy.Reading) memproxy.Refill {
	want, ok := pages.Limit(sent.Query, name)
	if !ok {
		return nil
	}
	return pages.New(pages.Options{
		Want: want, Max: most, Keys: listKeys[:], Ranked: true, Whole: whole,
		Ask: func(n int, _ string) (memproxy.SideRequest, bool) {
			q := sent
			q.Query = pages.SetParam(sent.Query, name, strconv.Itoa(n))
			return memproxy.SideRequest{Request: q}, true
		},
	}, reply, rd)
}
