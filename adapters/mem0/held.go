package mem0

import (
	"encoding/json"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
)

const heldMessage = "The memory waits for review"

// holdReplier answers held additions in the form of the platform's asynchronous ones.
type holdReplier struct{ routes *routes }

// HeldReply implements the gate's Adapter. A held addition gets the answer to an
// asynchronous addition, which the platform's clients know: they request its event again
// later. Requests that are always completed at once (a change, a deletion, an addition to
// an agent's public board) have no such answer.
func (holdReplier) HeldReply(rt memproxy.Route, _ memproxy.Request, op *memproxy.Operation, d memproxy.Decision) (memproxy.Reply, bool) {
	event := map[string]any{"message": heldMessage, "status": "PENDING", "event_id": d.ID}
	switch rt.ID {
	case "mem0.v3.add":
		return ok(event), true
	case "mem0.v1.add":
		if wantsObject(op) {
			return ok(map[string]any{"results": []any{event}, "relations": []any{}}), true
		}
		return ok([]any{event}), true
	case "mem0.server.add":
		return ok(map[string]any{"results": []any{}}), true // means that nothing was extracted
	}
	return memproxy.Reply{}, false
}

// wantsObject reports whether an addition requests the later form of answer.
func wantsObject(op *memproxy.Operation) bool {
	doc, _ := op.Parsed.(*jsondoc.Doc)
	return doc != nil && doc.Root.Get("output_format").Text() == "v1.1" && doc.Root.Get("version").Text() == "v2"
}

// ReceiptID implements the gate's Extractor.
func (h holdReplier) ReceiptID(rt memproxy.Route) string {
	if row := h.routes.Row(rt.ID); row.Shape == event && row.Kind == memproxy.Recall {
		return rt.Params["id"]
	}
	return ""
}

// ReceiptReply implements the gate's Extractor.
func (holdReplier) ReceiptReply(_ memproxy.Route, _ memproxy.Request, h memproxy.HeldWrite) memproxy.Reply {
	at := h.Created.UTC().Format(stampTime)
	out := map[string]any{
		"id": h.ID, "event_type": "ADD", "status": "PENDING", "payload": map[string]any{}, "metadata": map[string]any{},
		"results": []any{}, "created_at": at, "updated_at": at, "started_at": nil, "completed_at": nil, "latency": nil,
		"graph_status": nil, "error": nil,
	}
	switch h.State {
	case memproxy.HoldDone:
		out["status"] = "SUCCEEDED"
		results := make([]any, len(h.Result.Memories))
		for i, id := range h.Result.Memories {
			results[i] = map[string]any{"id": id, "event": "ADD"}
		}
		out["results"] = results
	case memproxy.HoldRejected:
		out["status"], out["error"] = "FAILED", "The memory was refused on review"
	case memproxy.HoldFailed:
		out["status"], out["error"] = "FAILED", "The memory could not be written"
	}
	if !h.Reviewed.IsZero() {
		out["updated_at"] = h.Reviewed.UTC().Format(stampTime)
		if out["status"] != "PENDING" {
			out["completed_at"] = out["updated_at"]
		}
	}
	return ok(out)
}

const stampTime = "2006-01-02T15:04:05.000000Z07:00"

func ok(v any) memproxy.Reply {
	body, _ := json.Marshal(v) // strings and lists always marshal
	return memproxy.Reply{Status: 200, Header: memproxy.Header{"Content-Type": {"application/json"}}, Body: body}
}

// Verbatim implements the gate's Extractor. The text has the role assistant, because a
// model extracted it and no user said it.
func (holdReplier) Verbatim(body []byte, text string) ([]byte, error) {
	doc, err := jsondoc.Parse(body, 0)
	if err != nil {
		return nil, err
	}
	messages, _ := json.Marshal([]map[string]string{{"role": "assistant", "content": text}}) // strings always marshal
	e := doc.Edit()
	e.Object(doc.Root, func(m *jsondoc.Member) bool {
		return m.Name == "messages" || m.Name == "deduced_memories" || m.Name == "infer"
	}, [][]byte{
		append([]byte(`"messages":`), messages...), []byte(`"infer":false`),
	})
	return e.Apply(), nil
}
