package embedded

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
)

func ping(*call) *reply {
	return ok(object{"status": "ok", "org_id": "org-embedded", "project_id": "proj-embedded", "user_email": owner})
}

// owner is the account that everything belongs to.
const owner = "owner@example.com"

// selection is what a list or a search is to look through.
type selection struct {
	scope  *shelf
	passes test
	fields []string
}

// hostedReads are the platform's routes that show memories.
type hostedReads struct{ store *store }

// selected reads the filters of a body, and what else narrows them.
func (r *hostedReads) selected(c *call, filters any, params map[string]any) (selection, *reply) {
	object, isObject := filters.(map[string]any)
	if !isObject || len(object) == 0 {
		return selection{}, said(http.StatusBadRequest, "filters is required and must be a non-empty object")
	}
	passes, err := hostedFilter(object)
	if err != nil {
		return selection{}, said(http.StatusBadRequest, err.Error())
	}
	narrow := narrowed(params)
	expired := truthy(params["show_expired"])
	sel := selection{scope: r.store.within(object), fields: fieldsOf(params["fields"])}
	sel.passes = func(m *memory) bool { return passes(m) && narrow(m) && (expired || !m.expired(c.now)) }
	return sel, nil
}

// within returns the shelf that a filter surely keeps to, or all.
func (s *store) within(filters map[string]any) *shelf {
	for _, kind := range kinds {
		if name, isText := filters[kind+"_id"].(string); isText && name != "*" {
			return s.entities[entityKey{kind, name}]
		}
	}
	list, _ := filters["AND"].([]any)
	for _, item := range list {
		if inner, isObject := item.(map[string]any); isObject {
			if sh := s.within(inner); sh != s.all {
				return sh
			}
		}
	}
	return s.all
}

func fieldsOf(v any) []string {
	switch v := v.(type) {
	case string:
		if v != "" {
			return strings.Split(v, ",")
		}
	case []any:
		var out []string
		for _, f := range v {
			if name, isText := f.(string); isText {
				out = append(out, name)
			}
		}
		return out
	}
	return nil
}

// narrowed reads the parameters that are next to filters.
func narrowed(params map[string]any) test {
	start, _ := params["start_date"].(string)
	end, _ := params["end_date"].(string)
	keywords, _ := params["keywords"].(string)
	meta, _ := params["metadata"].(map[string]any)
	if start == "" && end == "" && keywords == "" && len(meta) == 0 {
		return always
	}
	keywords = strings.ToLower(keywords)
	return func(m *memory) bool {
		if m.created < start || end != "" && m.created[:min(10, len(m.created))] > end[:min(10, len(end))] {
			return false
		}
		for key, want := range meta {
			if !equal(m.metadata[key], want) {
				return false
			}
		}
		return strings.Contains(strings.ToLower(m.text), keywords)
	}
}

const maxTopK = 1000

func (r *hostedReads) search(c *call, filters any, threshold float64, runKey string) ([]object, *reply) {
	sel, refused := r.selected(c, filters, c.body)
	if refused != nil {
		return nil, refused
	}
	query, _ := c.body["query"].(string)
	if strings.TrimSpace(query) == "" {
		return nil, said(http.StatusBadRequest, "query is required")
	}
	k := 10
	for _, name := range [...]string{"limit", "top_k"} { // the second one wins
		if n, isNumber := c.body[name].(json.Number); isNumber {
			if i, err := n.Int64(); err == nil && i > 0 {
				k = int(min(i, maxTopK))
			}
		}
	}
	if n, isNumber := c.body["threshold"].(json.Number); isNumber {
		if f, err := n.Float64(); err == nil {
			threshold = f
		}
	}
	return shapes(rank(query, r.store.find(sel.scope, sel.passes), threshold, k), func(h hit) object {
		row := hosted(h.memory, runKey)
		row["score"] = h.score
		return projected(row, sel.fields)
	}), nil
}

func (r *hostedReads) searchV3(c *call) *reply {
	for _, kind := range kinds {
		key := kind + "_id"
		if _, given := c.body[key]; given {
			return said(http.StatusBadRequest, "Top-level entity parameters ['"+key+"'] are not supported; use filters")
		}
	}
	found, refused := r.search(c, c.body["filters"], 0.1, "run_id")
	if refused != nil {
		return refused
	}
	return ok(object{"results": found})
}

func (r *hostedReads) searchV2(c *call) *reply {
	found, refused := r.search(c, c.body["filters"], 0.3, sessionKey)
	if refused != nil {
		return refused
	}
	return ok(found)
}

