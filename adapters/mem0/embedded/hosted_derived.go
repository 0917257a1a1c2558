package embedded

import (
	"net/http"
	"reflect"
	"slices"
	"strings"
)

// Exports and summaries show memory texts in other shapes, without ids or
// metadata: what a gate cannot filter by item.

// maxExports bounds the remembered exports.
const maxExports = 100

type export struct {
	id      string
	filters any
	data    map[string]any
}

// exports are the routes that make other texts of memories.
type exports struct {
	store *store
	made  window[export]
}

// texts returns the texts that pass a filter, newest first.
func (s *store) texts(c *call, filters map[string]any) ([]string, *reply) {
	passes, err := hostedFilter(filters)
	if err != nil {
		return nil, said(http.StatusBadRequest, err.Error())
	}
	rows := s.find(s.within(filters), func(m *memory) bool { return passes(m) && !m.expired(c.now) })
	return shapes(newestFirst(rows), func(m *memory) string { return m.text }), nil
}

func (x *exports) create(c *call) *reply {
	filters, _ := c.body["filters"].(map[string]any)
	_, and := filters["AND"]
	_, or := filters["OR"]
	if !and && !or {
		return said(http.StatusBadRequest, "filters must use AND or OR")
	}
	schema := c.body["schema"]
	if text, isText := schema.(string); isText {
		var err error
		if schema, err = parse([]byte(text)); err != nil {
			return said(http.StatusBadRequest, "schema must be JSON")
		}
	}
	texts, refused := x.store.texts(c, filters)
	if refused != nil {
		return refused
	}
	e := export{x.store.newID(), filters, filled(schema, texts)}
	x.made.add(e, 1)
	return &reply{status: http.StatusCreated, body: object{"message": "Memory export request received.", "id": e.id}}
}

// filled is the caller's schema with the stored texts in it.
func filled(schema any, texts []string) map[string]any {
	object, _ := schema.(map[string]any)
	properties, _ := object["properties"].(map[string]any)
	out := make(map[string]any, len(properties))
	for name, v := range properties {
		property, _ := v.(map[string]any)
		switch property["type"] {
		case "array":
			out[name] = texts
		case "string":
			out[name] = strings.Join(texts, " ")
		default:
			out[name] = nil
		}
	}
	return out
}

// getExport looks for an id, or for the newest export of the same filters.
func (x *exports) get(c *call) *reply {
	id, _ := c.body["memory_export_id"].(string)
	for _, e := range slices.Backward(x.made.values()) {
		if id != "" && e.id == id || id == "" && reflect.DeepEqual(e.filters, c.body["filters"]) {
			return ok(e.data)
		}
	}
	return said(http.StatusNotFound, "No memory export found")
}

func (x *exports) summary(c *call) *reply {
	filters, _ := c.body["filters"].(map[string]any)
	texts, refused := x.store.texts(c, filters)
	if refused != nil {
		return refused
	}
	return ok(object{"summary": strings.Join(texts, " ")})
}

func (r *hostedReads) feedback(c *call) *reply {
	switch c.body["feedback"] {
	case nil, "POSITIVE", "NEGATIVE", "VERY_NEGATIVE":
	default:
		return said(http.StatusBadRequest, "feedback must be POSITIVE, NEGATIVE, VERY_NEGATIVE or null")
	}
	if _, refused := r.store.hostedSlot(text(c.body, "memory_id")); refused != nil {
		return refused
	}
	return ok(object{"id": r.store.newID(), "feedback": c.body["feedback"], "feedback_reason": c.body["feedback_reason"]})
}
