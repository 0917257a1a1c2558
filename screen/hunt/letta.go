package hunt

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/screen/terms"
)

var errLetta = errors.New("the response is not a list")

// Letta returns the pager of a Letta server: its blocks, then the archival memory of all
// agents.
func Letta(a API) (Pager, error) {
	c, err := newCaller(a, 100)
	return sequence{lettaBlocks{c}, lettaPassages{c}}, err
}

// list requests the elements after an id, oldest first, and returns them with the id of
// the last one, or "" if there are none.
func (c *caller) list(ctx context.Context, path []string, q url.Values, size int, after string) ([]lettaElement, string, error) {
	q.Set("limit", strconv.Itoa(size))
	if after != "" {
		q.Set("after", after)
	}
	raw, err := c.call(ctx, http.MethodGet, path, q, nil)
	if err != nil {
		return nil, "", err
	}
	return parseList(raw)
}

func parseList(raw []byte) ([]lettaElement, string, error) {
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil || list == nil {
		return nil, "", errLetta
	}
	out := make([]lettaElement, len(list))
	for i, raw := range list {
		if json.Unmarshal(raw, &out[i]) != nil {
			return nil, "", errLetta
		}
		out[i].raw = string(raw)
	}
	if len(out) == 0 {
		return nil, "", nil
	}
	last := out[len(out)-1].ID
	if !plainID(last) {
		return nil, "", errLetta // it would be in the URL of the next page
	}
	return out, last, nil
}

// plainID reports whether an id is safe in a path: Letta's ids are a word, a hyphen and a
// UUID.
func plainID(id string) bool {
	return id != "" && strings.Trim(id, terms.Alnum+"-_:") == ""
}

// lettaElement is a block or a passage, or an agent, of which only the id is read.
type lettaElement struct {
	ID          string          `json:"id"`
	Value       *string         `json:"value"` // of a block
	Description string          `json:"description"`
	Text        *string         `json:"text"` // of a passage
	Metadata    json.RawMessage `json:"metadata"`

	raw string
}

// items returns the element's text and the strings of its metadata.
func (e lettaElement) items(kind, field string, text *string, owner memproxy.Scope) []Item {
	return element(Item{ID: e.ID, Kind: kind, Field: field, Owner: owner, Raw: e.raw}, text, e.Metadata)
}

// lettaBlocks pages through the blocks of all agents by GET /v1/blocks/. A shared block
// appears once.
type lettaBlocks struct{ *caller }

// Page reads the blocks after the one whose id is the cursor. The last page is empty. A
// block's description is an item too: Letta puts it into the prompt next to the value.
func (p lettaBlocks) Page(ctx context.Context, cursor string) ([]Item, string, error) {
	q := url.Values{"order": {"asc"}, "show_hidden_blocks": {"true"}}
	blocks, last, err := p.list(ctx, []string{"v1/blocks/"}, q, p.api.PageSize, cursor)
	if err != nil {
		return nil, "", err
	}
	var items []Item
	for _, b := range blocks {
		items = append(items, b.items("block", "value", b.Value, memproxy.Scope{})...)
		if b.Description != "" {
			items = append(items, Item{ID: b.ID, Kind: "block", Field: "description", Text: b.Description})
		}
	}
	return items, last, nil
}

// lettaPassages pages through the archival memory of all agents: it lists the agents by
// GET /v1/agents/, one at a time, and the passages of each by GET
// /v1/agents/{id}/archival-memory.
type lettaPassages struct{ *caller }

// passageCursor is a cursor of lettaPassages. If In is set, the next page has the passages of
// Agent after the passage After; otherwise the next agent follows Agent.
type passageCursor struct {
	Agent string `json:"agent"`
	In    bool   `json:"in,omitempty"`
	After string `json:"after,omitempty"`
}

func (p passageCursor) String() string {
	raw, _ := json.Marshal(p) // cannot fail: two strings and a bool
	return string(raw)
}

func parsePassageCursor(cursor string) (passageCursor, error) {
	var p passageCursor
	if cursor == "" {
		return p, nil
	}
	if err := json.Unmarshal([]byte(cursor), &p); err != nil || !plainID(p.Agent) || !p.In && p.After != "" {
		return passageCursor{}, errors.New("the cursor is not a valid position in the passages")
	}
	return p, nil
}

// Page makes one request: for the next agent, or for an agent's next passages.
func (p lettaPassages) Page(ctx context.Context, cursor string) ([]Item, string, error) {
	at, err := parsePassageCursor(cursor)
	if err != nil {
		return nil, "", err
	}
	if !at.In {
		// One agent per request: an agent comes with its tools and its prompt.
		_, next, err := p.list(ctx, []string{"v1/agents/"}, url.Values{"order": {"asc"}}, 1, at.Agent)
		if err != nil || next == "" {
			return nil, "", err
		}
		if next == at.Agent {
			return nil, "", ErrCursorLoop
		}
		return nil, passageCursor{Agent: next, In: true}.String(), nil
	}
	passages, last, err := p.list(ctx, []string{"v1/agents", at.Agent, "archival-memory"}, url.Values{"ascending": {"true"}}, p.api.PageSize, at.After)
	if err != nil {
		return nil, "", err
	}
	if last == "" {
		return nil, passageCursor{Agent: at.Agent}.String(), nil
	}
	if last == at.After {
		return nil, "", ErrCursorLoop
	}
	var items []Item
	for _, e := range passages {
		items = append(items, e.items("passage", "text", e.Text, memproxy.Scope{Agent: at.Agent})...)
	}
	return items, passageCursor{Agent: at.Agent, In: true, After: last}.String(), nil
}
