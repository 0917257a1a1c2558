package budgettest

import (
	"testing"
	"time"

	"github.com/memproxy/memproxy"
)

// written is a charge for memories that already exist.
func (b *bench) written(cost int64, lines ...memproxy.Line) memproxy.Charge {
	c := b.ask(cost, lines...)
	c.Written = true
	return c
}

func writtenIsCharged(t *testing.T, b *bench) {
	lines := []memproxy.Line{hour("principal/a", 10), total("principal/a", 20), rapid("principal/a", 3), hour("none", 0)}
	b.grant(b.written(5, lines...), 5, 5, 5, 5)
	a := b.grant(b.written(95, lines...), 100, 100, 100, 100)
	if !a.Lines[0].Warn || !a.Lines[1].Warn || a.Lines[0].Remaining() != 0 {
		t.Errorf("the charge that goes past the mark does not warn: %+v", a.Lines)
	}
	if again := b.grant(b.written(1, lines...), 101); again.Lines[0].Warn {
		t.Error("warned twice")
	}
}

func writtenOnce(_ *testing.T, b *bench) {
	line := total("principal/a", 10)
	first := b.ask(2, line)
	b.grant(first, 2)
	more := b.written(30, line)
	more.ID = first.ID + "/settled"
	b.grant(more, 32)
	b.grant(more, 32)
	rest := b.ask(12, line)
	rest.ID = first.ID + "/settled/total" // another settlement has another id
	b.release(rest)
	b.release(rest)
	b.grant(b.ask(0, total("principal/a", -1)), 20)
}

// A settlement beyond the limit makes the line refuse further charges until there is
// room again.
func overdrafts(_ *testing.T, b *bench) {
	lines := []memproxy.Line{hour("principal/a", 10), total("principal/a", 100)}
	b.grant(b.ask(1, lines...), 1, 1)
	b.grant(b.written(99, lines...), 100, 100)
	b.refuse(b.ask(1, lines[0]), 0, 100)
	b.refuse(b.ask(1, lines...), 1, 100, 100)
	// The hour passes; the total remains.
	b.Advance(time.Hour + time.Minute)
	b.grant(b.ask(1, lines[0]), 1)
	b.refuse(b.ask(1, lines...), 1, 1, 100)
	b.release(b.ask(50, lines[1]))
	b.grant(b.ask(1, lines...), 2, 51)
}

func peeks(t *testing.T, b *bench) {
	lines := []memproxy.Line{hour("principal/a", 10), total("principal/a", 20), rapid("principal/a", 3)}
	c := b.ask(8, lines...)
	peek := c
	peek.Peek = true
	for range 3 {
		if a := b.charge(peek); !a.Granted || a.Lines[0].Warn || a.Lines[2].Warn {
			t.Errorf("%+v", a)
		}
	}
	b.grant(c, 8, 8, 8)
	peek = b.ask(3, lines...)
	peek.Peek = true
	b.refuse(peek, 0, 8, 8, 8)
	b.grant(b.ask(2, lines...), 10, 10, 10)
}
