package hunt

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/memproxy/memproxy"
)

// errLetta is the error of an answer that is not what the route gives.
var errLetta = errors.New("the answer is not a list")

// LettaOptions say how a Letta server is walked.
type LettaOptions struct {
	API
	// PageSize is 1 to 1000; default 100.
	PageSize int
}

func (o LettaOptions) caller() (*caller, int, error) {
	c, err := newCaller(o.API)
	if err != nil {
		return nil, 0, err
	}
	if o.PageSize == 0 {
		o.PageSize = 100
	}
	if o.PageSize < 1 || o.PageSize > 1000 {
		return nil, 0, fmt.Errorf("hunt: a page of %d, want 1 to 1000", o.PageSize)
	}
	return c, o.PageSize, nil
}

// list asks for the elements after an id, oldest first, and returns them with
// the id of the last one, "" when there are none.
func list[T any](ctx context.Context, c *caller, path []string, q url.Values, size int, after string, id func(T) string) ([]T, string, error) {
	q.Set("limit", strconv.Itoa(size))
	if after != "" {
		q.Set("after", after)
	}
	raw, err := c.call(ctx, http.MethodGet, path, q, nil)
	if err != nil {
		return nil, "", err
	}
	return parseList(raw, id)
}

func parseList[T any](raw []byte, id func(T) string) ([]T, string, error) {
	var out []T
	if err := json.Unmarshal(raw, &out); err != nil || out == nil {
		return nil, "", errLetta
	}
	if len(out) == 0 {
		return nil, "", nil
	}
	last := id(out[len(out)-1])
	if !plainID(last) {
		return nil, "", errLetta // the next page could not be asked for
	}
	return out, last, nil
}

// plainID reports whether an id may stand in a path: Letta's are a word, a
// hyphen and a UUID.
func plainID(id string) bool {
	for i := range len(id) {
		if c := id[i]; !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_' || c == ':') {
			return false
		}
	}
	return id != ""
}

type lettaBlock struct {
	ID          string          `json:"id"`
	Value       *string         `json:"value"`
	Description *string         `json:"description"`
	Metadata    json.RawMessage `json:"metadata"`

	raw string
}

// UnmarshalJSON keeps the element as it is written too.
func (b *lettaBlock) UnmarshalJSON(raw []byte) error {
	type plain lettaBlock
	if err := json.Unmarshal(raw, (*plain)(b)); err != nil {
		return err
	}
	b.raw = string(raw)
	return nil
}

// items returns the block's value, and its description, which stands in the
// prompt beside it.
func (b lettaBlock) items() []Item {
	item := Item{ID: b.ID, Kind: "block", Field: "value", Text: str(b.Value), Raw: b.raw, Unread: b.ID == "" || b.Value == nil}
	out := []Item{item}
	if d := str(b.Description); d != "" {
		out = append(out, Item{ID: b.ID, Kind: "block", Field: "description", Text: d})
	}
	return append(out, metadata(item, b.Metadata)...)
}

type lettaBlocks struct {
	*caller
	size int
}

// LettaBlocks walks the blocks of a Letta server by GET /v1/blocks/, those of
// all agents, shared ones once.
func LettaBlocks(o LettaOptions) (Pager, error) {
	c, size, err := o.caller()
	if err != nil {
		return nil, err
	}
	return &lettaBlocks{c, size}, nil
}

// Page reads the blocks after the one whose id is the cursor. Only an empty
// page is the last.
func (p *lettaBlocks) Page(ctx context.Context, cursor string) ([]Item, string, error) {
	q := url.Values{"order": {"asc"}, "show_hidden_blocks": {"true"}}
	blocks, last, err := list(ctx, p.caller, []string{"v1/blocks/"}, q, p.size, cursor, func(b lettaBlock) string { return b.ID })
	if err != nil {
		return nil, "", err
	}
	var items []Item
	for _, b := range blocks {
		items = append(items, b.items()...)
	}
	return items, last, nil
}

type lettaPassage struct {
	ID       string          `json:"id"`
	Text     *string         `json:"text"`
	Metadata json.RawMessage `json:"metadata"`

	raw string
}

// UnmarshalJSON keeps the element as it is written too.
func (p *lettaPassage) UnmarshalJSON(raw []byte) error {
	type plain lettaPassage
	if err := json.Unmarshal(raw, (*plain)(p)); err != nil {
		return err
	}
	p.raw = string(raw)
	return nil
}

func (p lettaPassage) items(agent string) []Item {
	item := Item{ID: p.ID, Kind: "passage", Field: "text", Owner: memproxy.Scope{Agent: agent}, Text: str(p.Text), Raw: p.raw, Unread: p.ID == "" || p.Text == nil}
	return append([]Item{item}, metadata(item, p.Metadata)...)
}

type lettaPassages struct {
	*caller
	size int
}

// LettaPassages walks the archival memory of all agents of a Letta server: the
// agents by GET /v1/agents/, one after the other, and of each its passages by
// GET /v1/agents/{id}/archival-memory.
func LettaPassages(o LettaOptions) (Pager, error) {
	c, size, err := o.caller()
	if err != nil {
		return nil, err
	}
	return &lettaPassages{c, size}, nil
}

// place is the cursor of a walk over passages: with In, after a passage of
// that agent; without, before the agent that follows Agent.
type place struct {
	Agent string `json:"agent"`
	In    bool   `json:"in,omitempty"`
	After string `json:"after,omitempty"`
}

func (p place) String() string {
	raw, err := json.Marshal(p)
	if err != nil {
		return ""
	}
	return string(raw)
}

func parsePlace(cursor string) (place, error) {
	var p place
	if cursor == "" {
		return p, nil
	}
	if err := json.Unmarshal([]byte(cursor), &p); err != nil || !plainID(p.Agent) || !p.In && p.After != "" {
		return place{}, errors.New("the cursor is no place among passages")
	}
	return p, nil
}

// Page makes one request: for the next agent, or for an agent's next passages.
func (p *lettaPassages) Page(ctx context.Context, cursor string) ([]Item, string, error) {
	at, err := parsePlace(cursor)
	if err != nil {
		return nil, "", err
	}
	if !at.In {
		type agent struct {
			ID string `json:"id"`
		}
		// One at a time: an agent comes with its tools and its prompt.
		_, next, err := list(ctx, p.caller, []string{"v1/agents/"}, url.Values{"order": {"asc"}}, 1, at.Agent, func(a agent) string { return a.ID })
		if err != nil || next == "" {
			return nil, "", err
		}
		if next == at.Agent {
			return nil, "", ErrCircle
		}
		return nil, place{Agent: next, In: true}.String(), nil
	}
	path := []string{"v1/agents", at.Agent, "archival-memory"}
	passages, last, err := list(ctx, p.caller, path, url.Values{"ascending": {"true"}}, p.size, at.After, func(x lettaPassage) string { return x.ID })
	if err != nil {
		return nil, "", err
	}
	if last == "" {
		return nil, place{Agent: at.Agent}.String(), nil
	}
	if last == at.After {
		return nil, "", ErrCircle
	}
	var items []Item
	for _, x := range passages {
		items = append(items, x.items(at.Agent)...)
	}
	return items, place{Agent: at.Agent, In: true, After: last}.String(), nil
}
