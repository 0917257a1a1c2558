package mem0

import (
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/stamps"
)

// Encode implements the gate's adapter.
func (a *Adapter) Encode(rt memproxy.Route, req memproxy.Request, body []byte, op *memproxy.Operation) ([]byte, string, error) {
	r := a.Row(rt.ID)
	query := rewriteQuery(op, widenQuery(r, req.Query))
	if len(body) == 0 || !stamps.Needed(op) && len(op.Unclaimed) == 0 && !projects(r, op) && len(op.Masked)+len(op.Hidden) == 0 {
		return body, query, nil
	}
	doc, err := parsed(body, op)
	if err != nil {
		return nil, "", err
	}
	p, err := stamps.NewPatch(doc, op)
	if err != nil {
		return nil, "", err
	}
	maskBody(p.Edits, doc, op)
	if err := replaceHiddenInBody(p.Edits, doc, op); err != nil {
		return nil, "", err
	}
	for _, ptr := range op.Unclaimed {
		if !strings.HasPrefix(ptr, queryPrefix) {
			p.Remove(ptr)
		}
	}
	if op.Stamp != nil {
		stamp(p, r, doc.Root, op)
	}
	if projects(r, op) {
		widenBody(p.Edits, doc)
	}
	return p.Apply(), query, nil
}

// Reword implements the gate's Adapter.
func (a *Adapter) Reword(_ memproxy.Route, _ memproxy.Request, body []byte, texts map[string]string) ([]byte, error) {
	doc, err := jsondoc.Parse(body, 0)
	if err != nil {
		return nil, err
	}
	e := doc.Edit()
	if err := e.Texts(texts); err != nil {
		return nil, err
	}
	return e.Apply(), nil
}

// parsed returns the body as Decode parsed it, or parses another body.
func parsed(body []byte, op *memproxy.Operation) (*jsondoc.Doc, error) {
	if doc, ok := op.Parsed.(*jsondoc.Doc); ok && doc.Is(body) {
		return doc, nil
	}
	return jsondoc.Parse(body, 0)
}

// stamp stamps every holder of metadata: the body of an add or an update, or
// the entries of a batch.
func stamp(p *stamps.Patch, r *row, root *jsondoc.Value, op *memproxy.Operation) {
	holders, target := []*jsondoc.Value{root}, ""
	if r.Shape == batch {
		holders = root.Get("memories").List()
	} else if len(op.Targets) > 0 {
		target = op.Targets[0]
	}
	for _, holder := range holders {
		if !takesStamp(r, holder) {
			continue
		}
		if r.Shape == batch {
			target = holder.Get("memory_id").Text()
		}
		meta := holder.Get("metadata")
		var current []byte
		if (meta == nil || meta.Kind == jsondoc.Null) && !r.Is(server) && r.Kind == memproxy.Correct {
			// The platform replaces metadata on update, so the current metadata is included; null
			// changes nothing.
			current = op.Current[target].Metadata
		}
		p.Stamp(op, holder, meta, current, r.Kind == memproxy.Correct && r.Is(server)) // the server merges metadata
	}
}

// takesStamp reports whether the holder writes a text or metadata, which a stamp covers.
func takesStamp(r *row, holder *jsondoc.Value) bool {
	switch {
	case r.Shape == addBody:
		return true
	case !changes(r):
		return false
	}
	return slices.ContainsFunc([]string{"text", "metadata"}, func(key string) bool {
		v := holder.Get(key)
		return v != nil && v.Kind != jsondoc.Null
	})
}

// Echoes implements the gate's Extractor. The engine copies an addition's metadata to every
// memory that it makes of the addition, verbatim or extracted, at once or later. Relations
// of a graph have no metadata, so Echoes is false if the addition enables the graph.
func (a *Adapter) Echoes(rt memproxy.Route, op *memproxy.Operation) bool {
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
	return graph == nil || graph.Kind == jsondoc.Null || doc.False(graph)
}

// OmitsStamps implements the gate's Extractor: histories and events show texts without metadata.
func (a *Adapter) OmitsStamps(rt memproxy.Route) bool {
	return strings.Contains(rt.ID, "history") || strings.HasPrefix(rt.ID, "mem0.v1.event")
}

// IsBackendField implements the gate's Extractor: a server's list of its whole store shows a
// memory's own fields among its metadata; other answers show them outside of it.
func (a *Adapter) IsBackendField(name string) bool { return backendFields[name] }
