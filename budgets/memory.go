package budgets

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/memproxy/memproxy"
)

// Charge ids are remembered, for idempotence, up to this age and this number.
const (
	remembered    = 10 * time.Minute
	maxRemembered = 100_000
)

// Memory is a store that counts in this process. Windows follow the times of the
// charges, not a clock.
type Memory struct {
	mu     sync.Mutex
	counts map[account]int64
	hours  map[account]sliding
	ids    map[effect]time.Time
	order  []effect // oldest first
	swept  int64    // hour of the last sweep
	totals *totals  // nil: totals are not stored in a file
}

// effect is a charge or release that took effect.
type effect struct {
	id      string
	release bool
}

type account struct {
	tenant, key string
	window      memproxy.Window
	slot        int64
}

func accountOf(c memproxy.Charge, l memproxy.Line) account {
	slot, _ := WindowIndex(l.Window, c.Time)
	return account{c.Tenant, l.Key, l.Window, slot}
}

// NewMemory returns a store. With a path it loads the totals from that file, and they
// survive a restart; without a path they do not.
func NewMemory(path string) (*Memory, error) {
	m := &Memory{counts: map[account]int64{}, hours: map[account]sliding{}, ids: map[effect]time.Time{}}
	if path == "" {
		return m, nil
	}
	var err error
	if m.totals, m.counts, err = openTotals(path); err != nil {
		return nil, err
	}
	return m, nil
}

// Charge implements Store.
func (m *Memory) Charge(_ context.Context, c memproxy.Charge) (memproxy.Allowance, error) {
	if err := Check(c); err != nil {
		return memproxy.Allowance{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sweep(c.Time)
	// Most charges have fewer lines than this, so the slices need no allocation.
	keys, counts := make([]account, 0, 8), make([]Count, 0, 8)
	granted := true
	for _, l := range c.Lines {
		k := accountOf(c, l)
		var n Count
		if l.Window == memproxy.WindowHour {
			n = m.hours[k].count(c, l)
		} else {
			n.Used = m.counts[k]
		}
		keys, counts = append(keys, k), append(counts, n)
		granted = granted && !Exceeds(c, l, n.Used)
	}
	if _, again := m.ids[effect{c.ID, false}]; again {
		return AllowanceOf(c, counts, true, false), nil
	}
	if !granted || c.Peek {
		return AllowanceOf(c, counts, granted, !c.Peek), nil
	}
	err := m.persistTotals(c, c.Cost)
	if err != nil && !c.Written {
		return memproxy.Allowance{}, err // after an error nothing is forwarded, so nothing is counted
	}
	for i, k := range keys {
		counts[i].Used += c.Cost
		switch {
		case c.Cost == 0:
		case k.window == memproxy.WindowHour:
			m.hours[k] = m.hours[k].add(c.Time, c.Cost)
			if counts[i].FreeingMinute == 0 {
				counts[i].FreeingMinute = Minute(c.Time)
			}
		default:
			m.counts[k] = counts[i].Used
		}
	}
	m.remember(effect{c.ID, false}, c.Time)
	m.totals.compact(m.counts)
	return AllowanceOf(c, counts, true, true), err
}

// Release implements Store.
func (m *Memory) Release(_ context.Context, c memproxy.Charge) error {
	if err := Check(c); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	id := effect{c.ID, true}
	if _, again := m.ids[id]; again {
		return nil
	}
	m.remember(id, c.Time)
	c = Returned(c)
	for _, l := range c.Lines {
		k := accountOf(c, l)
		if l.Window == memproxy.WindowHour {
			if m.hours[k] = m.hours[k].add(c.Time, -c.Cost); len(m.hours[k]) == 0 {
				delete(m.hours, k)
			}
			continue
		}
		if n := m.counts[k] - c.Cost; n > 0 {
			m.counts[k] = n
		} else {
			delete(m.counts, k)
		}
	}
	err := m.persistTotals(c, -c.Cost)
	m.totals.compact(m.counts)
	return err
}

// Ping returns an error while totals cannot be written, because charges to them fail then.
func (m *Memory) Ping(context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.totals.probe()
}

func (m *Memory) persistTotals(c memproxy.Charge, delta int64) error {
	if m.totals == nil || delta == 0 {
		return nil
	}
	changes := make([]entry, 0, 8)
	for _, l := range c.Lines {
		if l.Window == memproxy.WindowTotal {
			changes = append(changes, entry{c.Tenant, l.Key, delta})
		}
	}
	if len(changes) == 0 {
		return nil
	}
	return m.totals.add(changes)
}

// remember adds a charge or release and drops expired ones.
func (m *Memory) remember(id effect, at time.Time) {
	m.ids[id] = at
	m.order = append(m.order, id)
	for len(m.order) > 0 && (len(m.order) > maxRemembered || at.Sub(m.ids[m.order[0]]) > remembered) {
		delete(m.ids, m.order[0])
		m.order = m.order[1:]
	}
}

// sweep drops ended windows, at most once an hour.
func (m *Memory) sweep(now time.Time) {
	hour := now.Unix() / 3600
	if hour == m.swept {
		return
	}
	m.swept = hour
	for k, s := range m.hours {
		if len(s.inWindow(now)) == 0 {
			delete(m.hours, k)
		}
	}
	for k := range m.counts {
		if d := WindowLength(k.window); d > 0 {
			if slot, _ := WindowIndex(k.window, now); k.slot < slot-1 {
				delete(m.counts, k)
			}
		}
	}
}

// Close syncs and closes the file.
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.totals.close()
}

// sliding counts writes by minute, oldest first. Every entry is positive.
type sliding []written

type written struct{ minute, n int64 }

// inWindow returns the minutes in the window at a time.
func (s sliding) inWindow(at time.Time) sliding {
	first, _ := s.find(FirstMinute(at))
	end, _ := s.find(LastMinute(at) + 1)
	return s[first:end]
}

// count returns the state of a line's account before a charge.
func (s sliding) count(c memproxy.Charge, l memproxy.Line) Count {
	s = s.inWindow(c.Time)
	var out Count
	for _, w := range s {
		out.Used += w.n
	}
	missing := int64(0)
	if Exceeds(c, l, out.Used) {
		missing = out.Used + c.Cost - l.Limit
	}
	for _, w := range s {
		out.FreeingMinute = w.minute
		if missing -= w.n; missing <= 0 {
			break
		}
	}
	return out
}

func (s sliding) find(minute int64) (int, bool) {
	return slices.BinarySearchFunc(s, minute, func(w written, m int64) int { return cmp.Compare(w.minute, m) })
}

// add adds n, which may be negative, to at's minute, and drops minutes before the window.
func (s sliding) add(at time.Time, n int64) sliding {
	minute := Minute(at)
	switch i, found := s.find(minute); {
	case found:
		s[i].n += n
	case n > 0:
		s = slices.Insert(s, i, written{minute, n})
	}
	first, _ := s.find(FirstMinute(at)) // later minutes are kept: at may be in the past
	return slices.DeleteFunc(s[first:], func(w written) bool { return w.n <= 0 })
}
