package mem0

import (
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
)

// Carries implements the gate's carrier: the metadata of an addition are those
// of every memory that the engine makes of it, verbatim or extracted, at once
// or later. A graph's relations have none.
func (a *Adapter) Carries(rt memproxy.Route, op *memproxy.Operation) bool {
	switch rt.ID {
	case "mem0.v3.add", "mem0.v1.add", "mem0.server.add":
	default:
		return false
	}
	doc, ok := op.Parsed.(*jsondoc.Doc)
	if !ok {
		return false
	}
	graph := doc.Root.Get("enable_graph")
	return graph == nil || graph.Kind == jsondoc.Null || graph.Kind == jsondoc.Bool && string(doc.Raw(graph)) == "false"
}

// Bare implements the gate's carrier: histories and events tell texts without
// metadata.
func (a *Adapter) Bare(rt memproxy.Route) bool {
	return strings.Contains(rt.ID, "history") || strings.HasPrefix(rt.ID, "mem0.v1.event")
}
