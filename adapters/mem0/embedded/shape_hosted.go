package embedded

import (
	"encoding/json"
	"math"
	"net/http"
	"net/url"
	"strconv"
)

// hostedMemory is a memory as the hosted platform shows it, but for the run:
// that is run_id in v3 search answers and session_id everywhere else.
type hostedMemory struct {
	ID         string         `json:"id"`
	Memory     string         `json:"memory"`
	UserID     *string        `json:"user_id"`
	AgentID    *string        `json:"agent_id"`
	AppID      *string        `json:"app_id"`
	Hash       string         `json:"hash"`
	Metadata   map[string]any `json:"metadata"`
	Categories []string       `json:"categories"`
	Attributes any            `json:"structured_attributes"`
	ReplacedBy *string        `json:"replaced_by"`
	Synthetic  bool           `json:"synthesized"`
	State      string         `json:"lifecycle_state"`
	Expiration any            `json:"expiration_date"`
	Created    string         `json:"created_at"`
	Updated    string         `json:"updated_at"`
	Score      *float64       `json:"score,omitempty"`
}

type withSession struct {
	hostedMemory
	SessionID *string `json:"session_id"`
}

type withRun struct {
	hostedMemory
	RunID *string `json:"run_id"`
}

func hostedOf(m *memory) hostedMemory {
	return hostedMemory{
		ID: m.id, Memory: m.text, UserID: ref(m.user), AgentID: ref(m.agent), AppID: ref(m.app),
		Hash: m.hash, Metadata: orNil(m.metadata), State: "active", Expiration: m.expires,
		Created: m.created, Updated: m.updated,
	}
}

func sessioned(m *memory) withSession { return withSession{hostedOf(m), ref(m.run)} }

// projected keeps only the named fields of an answer's memory. Everything else
// goes, ids and metadata included. Without fields it returns v.
func projected(v any, fields []string) any {
	if len(fields) == 0 {
		return v
	}
	text, err := json.Marshal(v)
	if err != nil {
		return v
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(text, &all); err != nil {
		return v
	}
	kept := make(map[string]json.RawMessage, len(fields))
	for _, f := range fields {
		if member, ok := all[f]; ok {
			kept[f] = member
		}
	}
	return kept
}

// page is one page of a list.
type page struct {
	Count    int     `json:"count"`
	Next     *string `json:"next"`
	Previous *string `json:"previous"`
	Results  []any   `json:"results"`
}

const (
	defaultPageSize = 100
	maxPageSize     = 200
)

// paginate cuts one page out of rows and shapes only that. The query wins over
// the body. Its links are absolute and lead to this backend itself.
func paginate[T any](c *call, rows []T, shape func(T) any) (page, *reply) {
	number, refused := positive(c, "page", 1, math.MaxInt32)
	if refused != nil {
		return page{}, refused
	}
	size, refused := positive(c, "page_size", defaultPageSize, maxPageSize)
	if refused != nil {
		return page{}, refused
	}
	pages := max(1, (len(rows)+size-1)/size)
	if number > pages {
		return page{}, detailed(http.StatusNotFound, "Invalid page.")
	}
	link := func(n int) *string {
		if n < 1 || n > pages {
			return nil
		}
		q := url.Values{}
		for name := range c.query {
			q.Set(name, c.last(name))
		}
		q.Set("page", strconv.Itoa(n))
		q.Set("page_size", strconv.Itoa(size))
		return ref(c.base() + c.r.URL.EscapedPath() + "?" + q.Encode())
	}
	out := page{Count: len(rows), Next: link(number + 1), Previous: link(number - 1), Results: []any{}}
	for _, row := range rows[(number-1)*size : min(number*size, len(rows))] {
		out.Results = append(out.Results, shape(row))
	}
	return out, nil
}

// paged answers with one page.
func paged[T any](c *call, rows []T, shape func(T) any) *reply {
	out, refused := paginate(c, rows, shape)
	if refused != nil {
		return refused
	}
	return ok(out)
}

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
