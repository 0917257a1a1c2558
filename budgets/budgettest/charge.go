package budgettest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/budgets"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

func allOrNothing(t *testing.T, b *bench) {
	own, all := hour("principal/a", 10), total("tenant/acme", 3)
	b.grant(b.ask(3, own, all), 3, 3)
	b.refuse(b.ask(1, own, all), 1, 3, 3)
	// The refused charge left nothing on the line that had room.
	b.grant(b.ask(1, own), 4)
	// Order does not matter: the full line first.
	b.refuse(b.ask(1, all, own), 0, 3, 4)
	b.grant(b.ask(6, own), 10)
}

func sameIDChargesOnce(t *testing.T, b *bench) {
	c := b.ask(4, hour("principal/a", 5), total("principal/a", 100))
	b.grant(c, 4, 4)
	b.grant(c, 4, 4) // does not fit a second time and need not
	again := b.charge(c)
	if again.Lines[0].Warn {
		t.Error("a repeated charge warned again")
	}
	b.grant(b.ask(1, hour("principal/a", 5)), 5)
}

// A refusal is not remembered: the same decision may be retried once there is room.
func refusedIDMayTryAgain(t *testing.T, b *bench) {
	full := b.ask(2, total("principal/a", 2))
	b.grant(full, 2)
	c := b.ask(1, total("principal/a", 2))
	b.refuse(c, 0, 2)
	b.release(full)
	b.grant(c, 1)
}

// The hour is a sliding window: any sixty minutes hold at most the limit, so writes
// late in one clock hour count in the next.
func hourSlides(t *testing.T, b *bench) {
	line := hour("principal/a", 3)
	begun := b.Now()
	a := b.grant(b.ask(2, line), 2)
	free := begun.Truncate(time.Minute).Add(61 * time.Minute)
	if !a.Lines[0].Reset.Equal(free) || a.Lines[0].Remaining() != 1 {
		t.Errorf("reset %v, want %v; remaining %d", a.Lines[0].Reset, free, a.Lines[0].Remaining())
	}
	b.Advance(29 * time.Minute) // 12:59:20
	late := b.grant(b.ask(1, line), 3)
	if !late.Lines[0].Reset.Equal(free) {
		t.Errorf("reset %v, want that of the oldest, %v", late.Lines[0].Reset, free)
	}
	b.Advance(time.Minute) // the next clock hour
	no := b.refuse(b.ask(1, line), 0, 3)
	if s, want := no.RetryAfter(b.Now()), int(free.Sub(b.Now()).Seconds()); s != want {
		t.Errorf("Retry-After %d, want %d", s, want)
	}
	// Room for three only once the late charge has left the window as well.
	no = b.refuse(b.ask(3, line), 0, 3)
	if want := free.Add(29 * time.Minute); !no.Lines[0].Reset.Equal(want) {
		t.Errorf("room for three at %v, want %v", no.Lines[0].Reset, want)
	}
	b.Advance(free.Sub(b.Now()) - time.Nanosecond)
	no = b.refuse(b.ask(1, line), 0, 3)
	expect.Equal(t, no.RetryAfter(b.Now()), 1, "Retry-After")
	b.Advance(time.Nanosecond)
	b.grant(b.ask(2, line), 3)
	b.refuse(b.ask(1, line), 0, 3)
	b.Advance(29 * time.Minute)
	b.grant(b.ask(1, line), 3)
	b.Advance(26 * time.Hour)
	b.grant(b.ask(3, line), 3)
	if no := b.refuse(b.ask(4, line), 0, 3); !no.Lines[0].Reset.After(b.Now()) {
		t.Errorf("what never fits resets at %v", no.Lines[0].Reset)
	}
}

// A release is subtracted from the minute of its charge.
func hourIsGivenBack(t *testing.T, b *bench) {
	line := hour("principal/a", 3)
	first := b.ask(2, line)
	b.grant(first, 2)
	b.Advance(10 * time.Minute)
	b.grant(b.ask(1, line), 3)
	b.release(first)
	b.grant(b.ask(2, line), 3)
	late := b.ask(0, line)
	late.Cost = 1
	b.Advance(52 * time.Minute) // the first minute has left the window
	b.refuse(b.ask(1, line), 0, 3)
	b.Advance(time.Hour)
	b.grant(b.ask(3, line), 3)
	b.release(late) // charged two hours ago
	b.refuse(b.ask(1, line), 0, 3)
}

// Charges whose times are far ahead stop counting once the clock is right; those of a
// replica whose clock is a few minutes ahead count.
func hourOfAWrongClock(t *testing.T, b *bench) {
	line := hour("principal/a", 3)
	for ahead, counts := range map[time.Duration]int64{10 * time.Minute: 1, 90 * time.Minute: 0, 9 * 365 * 24 * time.Hour: 0} {
		line.Key = fmt.Sprint("principal/", ahead)
		early := b.ask(1, line)
		early.Time = early.Time.Add(ahead)
		b.grant(early, 1)
		b.grant(b.ask(3-counts, line), 3)
		b.refuse(b.ask(1, line), 0, 3)
	}
}

