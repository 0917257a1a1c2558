package embedded

import (
	"cmp"
	"maps"
	"math"
	"net"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
)

// owner is the account of all objects.
const owner = "owner@example.com"

// sessionKey is the hosted platform's member for the run of a memory, except in answers of
// a v3 search.
const sessionKey = "session_id"

func ping(*call) (any, error) {
	return object{"status": "ok", "org_id": "org-embedded", "project_id": "proj-embedded", "user_email": owner}, nil
}

// hosted returns a memory as the hosted platform shows it.
func hosted(m *memory, runKey string) object {
	return object{
		"id": m.id, "memory": m.text, "user_id": orNull(m.of["user"]), "agent_id": orNull(m.of["agent"]), "app_id": orNull(m.of["app"]), runKey: orNull(m.of["run"]),
		"hash": m.hash(), "metadata": orNil(m.metadata), "categories": nil, "structured_attributes": nil, "replaced_by": nil,
		"synthesized": false, "lifecycle_state": "active", "expiration_date": m.expires, "created_at": m.created, "updated_at": m.updated,
	}
}

// projected returns only the named fields of a memory; ids and metadata are included only
// if they are named. If fields is empty it returns all.
func projected(row object, fields any) object {
	var names []string
	switch v := fields.(type) {
	case string:
		names = strings.FieldsFunc(v, func(r rune) bool { return r == ',' })
	case []any:
		for _, f := range v {
			name, _ := f.(string)
			names = append(names, name)
		}
	}
	if len(names) > 0 {
		maps.DeleteFunc(row, func(name string, _ any) bool { return !slices.Contains(names, name) })
	}
	return row
}

// selected applies the filters of a body and other parameters, and returns the matches,
// newest first.
func (b reads) selected(c *call, filters any, params object) ([]*memory, error) {
	filter, _ := filters.(object)
	if len(filter) == 0 {
		return nil, badRequest("filters is required and must be a non-empty object")
	}
	passes, err := platform.filter(filter)
	if err != nil {
		return nil, err
	}
	expired, keywords := truthy(params["show_expired"]), text(params, "keywords")
	meta, _ := params["metadata"].(object)
	rows := b.find(func(m *memory) bool {
		narrow, _ := engine.passes(m, meta)
		return narrow && passes(m) && contains(m.text, keywords) && (expired || !m.expired(c.now))
	})
	// With backdating, creation times can differ from the order of storing.
	slices.SortStableFunc(rows, func(x, y *memory) int { return cmp.Compare(y.created, x.created) })
	return rows, nil
}

func (b reads) found(c *call, filters any, threshold float64, runKey string) ([]object, error) {
	rows, err := b.selected(c, filters, c.body)
	if err != nil {
		return nil, err
	}
	query := text(c.body, "query")
	if strings.TrimSpace(query) == "" {
		return nil, badRequest("query is required")
	}
	k := int(min(c.number("top_k", c.number("limit", 10)), 1000))
	return shapes(rank(query, rows, c.number("threshold", threshold), k), func(h hit) object {
		row := hosted(h.memory, runKey)
		row["score"] = h.score
		return projected(row, c.body["fields"])
	}), nil
}

func (b reads) searchV3(c *call) (any, error) {
	for _, kind := range kinds {
		if _, given := c.body[kind+"_id"]; given {
			return nil, badRequest("Top-level entity parameters ['%s_id'] are not supported; use filters", kind)
		}
	}
	found, err := b.found(c, c.body["filters"], 0.1, "run_id")
	return object{"results": found}, err
}

func (b reads) searchV2(c *call) (any, error) {
	return b.found(c, c.body["filters"], 0.3, sessionKey)
}

func (b reads) searchV1(c *call) (any, error) {
	ids, err := scopeFilter(c.body)
	if err != nil {
		return nil, err
	}
	found, err := b.found(c, ids, 0.1, sessionKey)
	if c.body["output_format"] == "v1.1" {
		return related(found), err
	}
	return found, err
}

