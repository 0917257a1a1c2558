package letta

import (
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
)

// holding are the members under which the server says what an object is part
// of. Whom it was made by, or sent by, or with what it is used, is another
// matter.
var holding = [...]string{
	"agent_id", "manager_agent_id", "conversation_id", "group_id", "run_id", "step_id", "archive_id", "source_id", "folder_id", "file_id",
}

// parents are what an object is part of, beside what holds it anyway.
func parents(v *jsondoc.Value, within []memproxy.Ref) []memproxy.Ref {
	out := within[:len(within):len(within)]
	self := v.Get("id").Text()
	for _, name := range holding {
		out = belongs(out, v.Get(name).Text(), self)
	}
	if KindOf(self) == TargetGroup { // a group is what its agents are
		out = belongsAll(out, v.Get("agent_ids"), self)
	}
	if KindOf(self) == TargetJob { // the work of an upload
		out = belongs(out, v.Get("metadata").Get("source_id").Text(), self)
	}
	return out
}

func belongsAll(out []memproxy.Ref, list *jsondoc.Value, self string) []memproxy.Ref {
	if list == nil {
		return out
	}
	for _, e := range list.Elems {
		out = belongs(out, e.Text(), self)
	}
	return out
}

func belongs(out []memproxy.Ref, id, self string) []memproxy.Ref {
	r := memproxy.Ref{Kind: memproxy.TargetMemory, ID: id}
	if KindOf(id) == "" || id == self || slices.Contains(out, r) {
		return out
	}
	return append(out, r)
}

func refsTo(id string) []memproxy.Ref { return belongs(nil, id, "") }

// holders are what holds every element of an answer, because the path names
// it, or a query that the server is known to select by. Where the ids of a path
// only select, they hold nothing.
func holders(r *row, rt memproxy.Route, req memproxy.Request) []memproxy.Ref {
	var out []memproxy.Ref
	if r == nil {
		return nil
	}
	if !r.is(lists) {
		for _, name := range slices.Sorted(maps.Keys(rt.Params)) {
			switch params[name].kind {
			case TargetAgent, TargetConversation, TargetGroup, TargetRun, TargetStep, TargetArchive, TargetFolder, TargetFile, TargetJob:
				out = belongs(out, rt.Params[name], "")
			}
		}
	}
	by := ""
	switch r.id {
	case "letta.list_archives":
		by = "agent_id"
	case "letta.list_all_messages":
		by = "conversation_id"
	}
	if by != "" {
		if q, err := url.ParseQuery(req.Query); err == nil && len(q[by]) == 1 {
			out = belongs(out, q[by][0], "")
		}
	}
	return out
}

// common reports whether a tool is one that the server brings along.
func common(tool *jsondoc.Value) bool {
	return strings.HasPrefix(tool.Get("tool_type").Text(), "letta_")
}
