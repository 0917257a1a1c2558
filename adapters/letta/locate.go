package letta

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/letta/selfedit"
	"github.com/memproxy/memproxy/adapters/letta/turn"
	"github.com/memproxy/memproxy/adapters/withheld"
)

// Locate implements the gate's locator.
func (a *Adapter) Locate(rt memproxy.Route, req memproxy.Request, target string) memproxy.Request {
	out := sideRequest(req, "GET", "", "")
	r := a.Row(rt.ID)
	kind := KindOf(target)
	named := (inPath(rt, target) || kind == TargetLabel) && (rt.Params["file_id"] == "" || kind == TargetFile)
	if r.Is(itself) && named && (req.Method == "GET" || req.Method == "HEAD") {
		out.EscapedPath = req.EscapedPath
		return out
	}
	if strings.HasPrefix(target, "/") { // the target of an object without an id is its path
		out.EscapedPath, out.Query, _ = strings.Cut(target, "?")
		return out
	}
	out.EscapedPath, out.Query = locationOf(rt, target)
	switch r.Kind {
	case memproxy.Correct, memproxy.Attach, memproxy.Forget, memproxy.Admin:
		out.EscapedPath, out.Query = fullLocationOf(rt, target)
	}
	return out
}

// fullLocationOf returns the location at which the server returns a target with all
// members that can be changed.
func fullLocationOf(rt memproxy.Route, target string) (path, query string) {
	path, query = locationOf(rt, target)
	if KindOf(target) == TargetAgent {
		query = included
	}
	return path, query
}

// locationOf returns the path and query at which the server returns a target, or "" if the
// server has no such route.
func locationOf(rt memproxy.Route, target string) (path, query string) {
	id := url.PathEscape(target)
	agent := url.PathEscape(rt.Params["agent_id"])
	switch kind := KindOf(target); kind {
	case TargetLabel:
		name, label, _ := strings.Cut(target, "/")
		return "/v1/agents/" + url.PathEscape(name) + "/core-memory/blocks/" + url.PathEscape(label), ""
	case TargetPassage: // the server has no route for one passage
		switch archive := rt.Params["archive_id"]; {
		case !inPath(rt, target):
			return "", ""
		case archive != "":
			return "/v1/archives/" + url.PathEscape(archive), ""
		case agent != "":
			return "/v1/agents/" + agent + "/archival-memory", turn.NewestPassages
		}
	case TargetFile:
		folder := cmp.Or(rt.Params["folder_id"], rt.Params["source_id"])
		switch {
		case !inPath(rt, target):
			return "", ""
		case folder != "":
			return "/v1/folders/" + url.PathEscape(folder) + "/files/" + id, ""
		case agent != "": // a file that the agent opened
			return "/v1/agents/" + agent + "/files", ""
		}
	case TargetIdentity:
		return "/v1/identities/" + id, ""
	case TargetJob:
		if rt.Params["run_id"] == target { // in older servers runs are jobs
			return "/v1/runs/" + id, ""
		}
		return "/v1/jobs/" + id, ""
	case TargetAgent, TargetBlock, TargetArchive, TargetConversation, TargetFolder, TargetGroup, TargetMessage, TargetRun, TargetStep, TargetTool:
		return "/v1/" + string(kind) + "s/" + id, ""
	}
	return "", ""
}

func inPath(rt memproxy.Route, target string) bool {
	return slices.Contains(slices.Collect(maps.Values(rt.Params)), target)
}

// sideRequest returns a request that memproxy makes itself, with the headers of the
// caller's request, if there is one.
func sideRequest(of memproxy.Request, method, path, query string) memproxy.Request {
	h := make(memproxy.Header, len(of.Header)+1)
	maps.Copy(h, of.Header)
	h.Set("X-Stainless-Package-Version", turn.SDKVersion)
	return memproxy.Request{Method: method, EscapedPath: path, Query: query, Header: h, Base: of.Base}
}

