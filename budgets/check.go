package budgets

import (
	"errors"
	"fmt"
	"time"

	"github.com/memproxy/memproxy"
)

// The bounds of a charge. Past them a charge is a programming error.
const (
	MaxCost  = 1 << 20
	MaxLines = 64
	MaxKey   = 512
)

// Check refuses charges that no store should see.
func Check(c memproxy.Charge) error {
	switch {
	case c.ID == "" || len(c.ID) > MaxKey:
		return errors.New("budgets: a charge needs an id of at most 512 bytes")
	case len(c.Tenant) > MaxKey:
		return errors.New("budgets: a tenant must have at most 512 bytes")
	case c.Cost < 0 || c.Cost > MaxCost:
		return fmt.Errorf("budgets: cost %d is not from 0 to %d", c.Cost, MaxCost)
	case len(c.Lines) > MaxLines:
		return fmt.Errorf("budgets: %d lines are more than %d", len(c.Lines), MaxLines)
	case c.Time.IsZero():
		return errors.New("budgets: a charge needs its time")
	}
	for i, l := range c.Lines {
		if l.Key == "" || len(l.Key) > MaxKey {
			return errors.New("budgets: a line's key must have 1 to 512 bytes")
		}
		if Length(l.Window) < 0 {
			return fmt.Errorf("budgets: unknown window %q", l.Window)
		}
		for _, m := range c.Lines[:i] {
			if m.Key == l.Key && m.Window == l.Window {
				return fmt.Errorf("budgets: two lines draw on %s in one %s", l.Key, l.Window)
			}
		}
	}
	return nil
}

// Length is how long a window counts: 0 for ever, -1 for an unknown window.
func Length(w memproxy.Window) time.Duration {
	switch w {
	case memproxy.WindowMinute:
		return time.Minute
	case memproxy.WindowHour:
		return time.Hour
	case memproxy.WindowTotal:
		return 0
	}
	return -1
}

// An hour slides. It is counted by minutes, and what was written in a minute
// counts until all of that minute is an hour old, so that no sixty minutes
// whatever hold more than the limit.
const minutesCounted = 60

// Minute is the number of the minute that t lies in.
func Minute(t time.Time) int64 { return t.Unix() / 60 }

// Counted is the first minute that counts at t.
func Counted(t time.Time) int64 { return Minute(t) - minutesCounted }

// Latest is the last minute that counts at t: a replica's clock may be ahead of another's.
// What a clock that was more than an hour ahead counted would count until then.
func Latest(t time.Time) int64 { return Minute(t) + minutesCounted }

// leaves is when a minute counts no more.
func leaves(minute int64) time.Time {
	return time.Unix((minute+minutesCounted+1)*60, 0).UTC()
}

// Count is what stands on a line's account.
type Count struct {
	Used int64
	// Frees is, for an hour, the minute that frees room for the charge when it
	// leaves, where there is none now, else the oldest that counts; 0: none does.
	Frees int64
}

// Slot is the number of the window that t lies in, and when it ends. Windows
// other than the hour are aligned to the clock, so that every replica counts in
// the same one. The hour has one slot, with its minutes in it.
func Slot(w memproxy.Window, t time.Time) (slot int64, reset time.Time) {
	d := Length(w)
	if d <= 0 || w == memproxy.WindowHour {
		return 0, time.Time{}
	}
	slot = t.UnixNano() / int64(d)
	return slot, time.Unix(0, (slot+1)*int64(d)).UTC()
}

// Settle turns the counts after a charge into an allowance. Counts are those
// that would be if the charge were granted (cost included) or, when it is
// refused, those that are.
func Settle(c memproxy.Charge, counts []Count, granted, fresh bool) memproxy.Allowance {
	a := memproxy.Allowance{Granted: granted, Refused: -1, Lines: make([]memproxy.LineState, len(c.Lines))}
	for i, l := range c.Lines {
		st := memproxy.LineState{Line: l, Used: counts[i].Used}
		switch _, st.Reset = Slot(l.Window, c.Time); {
		case l.Window != memproxy.WindowHour:
		case counts[i].Frees == 0: // nothing that leaves makes room
			st.Reset = c.Time.Add(time.Hour).UTC()
		default:
			st.Reset = leaves(counts[i].Frees)
		}
		if granted && fresh && c.Cost > 0 && l.Limit > 0 {
			at := l.Limit
			if !l.Soft {
				at = l.Limit - l.Limit/5 // 80 %, rounded up, without overflow
			} else {
				at++ // a soft line warns when it is passed, not when it is reached
			}
			st.Warn = st.Used >= at && st.Used-c.Cost < at
		}
		a.Lines[i] = st
		if !granted && Over(c, l, counts[i].Used) {
			if a.Refused < 0 || later(st.Reset, a.Lines[a.Refused].Reset) {
				a.Refused = i
			}
		}
	}
	return a
}

// Over reports whether a line with that much used refuses the charge.
func Over(c memproxy.Charge, l memproxy.Line, used int64) bool {
	return !c.Written && !l.Soft && l.Limit >= 0 && used+c.Cost > l.Limit
}

// later orders resets; the zero time never comes.
func later(a, b time.Time) bool {
	if b.IsZero() {
		return false
	}
	return a.IsZero() || a.After(b)
}
