package letta

import (
	"net/url"
	"strconv"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
)

// maxCounted bounds the agents of one file that are asked about.
const maxCounted = 16

// Counts implements the gate's counter: a document says into how many passages
// the server took it apart, and an agent that came of a file has its blocks. Of
// a file with documents in it nobody says what became of them.
func (a *Adapter) Counts(rt memproxy.Route, req memproxy.Request, op *memproxy.Operation, ids []string) []memproxy.Request {
	r := a.row(rt.ID)
	if r == nil {
		return nil
	}
	ask := func(path, query string) memproxy.Request {
		return memproxy.Request{Method: "GET", EscapedPath: path, Query: query, Header: asSDK(req.Header), Base: req.Base}
	}
	var out []memproxy.Request
	for _, id := range ids {
		switch kind := KindOf(id); {
		case r.shape == upload && kind == TargetFile:
			folder := rt.Params["folder_id"]
			if folder == "" {
				folder = rt.Params["source_id"]
			}
			out = append(out, ask("/v1/folders/"+url.PathEscape(folder)+"/files/"+url.PathEscape(id), ""))
		case r.shape == file && kind == TargetAgent && !documents(op):
			out = append(out, ask("/v1/agents/"+url.PathEscape(id), "include=agent.blocks"))
		}
	}
	if len(out) > maxCounted {
		return nil
	}
	return out
}

// documents reports whether an agent file brings documents along.
func documents(op *memproxy.Operation) bool {
	p, ok := op.Parsed.(*payload)
	if !ok || p.doc == nil {
		return true
	}
	list := p.doc.Root.Get("files")
	return list != nil && len(list.Elems) > 0
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
	case "error": // what was embedded before it failed stays
		chunks = "chunks_embedded"
	default:
		return nil, 0, false, nil
	}
	v := root.Get(chunks)
	switch {
	case v != nil && v.Kind == jsondoc.Number:
		more, err = strconv.ParseInt(string(doc.Raw(v)), 10, 64)
	case status == "completed":
		err = errShape // an older server, which does not count
	}
	if more < 0 {
		err = errShape
	}
	return nil, more, true, err
}
