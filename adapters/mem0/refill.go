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
	case r.shape == search:
		ok = limitInBody(&o, sent, body)
	case r.id == "mem0.server.list":
		o.Whole = defaultList
		ok = limitInQuery(&o, sent, "top_k")
	case r.id == "mem0.v1.list" && !strings.Contains(sent.Query, "page"):
		o.Max, o.Whole = maxPage, defaultPage
		ok = limitInQuery(&o, sent, "limit")
	case r.dialect == hosted:
		return repage(sent, body, reply, rd)
	}
	if !ok {
		return nil
	}
	return pages.New(o, reply, rd)
}

// limitInBody repeats a search with a higher limit, which is in the body.
func limitInBody(o *pages.Options, sent memproxy.Request, body []byte) bool {
	doc, err := jsondoc.Parse(body, 0)
	if err != nil || doc.Root.Kind != jsondoc.Object {
		return false
	}
	var names []string
	for _, name := range [...]string{"limit", "top_k"} { // if both are present, the server uses top_k
		v := doc.Root.Get(name)
		if v == nil {
			continue
		}
		if o.Want, err = strconv.Atoi(string(doc.Raw(v))); err != nil || o.Want <= 0 {
			return false
		}
		names = append(names, name)
	}
	if names == nil {
		names = []string{"top_k"}
	}
	o.Ask = func(n int, _ string) (memproxy.SideRequest, bool) {
		e := doc.Edit()
		var added [][]byte
		for _, name := range names {
			added = append(added, []byte(`"`+name+`":`+strconv.Itoa(n)))
		}
		e.Object(doc.Root, func(m *jsondoc.Member) bool { return slices.Contains(names, m.Name) }, added)
		return memproxy.SideRequest{Request: sent, Body: e.Apply()}, true
	}
	return true
}

// limitInQuery repeats a list with a higher limit, which is in the query.
func limitInQuery(o *pages.Options, sent memproxy.Request, name string) (ok bool) {
	o.Ask = func(n int, _ string) (memproxy.SideRequest, bool) {
		q := sent
		q.Query = pages.SetParam(sent.Query, name, strconv.Itoa(n))
		return memproxy.SideRequest{Request: q}, true
	}
	o.Want, ok = pages.Limit(sent.Query, name)
	return ok
}
