package letta

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/pages"
)

// The server's largest numbers of elements per answer, and its smallest default numbers,
// for lists and for searches.
const (
	maxList       = 1000
	maxSearch     = 100
	defaultList   = 50
	defaultSearch = 5
)

// Refill implements the gate's Adapter: lists continue after their last element, and
// searches are repeated with a higher limit. A list that pages backwards is not refilled,
// because the server returns the start of the range before the cursor, not its end.
func (a *Adapter) Refill(rt memproxy.Route, sent memproxy.Request, body []byte, reply memproxy.Reply, rd *memproxy.Reading) memproxy.Refill {
	r := a.Row(rt.ID)
	if rt.Kind != memproxy.Recall || rt.Derived || r.Is(inside) {
		return nil
	}
	o := pages.Options{
		Keys: listKeys[:], SharedIDs: slices.ContainsFunc(rd.Memories, func(m memproxy.Memory) bool { return KindOf(m.ID) == TargetMessage }),
		Ranked: true, Max: maxSearch, Whole: defaultSearch, // a search's
	}
	ok := false
	switch {
	case r.ID == "letta.search_archival_memory":
		ok = o.LimitInQuery(sent, "top_k")
	case r.Shape == search:
		ok = o.LimitInBody(sent, body, "limit")
	case r.Shape == bare && sent.Method == "GET":
		_, backwards := pages.Param(sent.Query, "before")
		o.Ranked, o.Max, o.Whole = false, maxList, defaultList
		ok = o.LimitInQuery(sent, "limit") && !backwards
	}
	if !ok {
		return nil
	}
	return pages.New(o, reply, rd)
}

// Counts implements the gate's AgentRunner: the server reports the number of passages of an
// uploaded document.
func (a *Adapter) Counts(rt memproxy.Route, req memproxy.Request, ids []string) []memproxy.Request {
	if a.Row(rt.ID).Shape != upload {
		return nil
	}
	folder := cmp.Or(rt.Params["folder_id"], rt.Params["source_id"])
	var out []memproxy.Request
	for _, id := range ids {
		if KindOf(id) == TargetFile {
			out = append(out, sideRequest(req, "GET", "/v1/folders/"+url.PathEscape(folder)+"/files/"+url.PathEscape(id), ""))
		}
	}
	return out
}

// ReadCount implements the gate's AgentRunner.
func (a *Adapter) ReadCount(reply memproxy.Reply) (more int64, over bool, err error) {
	if reply.Status == 404 {
		return 0, true, nil
	}
	doc, err := jsondoc.Parse(reply.Body, 0)
	if err != nil {
		return 0, false, err
	}
	if doc.Root.Kind != jsondoc.Object {
		return 0, false, errShape
	}
	status, chunks := doc.Root.Get("processing_status").Text(), "total_chunks"
	switch status {
	case "completed":
	case "error": // chunks that were embedded before the failure remain stored
		chunks = "chunks_embedded"
	default:
		return 0, false, nil
	}
	v := nonNull(doc.Root.Get(chunks))
	more, counted := doc.Int(v)
	if more < 0 || !counted && (v != nil || status == "completed") { // older servers do not count
		err = errShape
	}
	return more, true, err
}

// maxWholes bounds the side requests for the agents of one file.
const maxWholes = 64

// ObjectRequests implements the gate's AgentRunner: the answer to an import has only the ids
// of its agents, so each agent is requested. all is false if there are too many agents, or
// if the file has documents, because no answer reports the number of their passages.
func (a *Adapter) ObjectRequests(rt memproxy.Route, req memproxy.Request, op *memproxy.Operation, rd *memproxy.Reading) (asks []memproxy.Request, all bool) {
	if a.Row(rt.ID).Shape != file {
		return nil, false
	}
	for i := range rd.Memories {
		if id := rd.Memories[i].ID; KindOf(id) == TargetAgent && len(asks) < maxWholes {
			asks = append(asks, sideRequest(req, "GET", "/v1/agents/"+url.PathEscape(id), included+"&include=agent.managed_group"))
		}
	}
	p, ok := op.Parsed.(*payload)
	return asks, ok && p.doc != nil && len(p.doc.Root.Get("files").List()) == 0 && len(asks) < maxWholes
}

// ReadObject implements the gate's AgentRunner.
func (a *Adapter) ReadObject(reply memproxy.Reply) (*memproxy.Reading, error) {
	if reply.Status != 200 {
		return nil, fmt.Errorf("letta: the request for an agent returned status %d", reply.Status)
	}
	doc, err := jsondoc.Parse(reply.Body, 0)
	if err != nil {
		return nil, err
	}
	agent, blocks := doc.Root.Get("id").Text(), doc.Root.Get("blocks")
	if KindOf(agent) != TargetAgent || blocks == nil || blocks.Kind != jsondoc.Array {
		return nil, errShape
	}
	f := answerReader{rd: &memproxy.Reading{}, doc: doc}
	f.blocks("", agent)
	f.group(doc.Root)
	for _, e := range doc.Root.Get("sources").List() {
		f.recordUnowned(e.Get("id").Text(), agent)
	}
	return f.rd, nil
}
