package answers

import (
	"bytes"
	"iter"

	"github.com/memproxy/memproxy"
)

// PruneEvent returns one server-sent event of a route's stream (WHATWG HTML, section 9.2)
// without members that have no claim. If the data is not of the route's shape, the whole
// event is removed and the body is empty. Keep-alive comments and the end mark [DONE] pass.
func (t *Table) PruneEvent(route string, event []byte) memproxy.Pruned {
	whole := memproxy.Pruned{Body: event}
	s := t.events[route]
	var data [][]byte
	var others []byte
	known := true // the event has only known lines, so that it can pass unchanged
	for line := range lines(event) {
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch {
		case string(name) == "data":
			data = append(data, value)
		case claimedLine(name, value):
			others = append(append(others, line...), '\n')
		default:
			known = false
		}
	}
	joined := bytes.Join(data, []byte("\n"))
	switch {
	case len(data) == 1 && string(joined) == "[DONE]":
		return whole
	case len(data) == 0 && known:
		return whole
	case len(data) == 0:
		return memproxy.Pruned{Body: formatEvent(others, nil), Unclaimed: 1}
	}
	p, err := prune(s, joined, nil)
	if err != nil || s == nil {
		return memproxy.Pruned{Unclaimed: 1, Names: []string{"/-"}}
	}
	if p.Unclaimed == 0 && known {
		return whole
	}
	p.Body = formatEvent(others, p.Body)
	return p
}

// claimedLine reports whether a line other than data is of a known kind: an event name, an
// id, a retry time, or a keep-alive comment (sse-starlette adds the time). None of them can
// carry a text.
func claimedLine(name, value []byte) bool {
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

// lines iterates over an event's lines that are not empty. A line ends with a line feed, a
// carriage return, or both.
func lines(event []byte) iter.Seq[[]byte] {
	return bytes.FieldsFuncSeq(event, func(r rune) bool { return r == '\r' || r == '\n' })
}

func formatEvent(others, data []byte) []byte {
	if len(others) == 0 && data == nil {
		return nil
	}
	out := bytes.Clone(others)
	if data != nil {
		for line := range lines(data) {
			out = append(append(append(out, "data: "...), line...), '\n')
		}
	}
	return append(out, '\n')
}
