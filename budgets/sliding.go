package budgets

import (
	"slices"
	"time"

	"github.com/memproxy/memproxy"
)

// sliding is what was written in which minutes, the oldest first. No minute
// holds nothing.
type sliding []written

type written struct{ minute, n int64 }

// count is what counts when a charge comes.
func (s sliding) count(c memproxy.Charge, l memproxy.Line) Count {
	from := Counted(c.Time)
	var out Count
	for _, w := range s {
		if w.minute >= from {
			out.Used += w.n
		}
	}
	missing := int64(0)
	if Over(c, l, out.Used) {
		missing = out.Used + c.Cost - l.Limit
	}
	for _, w := range s {
		if w.minute < from {
			continue
		}
		out.Frees = w.minute
		if missing -= w.n; missing <= 0 {
			break
		}
	}
	return out
}

// add counts n more, or fewer, in the minute of at, and drops what has left.
func (s sliding) add(at time.Time, n int64) sliding {
	from, minute := Counted(at), Minute(at)
	i, found := slices.BinarySearchFunc(s, minute, func(w written, m int64) int { return int(w.minute - m) })
	switch {
	case found:
		s[i].n += n
	case n > 0:
		s = slices.Insert(s, i, written{minute, n})
	}
	return slices.DeleteFunc(s, func(w written) bool { return w.minute < from || w.n <= 0 })
}