func (r *hostedReads) searchV1(c *call) *reply {
	ids, refused := scopeFilter(c.body)
	if refused != nil {
		return refused
	}
	found, refused := r.search(c, ids, 0.1, sessionKey)
	if refused != nil {
		return refused
	}
	if c.body["output_format"] == "v1.1" {
		return ok(related(found))
	}
	return ok(found)
}

// scopeFilter makes a filter of ids that stand at the top level.
func scopeFilter(params map[string]any) (map[string]any, *reply) {
	filters := make(map[string]any)
	for _, kind := range kinds {
		if v := params[kind+"_id"]; truthy(v) {
			filters[kind+"_id"] = v
		}
	}
	if len(filters) == 0 {
		return nil, said(http.StatusBadRequest, "One of the filters: app_id, user_id, agent_id, run_id is required!")
	}
	return filters, nil
}

func (r *hostedReads) listV3(c *call) *reply { return r.list(c, c.body["filters"], c.body, true) }

func (r *hostedReads) listV2(c *call) *reply {
	return r.list(c, c.body["filters"], c.body, wantsPage(c))
}

func (r *hostedReads) listV1(c *call) *reply {
	params, refused := queryParams(c)
	if refused != nil {
		return refused
	}
	ids, refused := scopeFilter(params)
	if refused != nil {
		return refused
	}
	return r.list(c, ids, params, wantsPage(c))
}

// queryParams reads a query as if it were a body.
func queryParams(c *call) (map[string]any, *reply) {
	params := make(map[string]any, len(c.query))
	for name := range c.query {
		params[name] = c.last(name)
	}
	if text, _ := params["metadata"].(string); text != "" {
		v, err := parse([]byte(text))
		if err != nil {
			return nil, said(http.StatusBadRequest, "metadata must be JSON")
		}
		params["metadata"] = v
	}
	return params, nil
}

func (r *hostedReads) list(c *call, filters any, params map[string]any, inPages bool) *reply {
	sel, refused := r.selected(c, filters, params)
	if refused != nil {
		return refused
	}
	rows := newestFirst(r.store.find(sel.scope, sel.passes))
	shape := func(m *memory) object { return projected(hosted(m, sessionKey), sel.fields) }
	if inPages {
		return paged(c, rows, shape)
	}
	if c.r.Method == http.MethodGet {
		limit, refused := positive(c, "limit", defaultPageSize, maxTopK)
		if refused != nil {
			return refused
		}
		rows = rows[:min(limit, len(rows))]
	}
	return ok(shapes(rows, shape))
}

func (r *hostedReads) getOne(c *call) *reply {
	x, refused := r.store.hostedSlot(c.args[0])
	if refused != nil {
		return refused
	}
	return ok(hosted(x.memory, sessionKey))
}

// listOfEntity also shows what was said to make each memory.
func (r *hostedReads) listOfEntity(c *call) *reply {
	kind, name := c.args[0], c.args[1]
	sh := r.store.entities[entityKey{kind, name}]
	if !isKind(kind) {
		return detailed(http.StatusNotFound, "Not found.")
	}
	rows := newestFirst(r.store.find(sh, func(m *memory) bool { return !m.expired(c.now) }))
	return paged(c, rows, func(m *memory) object {
		row := hosted(m, sessionKey)
		row["input"] = m.input
		return row
	})
}

// changes is a memory's history, each line with the raw messages behind it.
func (x *slot) changes() []object {
	m := x.memory
	return shapes(x.history, func(c change) object {
		return object{
			"id": c.id, "memory_id": c.memory, "old_memory": c.old, "new_memory": c.new, "event": c.event, "user_id": orNull(m.user),
			"agent_id": orNull(m.agent), "app_id": orNull(m.app), "categories": nil, "metadata": orNil(m.metadata),
			sessionKey: orNull(m.run), "input": m.input, "created_at": c.created, "updated_at": cmp.Or(c.updated, c.created),
		}
	})
}

// historyOf outlives its memory.
func (r *hostedReads) historyOf(c *call) *reply {
	id, refused := r.store.hostedID(c.args[0])
	if refused != nil {
		return refused
	}
	x := r.store.past(id)
	if x == nil {
		return said(http.StatusNotFound, notFound)
	}
	return ok(x.changes())
}

func (r *hostedReads) historyOfAll(c *call) *reply {
	var rows []object
	for _, x := range slices.Backward(r.store.all.slots) {
		rows = append(rows, x.changes()...)
	}
	return paged(c, rows, itself)
}