// scopeFilter returns a filter for ids at the top level.
func scopeFilter(params object) (object, error) {
	filters := object{}
	for _, kind := range kinds {
		if v := params[kind+"_id"]; truthy(v) {
			filters[kind+"_id"] = v
		}
	}
	if len(filters) == 0 {
		return nil, badRequest("One of the filters: app_id, user_id, agent_id, run_id is required!")
	}
	return filters, nil
}

func (b reads) listV3(c *call) (any, error) { return b.list(c, c.body["filters"], c.body, true) }

func (b reads) listV2(c *call) (any, error) {
	return b.list(c, c.body["filters"], c.body, wantsPage(c))
}

func (b reads) listV1(c *call) (any, error) {
	params := queryParams(c)
	ids, err := scopeFilter(params)
	if err != nil {
		return nil, err
	}
	return b.list(c, ids, params, wantsPage(c))
}

// queryParams returns a query as a body.
func queryParams(c *call) object {
	params := object{}
	for name := range c.query {
		params[name] = c.last(name)
	}
	if raw := text(params, "metadata"); raw != "" {
		params["metadata"], _ = parse([]byte(raw))
	}
	return params
}

func (b reads) list(c *call, filters any, params object, inPages bool) (any, error) {
	rows, err := b.selected(c, filters, params)
	if err != nil {
		return nil, err
	}
	shape := func(m *memory) object { return projected(hosted(m, sessionKey), params["fields"]) }
	if inPages {
		return paged(c, rows, shape)
	}
	if c.r.Method == http.MethodGet {
		limit, err := positive(c, "limit", 100)
		if err != nil {
			return nil, err
		}
		rows = rows[:min(limit, len(rows))]
	}
	return shapes(rows, shape), nil
}

func (b reads) getOne(c *call) (any, error) {
	m, err := b.hostedMemory(c.args[0])
	if err != nil {
		return nil, err
	}
	return hosted(m, sessionKey), nil
}

// listOfEntity also shows the messages from which each memory was made.
func (b reads) listOfEntity(c *call) (any, error) {
	rows := b.find(func(m *memory) bool { return m.of[c.args[0]] == c.args[1] && !m.expired(c.now) })
	return paged(c, rows, func(m *memory) object {
		row := hosted(m, sessionKey)
		row["input"] = m.input
		return row
	})
}

// changes returns a memory's history, each entry with its raw messages.
func (m *memory) changes() []object {
	return shapes(m.history, func(c change) object {
		return object{
			"id": c.id, "memory_id": m.id, "old_memory": c.old, "new_memory": c.new, "event": c.event, "user_id": orNull(m.of["user"]),
			"agent_id": orNull(m.of["agent"]), "app_id": orNull(m.of["app"]), "categories": nil, "metadata": orNil(m.metadata),
			sessionKey: orNull(m.of["run"]), "input": m.input, "created_at": m.created, "updated_at": c.at,
		}
	})
}

// historyOf also finds deleted memories.
func (b reads) historyOf(c *call) (any, error) {
	m := b.past(c.args[0])
	if m == nil {
		return nil, fail(http.StatusNotFound, notFound)
	}
	return m.changes(), nil
}

func (b reads) historyOfAll(c *call) (any, error) {
	var rows []object
	for _, m := range slices.Backward(b.memories) {
		rows = append(rows, m.changes()...)
	}
	return paged(c, rows, itself)
}

func (b reads) listEntities(c *call) (any, error) {
	rows := b.entities(kinds[:]...)
	out, err := paged(c, rows, itself)
	if err != nil {
		return nil, err
	}
	for _, kind := range kinds {
		out["total_"+kind+"s"] = len(b.entities(kind))
	}
	return out, nil
}

// Exports, summaries and profiles show texts of memories without ids or metadata, so
// that a gate cannot filter them by item.

type export struct {
	id      string
	filters any
	data    object
}