// ReadLocated implements the gate's locator. A passage or a file counts as existing without a
// known owner if it is not in the listed page, and a file also if the server answers 500.
func (a *Adapter) ReadLocated(rt memproxy.Route, target string, reply memproxy.Reply) (memproxy.Memory, error) {
	switch {
	case reply.Status == 404 || reply.Status == 422 || reply.Status == 400:
		return memproxy.Memory{ID: target, Missing: true}, nil // 400 and 422: the id is malformed
	case reply.Status == 500 && KindOf(target) == TargetFile:
		return memproxy.Memory{ID: target}, nil // the V1 server (0.16.8) answers 500 for a file that does not exist, in any folder
	case !memproxy.IsSuccess(reply.Status):
		return memproxy.Memory{}, fmt.Errorf("letta: the backend returned status %d", reply.Status)
	}
	doc, err := jsondoc.Parse(reply.Body, 0)
	if err != nil {
		return memproxy.Memory{}, err
	}
	doc = withheld.StripDoc(doc, keptMembers(true))
	f := answerReader{rd: &memproxy.Reading{}, doc: doc, row: a.Row(rt.ID), bodies: a.bodies}
	switch kind := KindOf(target); kind {
	case TargetPassage:
		if archive := rt.Params["archive_id"]; archive != "" {
			return memproxy.Memory{ID: target, Parents: appendParent(nil, archive, ""), Unproven: true}, nil
		}
		f.agent = rt.Params["agent_id"]
		return f.inList(target)
	case TargetMessage:
		return f.inList(target)
	case TargetFile:
		if doc.Root.Kind != jsondoc.Object || doc.Root.Get("id") == nil {
			f.agent = rt.Params["agent_id"]
			return f.inList(target)
		}
	case TargetLabel:
		f.agent, _, _ = strings.Cut(target, "/")
		return f.single("", target)
	}
	if key, keyed := strings.CutPrefix(target, byKey); keyed {
		return f.byIdentifierKey(key, target)
	}
	if strings.HasPrefix(target, "/") {
		return f.single("", target)
	}
	return f.single(target, target)
}

func (f *answerReader) inList(target string) (memproxy.Memory, error) {
	list := f.doc.Root
	if v := list.Get("files"); v != nil {
		list = v
	}
	for _, e := range list.Elems {
		if e.Get("id").Text() == target || e.Get("file_id").Text() == target {
			m := f.memory(e, "")
			m.ID, m.Members = target, f.bodies.versioned(objectKind(target), e, f.doc)
			return m, nil
		}
	}
	return memproxy.Memory{ID: target}, nil
}

// byKey is the location of the identities with a key, up to the key.
const byKey = "/v1/identities/?identifier_key="

// byIdentifierKey finds the identity that has a key. Several identities with the key, in
// different projects, are an error, because it is unknown which one the server would use.
func (f *answerReader) byIdentifierKey(key, target string) (m memproxy.Memory, err error) {
	m = memproxy.Memory{ID: target, Missing: true}
	for _, e := range f.doc.Root.Elems {
		switch {
		case url.QueryEscape(e.Get("identifier_key").Text()) != key:
		case !m.Missing:
			return m, errors.New("letta: the identifier key belongs to more than one identity")
		default:
			m = f.memory(e, "")
			m.Members = f.bodies.versioned(objectKind(m.ID), e, f.doc)
		}
	}
	return m, nil
}

// single reads an answer with one object, which must be the requested one.
func (f *answerReader) single(id, target string) (memproxy.Memory, error) {
	root := f.doc.Root
	if root.Kind != jsondoc.Object {
		return memproxy.Memory{}, errors.New("letta: the backend's response is not a single object")
	}
	m := f.memory(root, "")
	if id != "" && m.ID != "" && m.ID != id {
		return memproxy.Memory{}, errors.New("letta: the backend returned a different object than the requested " + string(KindOf(target)))
	}
	kind := objectKind(target)
	if target == "" || kind == "server" {
		kind = objectKind(m.ID)
		if kind == "server" {
			kind = objectOf(f.row)
		}
	}
	m.Members = f.bodies.versioned(kind, root, f.doc)
	return m, nil
}

// Merges implements the gate's locator: it reports whether a change needs the current
// object. The server replaces metadata as a whole and no longer enforces the limits of
// blocks, and a request that names a block by its id does not contain the block's label.
func (a *Adapter) Merges(rt memproxy.Route, op *memproxy.Operation) bool {
	r := a.Row(rt.ID)
	p, ok := op.Parsed.(*payload)
	if r.Kind != memproxy.Correct || !r.Is(stamped) || !ok || p.doc == nil {
		return false
	}
	root := p.doc.Root
	if r.Shape == block && (rt.Params["label"] == "" || nonNull(root.Get("label")) != nil || nonNull(root.Get("value")) != nil) {
		return true
	}
	return nonNull(root.Get("metadata")) != nil
}

