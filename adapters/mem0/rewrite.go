package mem0

import (
	"bytes"
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/stamps"
)

// Rewrite implements the gate's Adapter.
func (a *Adapter) Rewrite(rt memproxy.Route, req memproxy.Request, reply memproxy.Reply, rd *memproxy.Reading) ([]byte, error) {
	unwanted := unwanted(a.Row(rt.ID), rt, req)
	changed := len(rd.Links) > 0 || len(unwanted) > 0 || rd.Unrelated || rd.CountsOthers
	for i := range rd.Memories {
		m := &rd.Memories[i]
		if m.Drop && m.Pointer == "" {
			return nil, errWhole
		}
		changed = changed || m.Drop || m.OmitBefore || m.ShowProvenance != nil || m.Show != nil && m.TextAt != "" || rd.Limited && m.Kind == memproxy.TargetEntity
	}
	if !changed || len(bytes.TrimSpace(reply.Body)) == 0 { // the answer to a write may be empty
		return reply.Body, nil
	}
	doc, err := jsondoc.Parse(reply.Body, 0)
	if err != nil {
		return nil, err
	}
	w := rewriting{doc: doc, e: doc.Edit(), unwanted: unwanted, limited: rd.Limited}
	shown, gone, fewer := map[string]string{}, rd.Unrelated, 0
	for i := range rd.Memories {
		m := &rd.Memories[i]
		if m.Drop {
			gone = true
			fewer += w.drop(m.Pointer)
			continue
		}
		if m.Show != nil && m.TextAt != "" {
			shown[m.TextAt] = *m.Show
		}
		w.element(m)
	}
	if err := w.e.Texts(shown); err != nil {
		return nil, err
	}
	for _, ptr := range rd.Links {
		w.e.Replace(doc.At(ptr), proxyLink(doc.At(ptr).Text(), req))
	}
	clearRelations(w.e, doc, gone)
	if doc.Root.Kind == jsondoc.Object {
		w.counts(rd.CountsOthers, fewer)
	}
	return w.e.Apply(), nil
}

// unwanted returns the fields that memproxy requested in addition to the client's.
func unwanted(r *row, rt memproxy.Route, req memproxy.Request) []string {
	if rt.Kind != memproxy.Recall || rt.Derived {
		return nil
	}
	have, _ := queryFields(r, req.Query) // the query takes precedence over the body
	if len(have) == 0 && rt.Params["fields"] != "" {
		have = strings.Split(rt.Params["fields"], ",")
	}
	if len(have) == 0 {
		return nil
	}
	return missingFields(have)
}

// proxyLink returns a link of the backend changed to lead through memproxy, with the
// client's parameters for memproxy itself, as JSON. It is null if the link cannot be parsed.
// What is in front of the path that was requested is the upstream's prefix, which memproxy
// adds to each request.
func proxyLink(link string, req memproxy.Request) []byte {
	u, err := url.Parse(link)
	if err != nil {
		return []byte("null")
	}
	back, sep := u.EscapedPath(), "?"
	if i := strings.Index(back, req.EscapedPath); i > 0 {
		back = back[i:]
	}
	for _, q := range [...]string{u.RawQuery, req.ProxyQuery} {
		if q != "" {
			back += sep + q
			sep = "&"
		}
	}
	return jsondoc.Quote(req.Base + back)
}

// readResults reads the memories that an event reports for a write. They have the state at the
// time of the write, so they are shown in full or not at all. Their owners and their metadata
// are those of the event.
func readResults(rd *memproxy.Reading, ev *jsondoc.Value, of memproxy.Memory) error {
	for i, v := range ev.Get("results").List() {
		if v.Kind != jsondoc.Object {
			return errShape
		}
		m := memproxy.Memory{
			Pointer: jsondoc.Index(of.Pointer+"/results", i), ID: v.Get("id").Text(), Event: v.Get("event").Text(),
			Scope: merge(scope(v), of.Scope), Stamp: of.Stamp, Metadata: of.Metadata, Altered: of.Altered, Mutable: true,
			Text: cmp.Or(v.Get("memory").Text(), v.Get("data").Get("memory").Text()),
		}
		rd.Memories = append(rd.Memories, m)
	}
	return nil
}

// rewriting is the state of changing one answer.
type rewriting struct {
	doc      *jsondoc.Doc
	e        *jsondoc.Edits
	unwanted []string // fields that memproxy requested in addition
	limited  bool     // an owner's counts include memories that the caller may not see
}

// counts changes the counts of an answer of whose lists fewer elements are shown. mixed is set
// if the backend also counted memories of other owners: totals are then removed, and a count
// becomes the number of shown elements.
func (w *rewriting) counts(mixed bool, fewer int) {
	root, total, lists := w.doc.Root, 0, 0
	for _, key := range listKeys {
		if v := root.Get(key); v != nil && v.Kind == jsondoc.Array {
			total, lists = total+len(v.Elems), lists+1
		}
	}
	if lists > 0 && (mixed || w.limited) {
		w.e.Object(root, func(m *jsondoc.Member) bool { return strings.HasPrefix(m.Name, "total_") }, nil)
	}
	switch count := root.Get("count"); {
	case mixed && lists > 0:
		for _, v := range [...]*jsondoc.Value{count, root.Get("total")} {
			if v != nil {
				w.e.Replace(v, strconv.AppendInt(nil, int64(total-fewer), 10))
			}
		}
	case !mixed && fewer > 0:
		w.e.AddTo(count, -fewer)
	}
}

// drop removes an element of a list, which is in the answer or in one of its events. It empties
// the payload of the event, because that repeats the content of the event's results. It returns
// 1 for an element of the answer's own lists, else 0.
func (w *rewriting) drop(ptr string) int {
	w.e.Remove(ptr)
	within := strings.Split(ptr, "/") // and below it, the list and the index
	within = within[:max(1, len(within)-2)]
	if payload := w.doc.At(strings.Join(within, "/")).Get("payload"); payload != nil {
		w.e.Replace(payload, []byte("{}"))
	}
	if len(within) > 1 {
		return 0
	}
	return 1
}

// element changes a shown element. If its text is replaced, the messages from which the text
// was made are removed, because they repeat it.
func (w *rewriting) element(m *memproxy.Memory) {
	v, unwanted := w.doc.At(m.Pointer), w.unwanted
	if v == nil || v.Kind != jsondoc.Object {
		return
	}
	if m.Pointer == "" {
		unwanted = nil
	}
	if input := v.Get("input"); input != nil && m.Show != nil && m.TextAt != "" {
		w.e.Replace(input, []byte("[]"))
	}
	if w.limited && m.Kind == memproxy.TargetEntity {
		unwanted = append(slices.Clip(unwanted), "total_memories", "memory_count", "count")
	}
	if m.OmitBefore {
		unwanted = append(slices.Clip(unwanted), "previous_memory", "old_memory")
	}
	stamps.SetProvenance(w.e, v, m.ShowProvenance, unwanted...)
}
