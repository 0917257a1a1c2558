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
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/screen/terms"
)

// ErrTruncated is returned for a scope with as many memories as one request may return:
// there may be more, and the server has no pages.
var ErrTruncated = errors.New("the server returned the maximum number of memories and has no pagination: narrow the scope by agent or run")

var errAnswer = errors.New("the response is not a list of memories")

// listing reads one page of a list, like Pager.Page.
type listing func(ctx context.Context, cursor string) ([]Item, string, error)

// sequence reads several lists, one after the other.
type sequence []listing

// Page reads a page of the list whose index is before the colon of the cursor.
func (s sequence) Page(ctx context.Context, cursor string) ([]Item, string, error) {
	number, inner, ok := strings.Cut(cmp.Or(cursor, "0:"), ":")
	at, err := strconv.Atoi(number)
	if !ok || err != nil || at < 0 || at >= len(s) {
		return nil, "", errors.New("the cursor belongs to no list of the store")
	}
	items, next, err := s[at](ctx, inner)
	switch {
	case err != nil:
		return nil, "", err
	case next == "" && at+1 == len(s):
		return items, "", nil
	case next == "":
		at++
	}
	return items, strconv.Itoa(at) + ":" + next, nil
}

// element is a memory of Mem0, or a block, a passage or an agent of Letta.
type element struct {
	ID          string          `json:"id"`
	Memory      any             `json:"memory"` // of an agent, an object
	Value       *string         `json:"value"`  // of a block
	Description string          `json:"description"`
	Text        *string         `json:"text"` // of a passage
	User        string          `json:"user_id"`
	Agent       string          `json:"agent_id"`
	App         string          `json:"app_id"`
	Run         string          `json:"run_id"`
	Session     string          `json:"session_id"`
	Metadata    json.RawMessage `json:"metadata"`

	raw string
}

// items returns the element's own text, which may be missing, and the strings of its
// metadata, which agents see too.
func (e *element) items(kind, field string, text *string, owner memproxy.Scope) []Item {
	own := Item{ID: e.ID, Kind: kind, Field: field, Owner: owner, Raw: e.raw, Incomplete: e.ID == "" || text == nil}
	if text != nil {
		own.Text = *text
	}
	return append([]Item{own}, metadata(own, e.Metadata)...)
}

// page is a list of elements: a bare array, or an object that has them in "results".
type page struct {
	elements []element
	paged    bool // it has "results"
	more     bool // it has a "next" page
}

func parse(raw []byte) (out page, err error) {
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil || list == nil {
		var of struct {
			Next    string             `json:"next"`
			Results *[]json.RawMessage `json:"results"`
		}
		if json.Unmarshal(raw, &of) != nil || of.Results == nil {
			return out, errAnswer
		}
		list, out.paged, out.more = *of.Results, true, of.Next != ""
	}
	out.elements = make([]element, len(list))
	for i, raw := range list {
		if json.Unmarshal(raw, &out.elements[i]) != nil {
			return out, errAnswer
		}
		out.elements[i].raw = string(raw)
	}
	return out, nil
}

func (c *caller) list(ctx context.Context, method string, path []string, q url.Values, body []byte) (page, error) {
	raw, err := c.call(ctx, method, path, q, body)
	if err != nil {
		return page{}, err
	}
	return parse(raw)
}

// memories returns the items of a list of Mem0.
func (p *page) memories() (items []Item) {
	for i := range p.elements {
		m := &p.elements[i]
		owner := memproxy.Scope{User: m.User, Agent: m.Agent, App: m.App, Run: cmp.Or(m.Run, m.Session)}
		var own *string
		if text, ok := m.Memory.(string); ok {
			own = &text
		}
		items = append(items, m.items("memory", "memory", own, owner)...)
	}
	return items
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
	if no := statusOf(err); no == http.StatusNotFound || no == http.StatusMethodNotAllowed {
		return "server", nil
	}
	return "", fmt.Errorf("the API of Mem0 cannot be determined: %w", err)
}

// everything is the filter that matches the memories of any user, agent, app or run.
const everything = `{"filters":{"OR":[{"user_id":"*"},{"agent_id":"*"},{"app_id":"*"},{"run_id":"*"}]},"show_expired":true}`

// Mem0 returns the pager of a hosted project, which reads the page whose number is the
// cursor by POST /v3/memories/. The URLs of links in the response are not followed, since
// the backend chooses them; only their presence counts.
func Mem0(a API) (Pager, error) {
	c, err := newCaller(a, 100)
	return sequence{func(ctx context.Context, cursor string) ([]Item, string, error) {
		number, err := strconv.Atoi(cmp.Or(cursor, "1"))
		if err != nil || number < 1 {
			return nil, "", errors.New("the cursor is not a page number")
		}
		q := url.Values{"page": {strconv.Itoa(number)}, "page_size": {strconv.Itoa(c.size)}}
		list, err := c.list(ctx, http.MethodPost, []string{"v3/memories/"}, q, []byte(everything))
		next := ""
		switch {
		case err != nil:
			return nil, "", err
		case !list.paged && len(list.elements) >= c.size:
			return nil, "", ErrTruncated // a server without pages truncated the list
		case list.more:
			next = strconv.Itoa(number + 1)
		}
		return list.memories(), next, nil
	}}, err
}