// texts returns the texts that match a filter, newest first.
func (b reads) texts(c *call) ([]string, error) {
	filters, _ := c.body["filters"].(object)
	passes, err := platform.filter(filters)
	if err != nil {
		return nil, err
	}
	return shapes(b.find(func(m *memory) bool { return passes(m) && !m.expired(c.now) }), func(m *memory) string { return m.text }), nil
}

func (b reads) createExport(c *call) (any, error) {
	texts, err := b.texts(c)
	if err != nil {
		return nil, err
	}
	schema, _ := c.body["schema"].(object)
	if raw := text(c.body, "schema"); raw != "" {
		schema, _ = parse([]byte(raw))
	}
	properties, _ := schema["properties"].(object)
	e := export{uuid.NewString(), c.body["filters"], object{}}
	for name, v := range properties {
		if property, _ := v.(object); property["type"] == "array" {
			e.data[name] = texts
		} else {
			e.data[name] = strings.Join(texts, " ")
		}
	}
	b.exports = append(b.exports, e)
	return created{object{"message": "Memory export request received.", "id": e.id}}, nil
}

// getExport returns an export by id, or the newest one with the same filters.
func (b reads) getExport(c *call) (any, error) {
	id := text(c.body, "memory_export_id")
	for _, e := range slices.Backward(b.exports) {
		if id != "" && e.id == id || id == "" && reflect.DeepEqual(e.filters, c.body["filters"]) {
			return e.data, nil
		}
	}
	return nil, fail(http.StatusNotFound, "No memory export found")
}

func (b reads) summary(c *call) (any, error) {
	texts, err := b.texts(c)
	return object{"summary": strings.Join(texts, " ")}, err
}

func (b reads) profile(c *call) (any, error) {
	if !slices.ContainsFunc(b.memories, within(map[string]string{"user": c.args[0]})) {
		return nil, fail(http.StatusNotFound, "user %s not found", c.args[0])
	}
	return object{"profile": object{}, "status": "not_enabled", "entity_type": "user", "entity_id": c.args[0], "updated_at": nil, "generation_count": 0, "error": nil}, nil
}

// paged returns one page of rows. The links are absolute and lead to this backend, bypassing
// any proxy.
func paged[T, R any](c *call, rows []T, shape func(T) R) (object, error) {
	number, err := positive(c, "page", 1)
	if err != nil {
		return nil, err
	}
	size, err := positive(c, "page_size", 100)
	if err != nil {
		return nil, err
	}
	size = min(size, 200)
	pages := max(1, (len(rows)+size-1)/size)
	if number > pages {
		return nil, detailed(http.StatusNotFound, "Invalid page.")
	}
	base := c.r.Host
	if addr, ok := c.r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		base = addr.String()
	}
	link := func(n int) any {
		if n < 1 || n > pages {
			return nil
		}
		q := url.Values{}
		for name := range c.query {
			q.Set(name, c.last(name))
		}
		q.Set("page", strconv.Itoa(n))
		q.Set("page_size", strconv.Itoa(size))
		return "http://" + base + c.r.URL.EscapedPath() + "?" + q.Encode()
	}
	page := shapes(rows[(number-1)*size:min(number*size, len(rows))], shape)
	return object{"count": len(rows), "next": link(number + 1), "previous": link(number - 1), "results": page}, nil
}

// shapes converts rows to their shown form.
func shapes[T, R any](rows []T, shape func(T) R) []R {
	out := make([]R, len(rows))
	for i, row := range rows {
		out[i] = shape(row)
	}
	return out
}

// itself shows a row unchanged.
func itself[T any](row T) T { return row }

// positive reads a number from the query.
func positive(c *call, name string, fallback int) (int, error) {
	text := c.last(name)
	if text == "" {
		return fallback, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > math.MaxInt32 {
		return 0, badRequest("%s must be a positive integer", name)
	}
	return n, nil
}

// wantsPage reports whether a list of an older version is paged: it is an array unless both
// parameters are given.
func wantsPage(c *call) bool { return c.query.Has("page") && c.query.Has("page_size") }
