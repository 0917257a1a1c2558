package answers

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
)

// Pruner implements the gate's Adapter with a table.
type Pruner struct {
	Answers *Table
}

// NewPruner returns the pruner for the table in texts, which are embedded at build time.
func NewPruner(texts ...string) Pruner {
	t, err := Parse(texts...)
	if err != nil {
		panic(err)
	}
	return Pruner{Answers: t}
}

// Prune prunes an answer by its route and status. An error that is not of the backend's
// form (a proxy's page, a stack trace) keeps its status, but its body is replaced, because
// it has no members to check. So is the body of an error in which no member is claimed.
func (p Pruner) Prune(rt memproxy.Route, reply memproxy.Reply) (memproxy.Pruned, error) {
	if reply.Status >= 200 && reply.Status <= 299 {
		return p.Answers.pruneReadable(rt, reply.Body)
	}
	out, err := prune(p.Answers.failed, reply.Body, rt.Params)
	var flaw *memproxy.Malformed
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

// PruneEvent prunes an event of a route's stream.
func (p Pruner) PruneEvent(rt memproxy.Route, event []byte) memproxy.Pruned {
	return p.Answers.PruneEvent(rt.ID, event)
}

// Structured reports whether a route's answer has members. It is false for pages and files,
// which need not be JSON.
func (p Pruner) Structured(rt memproxy.Route) bool {
	s := p.Answers.answers[rt.ID]
	return s == nil || !s.raw
}

// pruneReadable prunes an answer. If the answer cannot be parsed, unreadable elements of its
// lists are removed first.
func (t *Table) pruneReadable(rt memproxy.Route, body []byte) (memproxy.Pruned, error) {
	p, err := t.Prune(rt.ID, body)
	var flaw *memproxy.Malformed
	if !errors.As(err, &flaw) {
		return p, err
	}
	rest, gone, ok := jsondoc.Salvage(body, 0)
	if !ok {
		return p, err
	}
	if p, err = t.Prune(rt.ID, rest); err == nil {
		p.Unreadable, p.Readable = gone, rest
	}
	return p, err
}
