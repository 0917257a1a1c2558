package answers

import (
	"bytes"
	"slices"

	"github.com/memproxy/memproxy"
)

// PruneEvent implements the gate's Adapter: it returns one server-sent event of a route's
// stream (WHATWG HTML, section 9.2) without members that have no claim. If the data is not of
// the route's shape, the whole event is removed and the body is empty. Keep-alive comments
// and the end mark [DONE] pass.
func (t *Table) PruneEvent(rt memproxy.Route, event []byte) memproxy.Pruned {
	whole := memproxy.Pruned{Body: event}
	data, lines := memproxy.SplitStreamEvent(event)
	claimed := slices.DeleteFunc(lines, func(line []byte) bool { return !claimedLine(line) })
	known := len(claimed) == len(lines)             // else the event cannot pass unchanged
	bare := data == nil || string(data) == "[DONE]" // nothing to prune but lines
	switch {
	case bare && known:
		return whole
	case bare:
		return memproxy.Pruned{Body: memproxy.JoinStreamEvent(data, claimed...), Unclaimed: 1}
	}
	s := t.events[rt.ID]
	p, err := prune(s, data, nil)
	if err != nil || s == nil {
		return memproxy.Pruned{Unclaimed: 1, Names: []string{"/-"}}
	}
	if p.Unclaimed == 0 && known {
		return whole
	}
	p.Body = memproxy.JoinStreamEvent(p.Body, claimed...)
	return p
}

// claimedLine reports whether a line other than data is of a known kind: an event name, an
// id, a retry time, or a keep-alive comment (sse-starlette adds the time). None of them can
// carry a text.
func claimedLine(line []byte) bool {
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "event", "id":
		return plainName(string(value))
	case "retry":
		return len(value) <= 10 && len(bytes.Trim(value, "0123456789")) == 0
	case "":
		word, rest, _ := bytes.Cut(value, []byte(" "))
		switch string(word) {
		case "", "ping", "keep-alive", "keepalive", "heartbeat":
		default:
			return false
		}
		return len(rest) <= 40 && !bytes.ContainsFunc(rest, func(r rune) bool {
			return r != '-' && r != ':' && r != '.' && r != '+' && r != ' ' && (r < '0' || r > '9')
		})
	}
	return false
}
