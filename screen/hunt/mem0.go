package hunt

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/memproxy/memproxy"
)

var errAnswer = errors.New("the response is not a list of memories")

type mem0Memory struct {
	ID       string          `json:"id"`
	Memory   *string         `json:"memory"`
	User     string          `json:"user_id"`
	Agent    string          `json:"agent_id"`
	App      string          `json:"app_id"`
	Run      string          `json:"run_id"`
	Session  string          `json:"session_id"`
	Metadata json.RawMessage `json:"metadata"`
}

// items returns the memory's text and the strings of its metadata.
func (m mem0Memory) items(raw json.RawMessage) []Item {
	owner := memproxy.Scope{User: m.User, Agent: m.Agent, App: m.App, Run: cmp.Or(m.Run, m.Session)}
	return element(Item{ID: m.ID, Kind: "memory", Field: "memory", Owner: owner, Raw: string(raw)}, m.Memory, m.Metadata)
}

// mem0Page is a list of memories: a bare array, or the "results" of a page.
type mem0Page struct {
	items []Item
	n     int  // memories
	paged bool // it has "results"
	more  bool // it has a "next" page
}

func parseMem0(raw []byte) (mem0Page, error) {
	var out mem0Page
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil || list == nil {
		var page struct {
			Next    string             `json:"next"`
			Results *[]json.RawMessage `json:"results"`
		}
		if err := json.Unmarshal(raw, &page); err != nil || page.Results == nil {
			return mem0Page{}, errAnswer
		}
		list, out.paged, out.more = *page.Results, true, page.Next != ""
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

// Mem0Kind determines which Mem0 API a backend has: "platform" for the hosted one,
// "server" for the self-hosted one. It makes one request.
func Mem0Kind(ctx context.Context, a API) (string, error) {
	c, err := newCaller(a, 1)
	if err != nil {
		return "", err
	}
	_, err = c.call(ctx, http.MethodGet, []string{"v1/ping/"}, nil, nil)
	if err == nil {
		return "platform", nil
	}
	if no, _ := errors.AsType[statusError](err); no == http.StatusNotFound || no == http.StatusMethodNotAllowed {
		return "server", nil
	}
	return "", fmt.Errorf("the API of Mem0 cannot be determined: %w", err)
}

// mem0Pages pages through a hosted project by POST /v3/memories/.
type mem0Pages struct{ *caller }

// everything is the filter that matches the memories of any user, agent, app or run.
const everything = `{"filters":{"OR":[{"user_id":"*"},{"agent_id":"*"},{"app_id":"*"},{"run_id":"*"}]},"show_expired":true}`

// Mem0 returns the pager of a hosted project.
func Mem0(a API) (Pager, error) {
	c, err := newCaller(a, 100)
	return mem0Pages{c}, err
}

// Page reads the page whose number is the cursor. The URLs of links in the response are
// not followed, since the backend chooses them; only their presence counts.
func (p mem0Pages) Page(ctx context.Context, cursor string) ([]Item, string, error) {
	page := 1
	if cursor != "" {
		n, err := strconv.Atoi(cursor)
		if err != nil || n < 1 {
			return nil, "", errors.New("the cursor is not a page number")
		}
		page = n
	}
	q := url.Values{"page": {strconv.Itoa(page)}, "page_size": {strconv.Itoa(p.api.PageSize)}}
	raw, err := p.call(ctx, http.MethodPost, []string{"v3/memories/"}, q, []byte(everything))
	if err != nil {
		return nil, "", err
	}
	list, err := parseMem0(raw)
	switch {
	case err != nil:
		return nil, "", err
	case !list.paged && list.n >= p.api.PageSize:
		return nil, "", ErrTruncated // a server without pages truncated the list
	case !list.more:
		return list.items, "", nil
	}
	return list.items, strconv.Itoa(page + 1), nil
}

// ErrTruncated is returned for a scope with as many memories as one request may return:
// there may be more, and the server has no pages.
var ErrTruncated = errors.New("the server returned the maximum number of memories and has no pagination: narrow the scope by agent or run")

// mem0Server reads a scope of a self-hosted server by GET /memories.
type mem0Server struct {
	*caller
	scope memproxy.Scope
}

// Mem0Server returns the pager of scopes of a self-hosted server. Without scopes it reads
// the whole store at once, which takes an administrator's key.
func Mem0Server(a API, scopes ...memproxy.Scope) (Pager, error) {
	for _, s := range scopes {
		if s.App != "" || !s.HasOwner() { // servers have no apps
			return nil, errors.New("hunt: a scope requires a user, agent or run")
		}
	}
	if len(scopes) == 0 {
		scopes = []memproxy.Scope{{}}
	}
	c, err := newCaller(a, 1000)
	var all sequence
	for _, s := range scopes {
		all = append(all, mem0Server{c, s})
	}
	return all, err
}

// Page reads the whole scope, which is one page.
func (p mem0Server) Page(ctx context.Context, _ string) ([]Item, string, error) {
	s, q := p.scope, url.Values{}
	for name, value := range map[string]string{"user_id": s.User, "agent_id": s.Agent, "run_id": s.Run} {
		if value != "" {
			q.Set(name, value)
		}
	}
	// Both names of the limit: servers of version 1.x use "limit".
	q.Set("top_k", strconv.Itoa(p.api.PageSize))
	q.Set("limit", strconv.Itoa(p.api.PageSize))
	q.Set("show_expired", "true")
	raw, err := p.call(ctx, http.MethodGet, []string{"memories"}, q, nil)
	if err != nil {
		return nil, "", err
	}
	list, err := parseMem0(raw)
	switch {
	case err != nil:
		return nil, "", err
	case list.n == p.api.PageSize || list.n > p.api.PageSize && s != (memproxy.Scope{}):
		// The response for the whole store may exceed the limit; then it is complete.
		return nil, "", ErrTruncated
	}
	return list.items, "", nil
}
