package embedded

import (
	"encoding/json"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
)

// sessionKey is what the hosted platform calls the run of a memory, but for the
// answers of a v3 search, which say run_id.
const sessionKey = "session_id"

// hosted is a memory as the hosted platform shows it.
func hosted(m *memory, runKey string) object {
	return object{
		"id": m.id, "memory": m.text, "user_id": orNull(m.user), "agent_id": orNull(m.agent), "app_id": orNull(m.app), runKey: orNull(m.run),
		"hash": m.hash, "metadata": orNil(m.metadata), "categories": nil, "structured_attributes": nil, "replaced_by": nil,
		"synthesized": false, "lifecycle_state": "active", "expiration_date": m.expires, "created_at": m.created, "updated_at": m.updated,
	}
}

// projected keeps only the named fields of an answer's memory. Everything else
// goes, ids and metadata included. Without fields it returns all.
func projected(row object, fields []string) object {
	if len(fields) > 0 {
		maps.DeleteFunc(row, func(name string, _ any) bool { return !slices.Contains(fields, name) })
	}
	return row
}

const (
	defaultPageSize = 100
	maxPageSize     = 200
)

// paginate cuts one page out of rows and shapes only that. The query wins over
// the body. Its links are absolute and lead to this backend itself.
func paginate[T, R any](c *call, rows []T, shape func(T) R) (object, *reply) {
	number, refused := positive(c, "page", 1, math.MaxInt32)
	if refused != nil {
		return nil, refused
	}
	size, refused := positive(c, "page_size", defaultPageSize, maxPageSize)
	if refused != nil {
		return nil, refused
	}
	pages := max(1, (len(rows)+size-1)/size)
	if number > pages {
		return nil, detailed(http.StatusNotFound, "Invalid page.")
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
		return c.base() + c.r.URL.EscapedPath() + "?" + q.Encode()
	}
	page := shapes(rows[(number-1)*size:min(number*size, len(rows))], shape)
	return object{"count": len(rows), "next": link(number + 1), "previous": link(number - 1), "results": page}, nil
}

// shapes are rows as they are shown.
func shapes[T, R any](rows []T, shape func(T) R) []R {
	out := make([]R, len(rows))
	for i, row := range rows {
		out[i] = shape(row)
	}
	return out
}

// paged answers with one page.
func paged[T, R any](c *call, rows []T, shape func(T) R) *reply {
	out, refused := paginate(c, rows, shape)
	if refused != nil {
		return refused
	}
	return ok(out)
}

// itself shows a row as it is.
func itself[T any](row T) T { return row }

// positive reads a number from the query or else the body.
func positive(c *call, name string, fallback, limit int) (int, *reply) {
	text := ""
	if _, given := c.query[name]; given {
		text = c.last(name)
	} else {
		switch v := c.body[name].(type) {
		case nil:
			return fallback, nil
		case json.Number:
			text = v.String()
		case string:
			text = v
		}
	}
	n, err := strconv.Atoi(text)
	switch {
	case err != nil:
		return 0, said(http.StatusBadRequest, name+" must be an integer")
	case n < 1 || n > limit:
		return 0, said(http.StatusBadRequest, name+" is out of range")
	}
	return n, nil
}

// wantsPage: the older lists answer a bare array unless both are there.
func wantsPage(c *call) bool {
	_, number := c.query["page"]
	_, size := c.query["page_size"]
	return number && size
}
