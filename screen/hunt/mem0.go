package hunt

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/memproxy/memproxy"
)

// errAnswer is the error of an answer that is not what the route gives.
var errAnswer = errors.New("the answer is not a list of memories")

// mem0Memory is a memory as Mem0 writes it.
type mem0Memory struct {
	ID       string          `json:"id"`
	Memory   *string         `json:"memory"`
	User     *string         `json:"user_id"`
	Agent    *string         `json:"agent_id"`
	App      *string         `json:"app_id"`
	Run      *string         `json:"run_id"`
	Session  *string         `json:"session_id"`
	Metadata json.RawMessage `json:"metadata"`
}

// items returns the memory's text and the strings of its metadata, which
// agents are shown too.
func (m mem0Memory) items(raw json.RawMessage) []Item {
	owner := memproxy.Scope{User: str(m.User), Agent: str(m.Agent), App: str(m.App), Run: str(m.Run)}
	if owner.Run == "" {
		owner.Run = str(m.Session)
	}
	item := Item{ID: m.ID, Kind: "memory", Field: "memory", Owner: owner, Text: str(m.Memory), Raw: string(raw), Unread: m.ID == "" || m.Memory == nil}
	return append([]Item{item}, metadata(item, m.Metadata)...)
}

func str(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// mem0Page is a list of memories: bare, or the "results" of a page.
type mem0Page struct {
	items []Item
	n     int  // memories
	paged bool // it is a page
	more  bool // and says that another follows
}

func parseMem0(raw []byte) (mem0Page, error) {
	var out mem0Page
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil || list == nil {
		var page struct {
			Next    *string            `json:"next"`
			Results *[]json.RawMessage `json:"results"`
		}
		if err := json.Unmarshal(raw, &page); err != nil || page.Results == nil {
			return mem0Page{}, errAnswer
		}
		list, out.paged, out.more = *page.Results, true, str(page.Next) != ""
	}
	out.n = len(list)
	for _, raw := range list {
		var m mem0Memory
		if err := json.Unmarshal(raw, &m); err != nil {
			return mem0Page{}, errAnswer
		}
		out.items = append(out.items, m.items(raw)...)
	}
	return out, nil
}

// Mem0Kind asks a backend which Mem0 it is: "platform" for the hosted one's
// API, "server" for the self-hosted one's.
func Mem0Kind(ctx context.Context, a API) (string, error) {
	c, err := newCaller(a)
	if err != nil {
		return "", err
	}
	_, err = c.call(ctx, http.MethodGet, []string{"v1/ping/"}, nil, nil)
	var no statusError
	switch {
	case err == nil:
		return "platform", nil
	case errors.As(err, &no) && (no == http.StatusNotFound || no == http.StatusMethodNotAllowed):
		return "server", nil
	}
	return "", fmt.Errorf("hunt: which Mem0 this is: %w", err)
}

// PlatformOptions say what of a hosted Mem0 project is walked.
type PlatformOptions struct {
	API
	// Filters are the filters of the list; default everything that belongs to
	// any user, agent, app or run.
	Filters json.RawMessage
	// PageSize is 1 to 200; default 100.
	PageSize int
	// Query holds further parameters, such as org_id and project_id.
	Query url.Values
}

const everything = `{"OR":[{"user_id":"*"},{"agent_id":"*"},{"app_id":"*"},{"run_id":"*"}]}`

type mem0Pages struct {
	*caller
	method string
	path   string
	query  url.Values
	body   []byte
	size   int
}

// Mem0 walks a hosted project by POST /v3/memories/.
func Mem0(o PlatformOptions) (Pager, error) {
	p, err := mem0Pager(o)
	if err != nil {
		return nil, err
	}
	if len(o.Filters) == 0 {
		o.Filters = json.RawMessage(everything)
	}
	p.method, p.path = http.MethodPost, "v3/memories/"
	p.body, err = json.Marshal(map[string]any{"filters": o.Filters, "show_expired": true})
	if err != nil {
		return nil, errors.New("hunt: the filters are not JSON")
	}
	return p, nil
}

// Mem0V1 walks by the deprecated GET /v1/memories/, which needs an identity in
// Query: user_id, agent_id, app_id or run_id.
func Mem0V1(o PlatformOptions) (Pager, error) {
	p, err := mem0Pager(o)
	if err != nil {
		return nil, err
	}
	if len(o.Filters) > 0 || !p.query.Has("user_id") && !p.query.Has("agent_id") && !p.query.Has("app_id") && !p.query.Has("run_id") {
		return nil, errors.New("hunt: the v1 list takes an identity in its query, and no filters")
	}
	p.method, p.path = http.MethodGet, "v1/memories/"
	return p, nil
}

func mem0Pager(o PlatformOptions) (*mem0Pages, error) {
	c, err := newCaller(o.API)
	if err != nil {
		return nil, err
	}
	if o.PageSize == 0 {
		o.PageSize = 100
	}
	if o.PageSize < 1 || o.PageSize > 200 {
		return nil, fmt.Errorf("hunt: a page of %d, want 1 to 200", o.PageSize)
	}
	q := url.Values{}
	for name, values := range o.Query {
		q[name] = slices.Clone(values)
	}
	return &mem0Pages{caller: c, query: q, size: o.PageSize}, nil
}

// Page reads the page whose number is the cursor. The links in an answer lead
// wherever the backend says; only their presence counts.
func (p *mem0Pages) Page(ctx context.Context, cursor string) ([]Item, string, error) {
	page := 1
	if cursor != "" {
		n, err := strconv.Atoi(cursor)
		if err != nil || n < 1 {
			return nil, "", errors.New("the cursor is no page number")
		}
		page = n
	}
	q := url.Values{}
	for name, values := range p.query {
		q[name] = values
	}
	q.Set("page", strconv.Itoa(page))
	q.Set("page_size", strconv.Itoa(p.size))
	raw, err := p.call(ctx, p.method, []string{p.path}, q, p.body)
	if err != nil {
		return nil, "", err
	}
	list, err := parseMem0(raw)
	switch {
	case err != nil:
		return nil, "", err
	case !list.paged && list.n >= p.size:
		return nil, "", ErrTruncated // a server that knows no pages
	case !list.more:
		return list.items, "", nil
	}
	return list.items, strconv.Itoa(page + 1), nil
}
