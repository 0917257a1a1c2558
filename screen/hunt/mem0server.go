package hunt

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/memproxy/memproxy"
)

// ServerOptions say what of a self-hosted Mem0 server is walked.
type ServerOptions struct {
	API
	// Scopes are walked one after the other by GET /memories. Without any the
	// whole store is read at once, which takes an administrator's key.
	Scopes []memproxy.Scope
	// Top is how many memories a scope is asked for, 1 to 1000; default 1000.
	Top int
}

// ErrTruncated is the error of a scope with as many memories as can be asked
// for: there may be more, and the server has no pages.
var ErrTruncated = errors.New("the server gave as many memories as it was asked for and has no pages: narrow the scope by agent or run")

type mem0Server struct {
	*caller
	scopes []memproxy.Scope
	top    int
}

// Mem0Server walks a self-hosted server.
func Mem0Server(o ServerOptions) (Pager, error) {
	c, err := newCaller(o.API)
	if err != nil {
		return nil, err
	}
	if o.Top == 0 {
		o.Top = 1000
	}
	if o.Top < 1 || o.Top > 1000 {
		return nil, fmt.Errorf("hunt: %d memories at once, want 1 to 1000", o.Top)
	}
	for _, s := range o.Scopes {
		if s.User == "" && s.Agent == "" && s.Run == "" {
			return nil, errors.New("hunt: a scope names no user, agent or run")
		}
	}
	if len(o.Scopes) == 0 {
		o.Scopes = []memproxy.Scope{{}}
	}
	return &mem0Server{c, o.Scopes, o.Top}, nil
}

// Page reads the scope whose index is the cursor.
func (p *mem0Server) Page(ctx context.Context, cursor string) ([]Item, string, error) {
	at := 0
	if cursor != "" {
		n, err := strconv.Atoi(cursor)
		if err != nil || n < 0 || n >= len(p.scopes) {
			return nil, "", errors.New("the cursor is no scope's")
		}
		at = n
	}
	s, q := p.scopes[at], url.Values{}
	for name, value := range map[string]string{"user_id": s.User, "agent_id": s.Agent, "run_id": s.Run} {
		if value != "" {
			q.Set(name, value)
		}
	}
	// Both names of the limit: "limit" is the one of 1.x servers.
	q.Set("top_k", strconv.Itoa(p.top))
	q.Set("limit", strconv.Itoa(p.top))
	q.Set("show_expired", "true")
	raw, err := p.call(ctx, http.MethodGet, []string{"memories"}, q, nil)
	if err != nil {
		return nil, "", err
	}
	list, err := parseMem0(raw)
	switch {
	case err != nil:
		return nil, "", err
	case list.n == p.top || list.n > p.top && s != (memproxy.Scope{}):
		// The whole store may come whole, whatever was asked for.
		return nil, "", ErrTruncated
	case at+1 == len(p.scopes):
		return list.items, "", nil
	}
	return list.items, strconv.Itoa(at + 1), nil
}
