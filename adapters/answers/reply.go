package answers

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
)

// Prune implements the gate's Adapter: it returns an answer's body without the members that
// its route's line does not claim, or the body itself if all are claimed. It returns ErrShape
// for a body of another shape. An error that is not of the backend's form (a proxy's page, a
// stack trace) keeps its status, but its body is replaced, because it has no members to
// check. So is the body of an error in which no member is claimed.
func (t *Table) Prune(rt memproxy.Route, reply memproxy.Reply) (memproxy.Pruned, error) {
	if memproxy.IsSuccess(reply.Status) {
		return t.pruneReadable(rt, reply.Body)
	}
	out, err := prune(t.failed, reply.Body, rt.Params)
	var flaw *memproxy.Flaw
	emptied := out.Unclaimed > 0 && len(bytes.Trim(out.Body, "{}[] \t\r\n")) == 0
	switch {
	case emptied:
	case errors.Is(err, ErrShape), errors.As(err, &flaw):
		out = memproxy.Pruned{Unclaimed: 1, Names: []string{"/"}}
	default:
		return out, err
	}
	out.Type = "application/json"
	out.Body, err = json.Marshal(map[string]string{"detail": "the backend answered " + strconv.Itoa(reply.Status)})
	return out, err
}

// Structured implements the gate's Adapter: it reports whether a route's answer has members.
// It is false for pages and files, which need not be JSON.
func (t *Table) Structured(rt memproxy.Route) bool {
	s := t.answers[rt.ID]
	return s == nil || !s.raw
}

// pruneReadable prunes an answer. If the answer cannot be parsed, unreadable elements of its
// lists are removed first.
func (t *Table) pruneReadable(rt memproxy.Route, body []byte) (memproxy.Pruned, error) {
	p, err := prune(t.answers[rt.ID], body, nil)
	var flaw *memproxy.Flaw
	if !errors.As(err, &flaw) {
		return p, err
	}
	rest, gone, ok := jsondoc.Salvage(body, 0)
	if !ok {
		return p, err
	}
	if p, err = prune(t.answers[rt.ID], rest, nil); err == nil {
		p.Unreadable, p.Readable = gone, rest
	}
	return p, err
}
