package mem0

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/pages"
)

var errLong = errors.New("mem0: the list could not be read to its end")

// repaged is one page of a list, counted without the dropped elements: page 2 begins where
// page 1 ends, whatever was dropped, so that pages do not reveal how many memories of other
// owners are in between. Each time the list is read from its beginning.
type repaged struct {
	sent     memproxy.Request
	body     []byte
	from, to int               // the page, as a range of the elements that are not dropped
	first    *memproxy.Reading // reading of the answer that is replaced
	count    int               // length of the list, according to the backend
	page     int               // number of the next page
	complete bool
	seen     int // number of elements read so far
	shown    int // number of those that were not dropped
}

// repage returns the refill that recounts a page. It returns nil if that is not needed (the
// list has one page, or this is the first page, nothing is dropped and the list has no
// memories of owners that the caller may not see) or not possible (the list is too long).
func repage(sent memproxy.Request, body []byte, reply memproxy.Reply, rd *memproxy.Reading) memproxy.Refill {
	doc, _, _, err := pages.List(reply.Body, "results")
	if err != nil {
		return nil
	}
	count, err := strconv.Atoi(string(doc.Raw(doc.Root.Get("count"))))
	if err != nil {
		return nil
	}
	asked := &jsondoc.Doc{}
	if len(body) > 0 {
		if asked, err = jsondoc.Parse(body, 0); err != nil {
			return nil
		}
	}
	page, size := number(sent.Query, asked, "page", 1), number(sent.Query, asked, "page_size", number(sent.Query, asked, "limit", defaultPage))
	left := slices.ContainsFunc(rd.Memories, func(m memproxy.Memory) bool { return m.Drop })
	if page < 1 || size < 1 || count > maxRepaged || count <= size || page == 1 && !left && !rd.CountsOthers && !rd.Limited {
		return nil
	}
	return &repaged{sent: sent, body: body, from: (page - 1) * size, to: page * size, first: rd, count: count, page: 1}
}

// number returns a number in the query, else in what the body asked, else otherwise; 0 if it
// cannot be parsed.
func number(query string, asked *jsondoc.Doc, name string, otherwise int) int {
	text, said := pages.Param(query, name)
	if v := asked.Root.Get(name); !said && v != nil {
		text, said = string(asked.Raw(v)), true
		if v.Kind == jsondoc.String {
			text = v.Text()
		}
	}
	if !said {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0
	}
	return n
}

// Next implements memproxy.Refill.
func (p *repaged) Next() (memproxy.SideRequest, bool) {
	if p.complete || p.page > maxRepaged/maxPage {
		return memproxy.SideRequest{}, false
	}
	q := p.sent
	q.Query = pages.SetParam(pages.SetParam(q.Query, "page", strconv.Itoa(p.page)), "page_size", strconv.Itoa(maxPage))
	if _, said := pages.Param(q.Query, "limit"); said {
		q.Query = pages.SetParam(q.Query, "limit", strconv.Itoa(maxPage))
	}
	p.page++
	return memproxy.SideRequest{Request: q, Body: p.body}, true
}

// Select implements memproxy.Refill.
func (p *repaged) Select(reply memproxy.Reply, rd *memproxy.Reading) error {
	_, list, _, err := pages.List(reply.Body, "results")
	if err != nil {
		return err
	}
	p.seen += len(list.Elems)
	p.complete = len(list.Elems) == 0 || p.seen >= p.count
	out := false
	for i := range rd.Memories {
		m := &rd.Memories[i]
		switch inner := strings.Count(m.Pointer, "/") > 2; { // a result inside of an event
		case inner:
			m.Drop = m.Drop || out
			continue
		case !m.Drop:
			m.Drop = p.shown < p.from || p.shown >= p.to
			p.shown++
		}
		out = m.Drop
	}
	return nil
}

// Answer implements memproxy.Refill. A page behind the end is answered like the platform
// answers one behind its own end, or is empty if the first page may not have been recounted,
// which then has a link to it. If the list could not be read to its end, the backend's page
// is kept.
func (p *repaged) Answer(reply memproxy.Reply, rewritten [][]byte) (memproxy.Reply, error) {
	raws, err := pages.Elements(rewritten, "results")
	if err != nil {
		return reply, err
	}
	doc, list, _, err := pages.List(reply.Body, "results")
	if err != nil {
		return reply, err
	}
	count, next := doc.Root.Get("count"), doc.Root.Get("next")
	if !p.complete || count == nil { // a count that no row claims was left out
		return reply, errLong
	}
	e := doc.Edit()
	e.Replace(list, jsondoc.ListOf(raws))
	e.Replace(count, strconv.AppendInt(nil, int64(p.shown), 10))
	if next != nil && p.to >= p.shown {
		e.Replace(next, []byte("null"))
	}
	for i := range p.first.Memories {
		p.first.Memories[i].Drop = true // the elements to show were read again
	}
	reply.Body = e.Apply()
	if p.from > 0 && p.from >= p.shown && (p.first.CountsOthers || p.first.Limited) {
		reply.Status, reply.Body = 404, []byte(`{"detail":"Invalid page."}`)
	}
	return reply, nil
}
