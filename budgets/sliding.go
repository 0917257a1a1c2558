package budgets

import (
	"cmp"
	"slices"
	"time"

	"github.com/memproxy/memproxy"
)

// sliding is what was written in which minutes, the oldest first. No minute
// holds nothing.
type sliding []written

type written struct{ minute, n int64 }

// during are the minutes that count at a time.
func (s sliding) during(at time.Time) sliding {
	first, _ := s.find(Counted(at))
	end, _ := s.find(Latest(at) + 1)
	return s[first:end]
}

// count is what counts when a charge comes.
func (s sliding) count(c memproxy.Charge, l memproxy.Line) Count {
	s = s.during(c.Time)
	var out Count
	for _, w := range s {
		out.Used += w.n
	}
	missing := int64(0)
	if Over(c, l, out.Used) {
		missing = out.Used + c.Cost - l.Limit
	}
	for _, w := range s {
		out.Frees = w.minute
		if missing -= w.n; missing <= 0 {
			break
		}
	}
	return out
}

func (s sliding) find(minute int64) (int, bool) {
	return slices.BinarySearchFunc(s, minute, func(w written, m int64) int { return cmp.Compare(w.minute, m) })
}

// add counts n more, or fewer, in the minute of at, and drops what has left.
func (s sliding) add(at time.Time, n int64) sliding {
	minute := Minute(at)
	switch i, found := s.find(minute); {
	case found:
		s[i].n += n
	case n > 0:
		s = slices.Insert(s, i, written{minute, n})
	}
	first, _ := s.find(Counted(at)) // what is later than at stays: it may be long ago that it was charged
	return slices.DeleteFunc(s[first:], func(w written) bool { return w.n <= 0 })
}
