package budgets

import (
	"cmp"
	"slices"
	"time"

	"github.com/memproxy/memproxy"
)

// sliding counts writes by minute, oldest first. Every entry is positive.
type sliding []written

type written struct{ minute, n int64 }

// during returns the minutes in the window at a time.
func (s sliding) during(at time.Time) sliding {
	first, _ := s.find(Counted(at))
	end, _ := s.find(Latest(at) + 1)
	return s[first:end]
}

// count is the state of a line when a charge arrives.
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

// add adds n, which may be negative, to the minute of at, and drops minutes that have
// left the window.
func (s sliding) add(at time.Time, n int64) sliding {
	minute := Minute(at)
	switch i, found := s.find(minute); {
	case found:
		s[i].n += n
	case n > 0:
		s = slices.Insert(s, i, written{minute, n})
	}
	first, _ := s.find(Counted(at)) // later minutes stay: at may be in the past
	return slices.DeleteFunc(s[first:], func(w written) bool { return w.n <= 0 })
}
