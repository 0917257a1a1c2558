package mem0

import (
	"encoding/json"
	"net/url"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
)

// Receipt implements the gate's Extractor.
func (a *Adapter) Receipt(_ memproxy.Route, req memproxy.Request, id string) memproxy.Request {
	return memproxy.Request{Method: "GET", EscapedPath: "/v1/event/" + url.PathEscape(id) + "/", Header: req.Header, Base: req.Base}
}

// ReadExtracted implements the gate's Extractor: an event has the result of a write
// once it is finished.
func (a *Adapter) ReadExtracted(reply memproxy.Reply) ([]memproxy.Memory, memproxy.HoldState, error) {
	doc, err := jsondoc.Parse(reply.Body, 0)
	if err != nil {
		return nil, memproxy.HoldPending, err
	}
	switch doc.Root.Get("status").Text() {
	case "SUCCEEDED":
	case "FAILED":
		return []memproxy.Memory{}, memproxy.HoldFailed, nil
	default:
		return nil, memproxy.HoldPending, nil
	}
	f := answerReader{a: a, rd: &memproxy.Reading{Memories: []memproxy.Memory{}}, doc: doc, rt: memproxy.Route{Kind: memproxy.Recall}}
	list := doc.Root.Get("results")
	if list == nil || list.Kind != jsondoc.Array {
		return nil, memproxy.HoldDone, nil
	}
	for i, e := range list.Elems {
		if e.Kind != jsondoc.Object {
			return nil, memproxy.HoldDone, errShape // the result of a write must be known
		}
		if err := f.element(e, jsondoc.Index("/results", i)); err != nil {
			return nil, memproxy.HoldDone, err
		}
	}
	return f.rd.Memories, memproxy.HoldDone, nil
}

// Undo implements the gate's Extractor: added memories are deleted, and replaced
// texts are restored if the answer has them.
func (a *Adapter) Undo(rt memproxy.Route, _ memproxy.Request, m memproxy.Memory) ([]memproxy.SideRequest, bool) {
	if m.ID == "" {
		return nil, false
	}
	path := pathOf(a.Row(rt.ID).Is(server), m.ID)
	if m.Event != memproxy.MemoryUpdated {
		return []memproxy.SideRequest{{Request: memproxy.Request{Method: "DELETE", EscapedPath: path}}}, true
	}
	if m.Before == "" {
		return nil, false
	}
	body, _ := json.Marshal(map[string]string{"text": m.Before}) // strings always marshal
	return []memproxy.SideRequest{{Request: memproxy.Request{Method: "PUT", EscapedPath: path}, Body: body}}, true
}
