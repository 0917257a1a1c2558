package letta

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/pages"
)

// Numbers of elements that the server returns: at most, and at least if the request
// sets no limit.
const (
	maxList    = 1000
	maxSearch  = 100
	someList   = 50
	someSearch = 5
)

// Refill implements the gate's refiller: lists continue after their last element,
// searches are repeated with a higher limit. A list that pages backwards is not
// refilled: the server returns the start of the range before the cursor, not its end.
func (a *Adapter) Refill(rt memproxy.Route, sent memproxy.Request, body []byte, reply memproxy.Reply, rd *memproxy.Reading) memproxy.Refill {
	r := a.Row(rt.ID)
	if r == nil || rt.Kind != memproxy.Recall || rt.Derived || r.is(inside) {
		return nil
	}
	o := pages.Options{Keys: listKeys[:], Emptied: slices.ContainsFunc(rd.Memories, func(m memproxy.Memory) bool { return KindOf(m.ID) == TargetMessage })}
	var ok bool
	switch {
	case r.id == "letta.search_archival_memory":
		ok = again(&o, sent)
	case r.shape == search:
		ok = longer(&o, sent, body)
	case r.shape == bare && sent.Method == "GET":
		ok = onwards(&o, sent)
	}
	if !ok {
		return nil
	}
	return pages.New(o, reply, rd)
}

// onwards continues a list by its cursor.
func onwards(o *pages.Options, sent memproxy.Request) (ok bool) {
	if _, backwards := pages.Param(sent.Query, "before"); backwards {
		return false
	}
	o.Max, o.Whole = maxList, someList
	o.Ask = func(n int, after string) (memproxy.SideRequest, bool) {
		q := sent
		q.Query = pages.With(pages.With(q.Query, "after", after), "limit", strconv.Itoa(n))
		return memproxy.SideRequest{Request: q}, after != ""
	}
	o.Want, ok = pages.Limit(sent.Query, "limit")
	return ok
}

// again repeats a search whose limit is in the query.
func again(o *pages.Options, sent memproxy.Request) (ok bool) {
	o.Again, o.Max, o.Whole = true, maxSearch, someSearch
	o.Ask = func(n int, _ string) (memproxy.SideRequest, bool) {
		q := sent
		q.Query = pages.With(q.Query, "top_k", strconv.Itoa(n))
		return memproxy.SideRequest{Request: q}, true
	}
	o.Want, ok = pages.Limit(sent.Query, "top_k")
	return ok
}

// longer repeats a search whose limit is in the body.
func longer(o *pages.Options, sent memproxy.Request, body []byte) bool {
	doc, err := jsondoc.Parse(body, 0)
	if err != nil || doc.Root.Kind != jsondoc.Object {
		return false
	}
	if v := doc.Root.Get("limit"); given(v) != nil {
		if o.Want, err = strconv.Atoi(string(doc.Raw(v))); err != nil || o.Want <= 0 {
			return false
		}
	}
	o.Again, o.Max, o.Whole = true, maxSearch, someSearch
	o.Ask = func(n int, _ string) (memproxy.SideRequest, bool) {
		e := doc.Edit()
		e.Object(doc.Root, func(name string) bool { return name == "limit" }, [][]byte{[]byte(`"limit":` + strconv.Itoa(n))})
		return memproxy.SideRequest{Request: sent, Body: e.Apply()}, true
	}
	return true
}

// maxCounted bounds the side requests that count the result of one write.
const maxCounted = 16

// Counts implements the gate's counter: the server reports the number of passages of an
// uploaded document, and the blocks of an imported agent. It reports no number for an
// agent file that contains documents.
func (a *Adapter) Counts(rt memproxy.Route, req memproxy.Request, op *memproxy.Operation, ids []string) []memproxy.Request {
	r := a.Row(rt.ID)
	if r == nil {
		return nil
	}
	var out []memproxy.Request
	for _, id := range ids {
		switch kind := KindOf(id); {
		case r.shape == upload && kind == TargetFile:
			folder := cmp.Or(rt.Params["folder_id"], rt.Params["source_id"])
			out = append(out, side(req, "GET", "/v1/folders/"+url.PathEscape(folder)+"/files/"+url.PathEscape(id), ""))
		case r.shape == file && kind == TargetAgent && !documents(op):
			out = append(out, side(req, "GET", "/v1/agents/"+url.PathEscape(id), "include=agent.blocks"))
		}
	}
	if len(out) > maxCounted {
		return nil
	}
	return out
}

// documents reports whether an agent file contains documents.
func documents(op *memproxy.Operation) bool {
	p, ok := op.Parsed.(*payload)
	if !ok || p.doc == nil {
		return true
	}
	return len(p.doc.Root.Get("files").List()) > 0
}

// Counted implements the gate's counter.
func (a *Adapter) Counted(reply memproxy.Reply) (ids []string, more int64, over bool, err error) {
	if reply.Status == 404 {
		return nil, 0, true, nil
	}
	doc, err := jsondoc.Parse(reply.Body, 0)
	if err != nil {
		return nil, 0, false, err
	}
	root := doc.Root
	if root.Kind != jsondoc.Object {
		return nil, 0, false, errShape
	}
	if KindOf(root.Get("id").Text()) == TargetAgent {
		blocks := root.Get("blocks")
		if blocks == nil || blocks.Kind != jsondoc.Array {
			return nil, 0, false, errShape
		}
		for _, e := range blocks.Elems {
			ids = append(ids, e.Get("id").Text())
		}
		return ids, 0, true, nil
	}
	status := root.Get("processing_status").Text()
	chunks := "total_chunks"
	switch status {
	case "completed":
	case "error": // chunks that were embedded before the failure stay
		chunks = "chunks_embedded"
	default:
		return nil, 0, false, nil
	}
	v := root.Get(chunks)
	switch {
	case v != nil && v.Kind == jsondoc.Number:
		more, err = strconv.ParseInt(string(doc.Raw(v)), 10, 64)
	case status == "completed":
		err = errShape // an older server without counts
	}
	if more < 0 {
		err = errShape
	}
	return nil, more, true, err
}