func totalsDoNotRollOver(t *testing.T, b *bench) {
	line := total("principal/a", 3)
	a := b.grant(b.ask(2, line), 2)
	if !a.Lines[0].Reset.IsZero() {
		t.Errorf("a total resets at %v", a.Lines[0].Reset)
	}
	for range 3 {
		b.Advance(25 * time.Hour)
	}
	no := b.refuse(b.ask(2, line), 0, 2)
	expect.Equal(t, no.RetryAfter(b.Now()), int(memproxy.WaitForDeletion/time.Second), "Retry-After")
	b.grant(b.ask(1, line), 3)
}

func releaseLowersTotals(t *testing.T, b *bench) {
	lines := []memproxy.Line{hour("principal/a", 10), total("principal/a", 3)}
	first := b.ask(2, lines...)
	b.grant(first, 2, 2)
	b.grant(b.ask(1, lines...), 3, 3)
	b.refuse(b.ask(1, lines...), 1, 3, 3)
	// Deleting one memory: a release with its own id, on the total only.
	b.release(b.ask(1, lines[1]))
	b.grant(b.ask(1, lines...), 4, 3)
	// The backend refused the first charge: it is refunded in full.
	b.release(first)
	b.grant(b.ask(2, lines...), 4, 3)
}

func releaseIsIdempotent(t *testing.T, b *bench) {
	line := total("principal/a", 10)
	c := b.ask(3, line)
	b.grant(c, 3)
	b.grant(b.ask(5, line), 8)
	b.release(c)
	b.release(c)
	b.grant(b.ask(0, line), 5)
	// The id of a released charge is still remembered, so it is not charged again.
	b.grant(c, 5)
}

func releaseNeverGoesBelowZero(t *testing.T, b *bench) {
	line := total("principal/a", 3)
	b.release(b.ask(5, line))
	b.grant(b.ask(3, line), 3)
	b.release(b.ask(100, line))
	b.grant(b.ask(3, line), 3)
	b.refuse(b.ask(1, line), 0, 3)
}

func releaseLeavesSoftLines(t *testing.T, b *bench) {
	c := b.ask(2, total("principal/a", 10), rapid("principal/a", 5))
	b.grant(c, 2, 2)
	b.release(c)
	// The writes of the last minute happened all the same.
	b.grant(b.ask(1, total("principal/a", 10), rapid("principal/a", 5)), 1, 3)
	// A limit that is not enforced counts like one that is.
	c = b.ask(2, watched(total("principal/b", 1)))
	b.grant(c, 2)
	b.release(c)
	b.grant(b.ask(1, watched(total("principal/b", 1))), 1)
}

func watched(l memproxy.Line) memproxy.Line {
	l.Soft = true
	return l
}

func warnsOnce(t *testing.T, b *bench) {
	for _, c := range []struct {
		line  memproxy.Line
		costs []int64
		warn  int // the charge that warns
	}{
		{hour("ten", 10), []int64{7, 1, 1, 1}, 1},
		{hour("leap", 10), []int64{1, 9}, 1},
		{total("seven", 7), []int64{5, 1, 1}, 1}, // 80 % of 7 is 5.6: six
		{total("one", 1), []int64{1}, 0},
		{rapid("rush", 2), []int64{1, 1, 1, 1}, 2}, // exceeded, not reached
		{hour("never", -1), []int64{100}, -1},
		{watched(hour("watched", 10)), []int64{7, 1, 9}, 1},
	} {
		for i, cost := range c.costs {
			a := b.grant(b.ask(cost, c.line))
			if a.Lines[0].Warn != (i == c.warn) {
				t.Errorf("%s: charge %d of %v: warn %v", c.line.Key, i, c.costs, a.Lines[0].Warn)
			}
		}
	}
	// A refusal does not warn, but the next charge that crosses the mark does.
	line := hour("refused", 10)
	b.grant(b.ask(7, line), 7)
	if no := b.refuse(b.ask(4, line), 0, 7); no.Lines[0].Warn {
		t.Error("a refused charge warned")
	}
	if !b.grant(b.ask(1, line), 8).Lines[0].Warn {
		t.Error("the charge after a refusal did not warn")
	}
}

func softLinesNeverRefuse(t *testing.T, b *bench) {
	line := rapid("principal/a", 2)
	b.grant(b.ask(50, line), 50)
	b.grant(b.ask(50, line, hour("principal/a", 50)), 100, 50)
	// A hard line in the same charge does refuse, and is the one reported.
	b.refuse(b.ask(1, line, hour("principal/a", 50)), 1, 100, 50)
	b.Advance(time.Minute)
	b.grant(b.ask(1, line), 1)
}

func unlimitedLinesAreCounted(t *testing.T, b *bench) {
	b.grant(b.ask(1000, total("principal/a", -1)), 1000)
	b.grant(b.ask(1, total("principal/a", 1001)), 1001)
	b.refuse(b.ask(1, total("principal/a", 1001)), 0, 1001)
}

