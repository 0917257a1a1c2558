package answers

import (
	"encoding/json"
	"errors"
	"strconv"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
)

// Reply prunes an answer by its route and status. An error that is not made as
// the backend's errors are (a hop's page, a trace) keeps its status and says
// nothing else: there is nothing in it to take apart.
func Reply(t *Table, rt memproxy.Route, reply memproxy.Reply) (memproxy.Pruned, error) {
	if reply.Status >= 200 && reply.Status <= 299 {
		return t.readable(rt, reply.Body)
	}
	p, err := t.PruneFailed(reply.Body)
	var flaw *memproxy.Malformed
	if !errors.Is(err, ErrShape) && !errors.As(err, &flaw) {
		return p, err
	}
	body, err := json.Marshal(map[string]string{"detail": "the backend answered " + strconv.Itoa(reply.Status)})
	return memproxy.Pruned{Body: body, Unclaimed: 1, Names: []string{"/"}, Type: "application/json"}, err
}

// readable prunes an answer. One that cannot be read as it is, is pruned without
// the elements of its lists that cannot be.
func (t *Table) readable(rt memproxy.Route, body []byte) (memproxy.Pruned, error) {
	p, err := t.Prune(rt.ID, body)
	var flaw *memproxy.Malformed
	if !errors.As(err, &flaw) {
		return p, err
	}
	rest, gone, ok := jsondoc.Salvage(body, maxDepth)
	if !ok {
		return p, err
	}
	if p, err = t.Prune(rt.ID, rest); err == nil {
		p.Unreadable, p.Readable = gone, rest
	}
	return p, err
}