// checkCurrentLimit checks a new text against the block's current limit, unless the change
// sets another limit.
func checkCurrentLimit(r *row, root *jsondoc.Value, op *memproxy.Operation) error {
	if r.Shape != block || op.Kind != memproxy.Correct || len(op.Targets) == 0 {
		return nil
	}
	value, limit := nonNull(root.Get("value")), op.Current[op.Targets[0]].Limit
	if value == nil || limit == 0 || nonNull(root.Get("limit")) != nil {
		return nil
	}
	return checkLimit(value.Text(), int64(limit), "/value")
}

// readToolResult reads whether a tool failed, and the result of a search tool: a list of
// passages, or an object with messages, which have no ids here. A result that is a string
// cannot be filtered and is errShape.
func readToolResult(rd *memproxy.Reading, rt memproxy.Route, body []byte) error {
	doc, err := jsondoc.Parse(body, 0)
	if err != nil {
		return err
	}
	rd.Failed = doc.Root.Get("status").Text() == "error"
	if selfedit.Tools[rt.Params["tool_name"]].Uses != selfedit.Memories {
		return nil
	}
	f := answerReader{rd: rd, doc: doc, agent: rt.Params["agent_id"]}
	switch v := doc.Root.Get("func_return"); {
	case v == nil || v.Kind == jsondoc.Null:
		return nil
	case v.Kind == jsondoc.Array:
		return v.Each("/func_return", f.element)
	case v.Kind == jsondoc.Object:
		if list := v.Get("results"); list != nil && list.Kind == jsondoc.Array {
			return list.Each("/func_return/results", f.element)
		}
	}
	return errShape
}

// parents returns the objects that an object is part of, in addition to within.
func parents(v *jsondoc.Value, within []memproxy.Ref) []memproxy.Ref {
	out := within[:len(within):len(within)]
	self := v.Get("id").Text()
	for _, name := range nameLists["parents"] {
		out = appendParent(out, v.Get(name).Text(), self)
	}
	if KindOf(self) == TargetGroup { // a group belongs to its agents
		for _, e := range v.Get("agent_ids").List() {
			out = appendParent(out, e.Text(), self)
		}
	}
	if KindOf(self) == TargetJob { // the job of an upload
		out = appendParent(out, v.Get("metadata").Get("source_id").Text(), self)
	}
	return out
}

func appendParent(out []memproxy.Ref, id, self string) []memproxy.Ref {
	r := memproxy.Ref{Kind: memproxy.TargetMemory, ID: id}
	if KindOf(id) == "" || id == self || slices.Contains(out, r) {
		return out
	}
	return append(out, r)
}

// requestParents returns the objects that every element of an answer is part of, according
// to the request: those in the path, unless its ids only select elements, and those in a
// query parameter by which the server is known to select. A group is none: its messages are
// those of several agents.
func requestParents(r *row, rt memproxy.Route, req memproxy.Request) []memproxy.Ref {
	var out []memproxy.Ref
	if !r.Is(lists) {
		for _, name := range slices.Sorted(maps.Keys(rt.Params)) {
			switch paramKind(name) {
			case TargetFolder:
				if rt.Params["file_id"] != "" {
					continue // the server shows a file under any folder; its answer names the right folder
				}
				fallthrough
			case TargetAgent, TargetConversation, TargetRun, TargetStep, TargetArchive, TargetFile, TargetJob:
				out = appendParent(out, rt.Params[name], "")
			}
		}
	}
	by := ""
	switch r.ID {
	case "letta.list_archives":
		by = "agent_id"
	case "letta.list_all_messages":
		by = "conversation_id"
	case "letta.list_conversation_messages":
		if rt.Params["conversation_id"] == ownConversation {
			by = "agent_id"
		}
	}
	if by != "" {
		if q, err := url.ParseQuery(req.Query); err == nil && len(q[by]) == 1 {
			out = appendParent(out, q[by][0], "")
		}
	}
	return out
}

// isBuiltInTool reports whether the type of a tool in an answer says that it is built into
// the server.
func isBuiltInTool(tool *jsondoc.Value) bool {
	return strings.HasPrefix(tool.Get("tool_type").Text(), "letta_")
}