func costOfMany(t *testing.T, b *bench) {
	line := hour("principal/a", 10)
	b.refuse(b.ask(11, line), 0, 0)
	b.grant(b.ask(8, line), 8)
	expect.Equal(t, b.refuse(b.ask(3, line), 0, 8).Lines[0].Remaining(), 2, "remaining")
	b.grant(b.ask(2, line), 10)
	b.refuse(b.ask(budgets.MaxCost, line), 0, 10)
}

func costOfNothing(t *testing.T, b *bench) {
	line := hour("principal/a", 1)
	b.grant(b.ask(0, line), 0)
	b.grant(b.ask(1, line), 1)
	if b.grant(b.ask(0, line), 1).Lines[0].Warn {
		t.Error("a charge of nothing warned")
	}
	b.grant(b.ask(5), []int64{}...) // without lines nothing refuses
}

func manyLines(t *testing.T, b *bench) {
	lines := make([]memproxy.Line, budgets.MaxLines)
	for i := range lines {
		lines[i] = hour(fmt.Sprintf("namespace/%d", i), 5)
	}
	a := b.grant(b.ask(5, lines...))
	for i := range a.Lines {
		must.Equal(t, a.Lines[i].Used, 5, "line", i)
	}
	lines[budgets.MaxLines-1].Key = "namespace/fresh"
	b.refuse(b.ask(1, lines...), 0)
	b.grant(b.ask(5, lines[budgets.MaxLines-1]), 5)
}

// If several lines refuse, the result names the one with the latest reset.
func latestResetRefuses(t *testing.T, b *bench) {
	minute := memproxy.Line{Reason: memproxy.BudgetHour, Key: "m", Window: memproxy.WindowMinute, Limit: 0}
	b.refuse(b.ask(1, minute, hour("h", 0), hour("h2", 5)), 1)
	b.refuse(b.ask(1, hour("h", 0), minute), 0)
	b.refuse(b.ask(1, hour("h", 0), total("t", 0), minute), 1)
	b.refuse(b.ask(1, total("t", 0), hour("h", 0)), 0)
}

func tenantsAreApart(t *testing.T, b *bench) {
	line := total("principal/a", 1)
	for _, tenant := range []string{"", "acme", "globex", "{acme}", "ac}me", "#acme", strings.Repeat("x", 64), strings.Repeat("x", 65)} {
		c := b.ask(1, line)
		c.Tenant = tenant
		b.grant(c, 1)
		c = b.ask(1, line)
		c.Tenant = tenant
		b.refuse(c, 0, 1)
	}
}

// Keys contain names chosen by callers: no key may collide with another account.
func oddNames(t *testing.T, b *bench) {
	for _, key := range []string{"principal/a", "principal/a:1", "principal/{a}", "principal/a b", "principal/a\r\nDEL x", "principal/ü", strings.Repeat("k", budgets.MaxKey)} {
		b.grant(b.ask(1, total(key, 1)), 1)
		b.refuse(b.ask(1, total(key, 1)), 0, 1)
	}
	// The same key in different windows is a different account.
	b.grant(b.ask(1, hour("principal/w", 1), total("principal/w", 1), rapid("principal/w", 1)), 1, 1, 1)
	// The ids of charges and releases are separate namespaces.
	line := total("principal/ids", 9)
	c := b.ask(1, line)
	c.ID = "release/x"
	b.grant(c, 1)
	c.ID = "x"
	b.grant(c, 2)
	b.release(c)
	b.grant(b.ask(0, line), 1)
}

func badChargesAreErrors(t *testing.T, b *bench) {
	good := b.ask(1, hour("principal/a", 1))
	for name, spoil := range map[string]func(*memproxy.Charge){
		"no id":          func(c *memproxy.Charge) { c.ID = "" },
		"long id":        func(c *memproxy.Charge) { c.ID = strings.Repeat("i", budgets.MaxKey+1) },
		"long tenant":    func(c *memproxy.Charge) { c.Tenant = strings.Repeat("t", budgets.MaxKey+1) },
		"negative":       func(c *memproxy.Charge) { c.Cost = -1 },
		"enormous":       func(c *memproxy.Charge) { c.Cost = budgets.MaxCost + 1 },
		"no time":        func(c *memproxy.Charge) { c.Time = time.Time{} },
		"no key":         func(c *memproxy.Charge) { c.Lines = []memproxy.Line{hour("", 1)} },
		"long key":       func(c *memproxy.Charge) { c.Lines = []memproxy.Line{hour(strings.Repeat("k", budgets.MaxKey+1), 1)} },
		"unknown window": func(c *memproxy.Charge) { c.Lines = []memproxy.Line{{Key: "k", Window: "day", Limit: 1}} },
		"one account twice": func(c *memproxy.Charge) {
			c.Lines = []memproxy.Line{hour("k", 1), hour("k", 5)}
		},
		"too many lines": func(c *memproxy.Charge) { c.Lines = make([]memproxy.Line, budgets.MaxLines+1) },
	} {
		c := good
		spoil(&c)
		if a, err := b.store.Charge(context.Background(), c); err == nil || a.Granted {
			t.Errorf("%s: charged: %v, granted %v", name, err, a.Granted)
		}
		expect.Error(t, b.store.Release(context.Background(), c), name, "released")
	}
	b.grant(good, 1)
}
