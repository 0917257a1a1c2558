package mem0

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
)

// Locate implements the gate's locator.
func (a *Adapter) Locate(rt memproxy.Route, req memproxy.Request, target string) memproxy.Request {
	out := memproxy.Request{Method: "GET", Header: req.Header, Base: req.Base}
	r := a.Row(rt.ID)
	switch {
	case strings.HasPrefix(target, "/"): // the target of settings is their path
		out.EscapedPath = target
	case rt.Params["job"] == target && target != "":
		return memproxy.Request{} // no route returns its owner
	case isEvent(r, rt, target):
		out.EscapedPath = "/v1/event/" + url.PathEscape(target) + "/"
	default:
		out.EscapedPath = pathOf(r.Is(server), target)
	}
	return out
}

// isEvent reports whether a target is the event that a request names, and not a memory among
// its results.
func isEvent(r *row, rt memproxy.Route, target string) bool {
	return r.Shape == event && rt.Params["id"] == target
}

// ReadLocated implements the gate's locator. The server answers null for a missing memory.
func (a *Adapter) ReadLocated(rt memproxy.Route, target string, reply memproxy.Reply) (memproxy.Memory, error) {
	switch {
	case reply.Status == 404 || reply.Status == 400 || reply.Status == 422:
		return memproxy.Memory{ID: target, Missing: true}, nil // 400 and 422: the id is malformed
	case !memproxy.IsSuccess(reply.Status):
		return memproxy.Memory{}, fmt.Errorf("mem0: the backend returned status %d", reply.Status)
	}
	if strings.HasPrefix(target, "/") {
		return memproxy.Memory{ID: target, Members: versionedMembers(reply.Body)}, nil
	}
	look := memproxy.Route{ID: "mem0.v1.get", Kind: memproxy.Recall}
	if isEvent(a.Row(rt.ID), rt, target) {
		look.ID = "mem0.v1.event"
	}
	rd, err := a.Read(look, memproxy.Request{}, reply)
	if err != nil {
		return memproxy.Memory{}, err
	}
	if len(rd.Memories) != 1 {
		return memproxy.Memory{}, errors.New("mem0: the backend's response is not a single memory")
	}
	m := rd.Memories[0]
	if m.ID != "" && !strings.EqualFold(m.ID, target) {
		return memproxy.Memory{}, errors.New("mem0: the backend returned a different memory than requested")
	}
	m.Members = versionedMembers(reply.Body)
	return m, nil
}

// Merges implements the gate's Locator: it reports whether a change needs the current
// memory. The platform replaces metadata, so an update without metadata must include the
// current metadata. In both dialects the memory and not the payload determines the field
// that an update writes to.
func (a *Adapter) Merges(rt memproxy.Route, op *memproxy.Operation) bool {
	return changes(a.Row(rt.ID))
}

// smallList is the shortest limit of an unpaged list, and wideList the limit that
// StampSearchRequest requests. A list with exactly smallList or at least wideList memories
// may be incomplete.
const smallList, wideList = 100, 1000

var errFull = errors.New("mem0: the backend has more memories than one list response contains")

// StampSearchRequest implements the gate's Extractor. It lists the memories of an addition's
// scope: every memory made from the addition has its stamp in the metadata.
func (a *Adapter) StampSearchRequest(rt memproxy.Route, req memproxy.Request, op *memproxy.Operation, page int) (memproxy.Request, bool) {
	path, q := "/v1/memories/", url.Values{"page": {strconv.Itoa(page)}, "page_size": {strconv.Itoa(maxPage)}}
	switch rt.ID {
	case "mem0.v3.add", "mem0.v1.add":
	case "mem0.server.add":
		path, q = "/memories", url.Values{"top_k": {strconv.Itoa(wideList)}}
	default:
		return memproxy.Request{}, false
	}
	own := len(q)
	for key, value := range map[string]string{"user_id": op.Scope.User, "agent_id": op.Scope.Agent, "app_id": op.Scope.App, "run_id": op.Scope.Run} {
		if value != "" {
			q.Set(key, value)
		}
	}
	if len(q) == own {
		return memproxy.Request{}, false
	}
	return memproxy.Request{Method: "GET", EscapedPath: path, Query: q.Encode(), Header: req.Header, Base: req.Base}, true
}

// ReadStampSearch implements the gate's Extractor.
func (a *Adapter) ReadStampSearch(reply memproxy.Reply, decision string) (ids []string, of int, more bool, err error) {
	rd, err := a.Read(memproxy.Route{Kind: memproxy.Recall}, memproxy.Request{}, reply)
	if err != nil {
		return nil, 0, false, err
	}
	ids = []string{}
	for i := range rd.Memories {
		if m := &rd.Memories[i]; m.Stamp != nil && m.Stamp.ID == decision {
			ids = append(ids, m.ID)
		}
	}
	if doc, err := jsondoc.Parse(reply.Body, 0); err == nil && doc.Root.Kind == jsondoc.Object && doc.Root.Get("next") != nil {
		of, err = strconv.Atoi(string(doc.Raw(doc.Root.Get("count"))))
		return ids, of, doc.Root.Get("next").Kind == jsondoc.String, err
	}
	if n := len(rd.Memories); len(ids) == 0 && (n == smallList || n >= wideList) {
		return nil, 0, false, errFull
	}
	return ids, 0, false, nil
}
