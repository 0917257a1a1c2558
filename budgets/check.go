package budgets

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/memproxy/memproxy"
)

// Limits on a charge. Exceeding them is a programming error.
const (
	MaxCost  = 1 << 20
	MaxLines = 64
	MaxKey   = 512
)

// Check validates a charge; every store calls it first.
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
		if WindowLength(l.Window) < 0 {
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

// WindowLength is the length of a window: 0 for an unbounded one, -1 for an unknown one.
func WindowLength(w memproxy.Window) time.Duration {
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

// The hour is a sliding window of minutes. Writes count until their whole minute is an
// hour old, so that no sixty minutes contain more than the limit.
const minutesCounted = 60

// Minute is the number of t's minute since the epoch.
func Minute(t time.Time) int64 { return t.Unix() / 60 }

// FirstMinute is the first minute in the sliding window at t.
func FirstMinute(t time.Time) int64 { return Minute(t) - minutesCounted }

// LastMinute is the last minute in the sliding window at t: in the future, because the clock
// of another replica may be ahead. Later minutes come from a wrong clock and do not count.
func LastMinute(t time.Time) int64 { return Minute(t) + minutesCounted }

func windowEnd(minute int64) time.Time {
	return time.Unix((minute+minutesCounted+1)*60, 0).UTC()
}

// Count is the state of a line's account.
type Count struct {
	Used int64
	// FreeingMinute is set for an hour line: the minute that has to leave the window to
	// make room for the charge. If there is room already, it is the oldest minute in the
	// window; 0 if the window is empty.
	FreeingMinute int64
}

// WindowIndex returns the number of t's window and the time at which the window ends. Minute
// windows are aligned to the clock so that all replicas count in the same one. The hour
// has a single slot that contains its minutes.
func WindowIndex(w memproxy.Window, t time.Time) (slot int64, reset time.Time) {
	d := WindowLength(w)
	if d <= 0 || w == memproxy.WindowHour {
		return 0, time.Time{}
	}
	slot = t.UnixNano() / int64(d)
	return slot, time.Unix(0, (slot+1)*int64(d)).UTC()
}

// AllowanceOf turns counts into the allowance of a charge. The counts include the cost if
// the charge is granted.
func AllowanceOf(c memproxy.Charge, counts []Count, granted, fresh bool) memproxy.Allowance {
	a := memproxy.Allowance{Granted: granted, Refused: -1, Lines: make([]memproxy.LineState, len(c.Lines))}
	for i, l := range c.Lines {
		st := memproxy.LineState{Line: l, Used: counts[i].Used}
		switch _, st.Reset = WindowIndex(l.Window, c.Time); {
		case l.Window != memproxy.WindowHour:
		case counts[i].FreeingMinute == 0: // the charge costs more than the limit, or the window is empty
			st.Reset = c.Time.Add(time.Hour).UTC()
		default:
			st.Reset = windowEnd(counts[i].FreeingMinute)
		}
		if granted && fresh && c.Cost > 0 && l.Limit > 0 {
			at := l.Limit
			if l.Window != memproxy.WindowMinute {
				at = l.Limit - l.Limit/5 // 80 %, rounded up, without overflow
			} else {
				at++ // a minute warns when it is exceeded, other lines at 80 %
			}
			st.Warn = st.Used >= at && st.Used-c.Cost < at
		}
		a.Lines[i] = st
		if !granted && Exceeds(c, l, counts[i].Used) {
			if a.Refused < 0 || later(st.Reset, a.Lines[a.Refused].Reset) {
				a.Refused = i
			}
		}
	}
	return a
}

// Exceeds reports whether a line with that count refuses the charge. Soft lines and
// charges for memories that already exist (Written) are never refused.
func Exceeds(c memproxy.Charge, l memproxy.Line, used int64) bool {
	return !c.Written && !l.Soft && l.Limit >= 0 && used+c.Cost > l.Limit
}

// Returned is a charge with the lines to which a release returns its cost: not the minutes,
// because the writes that they count happened all the same.
func Returned(c memproxy.Charge) memproxy.Charge {
	c.Lines = slices.DeleteFunc(slices.Clone(c.Lines), func(l memproxy.Line) bool { return l.Window == memproxy.WindowMinute })
	return c
}

// later compares resets; the zero time means never.
func later(a, b time.Time) bool {
	if b.IsZero() {
		return false
	}
	return a.IsZero() || a.After(b)
}