// Mem0Server returns the pager of scopes of a self-hosted server, each of which is one
// page, read by GET /memories. Without scopes it reads the whole store at once, which takes
// an administrator's key.
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
		all = append(all, func(ctx context.Context, _ string) ([]Item, string, error) {
			size := strconv.Itoa(c.size)
			q := url.Values{"top_k": {size}, "limit": {size}, "show_expired": {"true"}} // servers of version 1.x use "limit"
			for name, value := range map[string]string{"user_id": s.User, "agent_id": s.Agent, "run_id": s.Run} {
				if value != "" {
					q.Set(name, value)
				}
			}
			list, err := c.list(ctx, http.MethodGet, []string{"memories"}, q, nil)
			if err != nil {
				return nil, "", err
			}
			if n := len(list.elements); n == c.size || n > c.size && s != (memproxy.Scope{}) {
				return nil, "", ErrTruncated // a longer one of the whole store is complete
			}
			return list.memories(), "", nil
		})
	}
	return all, err
}

// Letta returns the pager of a Letta server: its blocks, then the archival memory of all
// agents.
func Letta(a API) (Pager, error) {
	c, err := newCaller(a, 100)
	return sequence{c.blocks, c.passages}, err
}

// after requests the elements of a Letta that follow an id, oldest first, and returns them
// with the id of the last one, or "" if there are none.
func (c *caller) after(ctx context.Context, path []string, q url.Values, size int, id string) ([]element, string, error) {
	q.Set("limit", strconv.Itoa(size))
	if id != "" {
		q.Set("after", id)
	}
	list, err := c.list(ctx, http.MethodGet, path, q, nil)
	switch n := len(list.elements); {
	case err != nil:
		return nil, "", err
	case list.paged || n > 0 && !plainID(list.elements[n-1].ID): // the id would be in the URL of the next page
		return nil, "", errAnswer
	case n == 0:
		return nil, "", nil
	case list.elements[n-1].ID == id:
		return nil, "", ErrCursorLoop
	default:
		return list.elements, list.elements[n-1].ID, nil
	}
}

// plainID reports whether an id is safe in a path: Letta's ids are a word, a hyphen and a
// UUID.
func plainID(id string) bool { return id != "" && strings.Trim(id, terms.Alnum+"-_:") == "" }

// blocks reads the blocks of all agents after the one whose id is the cursor. A shared
// block appears once. The last page is empty. A block's description is an item too: Letta
// puts it into the prompt next to the value.
func (c *caller) blocks(ctx context.Context, cursor string) (items []Item, last string, err error) {
	q := url.Values{"order": {"asc"}, "show_hidden_blocks": {"true"}}
	blocks, last, err := c.after(ctx, []string{"v1/blocks/"}, q, c.size, cursor)
	for _, b := range blocks {
		items = append(items, b.items("block", "value", b.Value, memproxy.Scope{})...)
		if b.Description != "" {
			items = append(items, Item{ID: b.ID, Kind: "block", Field: "description", Text: b.Description})
		}
	}
	return items, last, err
}

// passages reads the archival memory of all agents, one request a page. The cursor is
// "after/AGENT" for the agent that follows one, and "in/AGENT/PASSAGE" for the passages of
// an agent after one of them, or "in/AGENT/" for its first ones.
func (c *caller) passages(ctx context.Context, cursor string) (items []Item, next string, err error) {
	step, at, _ := strings.Cut(cursor, "/")
	agent, last, _ := strings.Cut(at, "/")
	if !plainID(agent) && cursor != "" || last != "" && !plainID(last) {
		return nil, "", errors.New("the cursor is not a valid position in the passages")
	}
	if step != "in" { // one agent a page: it comes with its tools and its prompt
		_, next, err = c.after(ctx, []string{"v1/agents/"}, url.Values{"order": {"asc"}}, 1, agent)
		if next != "" {
			next = "in/" + next + "/"
		}
		return nil, next, err
	}
	passages, last, err := c.after(ctx, []string{"v1/agents", agent, "archival-memory"}, url.Values{"ascending": {"true"}}, c.size, last)
	if err != nil || last == "" {
		return nil, "after/" + agent, err
	}
	for _, e := range passages {
		items = append(items, e.items("passage", "text", e.Text, memproxy.Scope{Agent: agent})...)
	}
	return items, "in/" + agent + "/" + last, nil
}
