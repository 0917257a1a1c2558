package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/memproxy/memproxy"
)

// Terminal is a writer that a person looks at, so that a line on it can be
// written over.
type Terminal struct{ io.Writer }

// WriterFor returns what commands write to a file with: a Terminal if it is one.
func WriterFor(f *os.File) io.Writer {
	info, err := f.Stat()
	if err == nil && info.Mode()&os.ModeCharDevice != 0 && info.Name() != "null" {
		return Terminal{f}
	}
	return f
}

// onTerminal is the terminal that a writer of Main writes to, if it is one.
func onTerminal(w io.Writer) (Terminal, bool) {
	if p, is := w.(*plain); is {
		w = p.to
	}
	t, is := w.(Terminal)
	return t, is
}

// Meter shows progress on one line of a terminal, until it is done. A nil Meter
// shows nothing.
type Meter struct {
	w     io.Writer
	noun  string
	now   func() time.Time
	start time.Time
	size  int64 // bytes of input; 0 when that is not known

	mu          sync.Mutex
	done, total int64 // as set was told
	bytes       int64 // of input that were read
	shown       time.Time
	width       int // of what stands on the line
}

// redraw is how often the line is drawn at most.
const redraw = 100 * time.Millisecond

// newMeter returns a meter that draws on w: noun is what is counted ("lines"),
// size the bytes of the whole input or 0.
func newMeter(w io.Writer, noun string, size int64, now func() time.Time) *Meter {
	return &Meter{w: w, noun: noun, size: size, now: now, start: now()}
}

// MeterOn returns a meter of what is counted ("lines") where stderr is a terminal,
// else nil. What is read from a file tells how much is left.
func MeterOn(stderr io.Writer, noun string, from io.Reader) *Meter {
	to, is := onTerminal(stderr)
	if !is {
		return nil
	}
	var size int64
	if f, is := from.(*os.File); is {
		size = remaining(f)
	}
	return newMeter(to, noun, size, time.Now)
}

// Meter is MeterOn for a command that prints one answer: one for people.
func (o Output) Meter(stderr io.Writer, noun string) *Meter {
	if o != Table {
		return nil
	}
	return MeterOn(stderr, noun, nil)
}

// remaining is how many bytes are left to read of a regular file, or 0.
func remaining(f *os.File) int64 {
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return 0
	}
	at, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		return 0
	}
	return max(0, info.Size()-at)
}

// Reader counts what is read through it against the total.
func (m *Meter) Reader(r io.Reader) io.Reader {
	if m == nil {
		return r
	}
	return counted{r, m}
}

type counted struct {
	r io.Reader
	m *Meter
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.m.mu.Lock()
	c.m.bytes += int64(n)
	c.m.mu.Unlock()
	return n, err
}

// Writer clears the line before each write to w and leaves it to be drawn
// again, where w is a terminal too.
func (m *Meter) Writer(w io.Writer) io.Writer {
	if _, is := onTerminal(w); m == nil || !is {
		return w
	}
	return clearing{w, m}
}

type clearing struct {
	w io.Writer
	m *Meter
}

func (c clearing) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	c.m.clear()
	return c.w.Write(p)
}

// Progress is what the meter is told, nil of a nil one.
func (m *Meter) Progress() memproxy.Progress {
	if m == nil {
		return nil
	}
	return m.set
}

func (m *Meter) set(done, total int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.done, m.total = done, total
	if now := m.now(); now.Sub(m.shown) >= redraw {
		m.draw(now)
	}
}

// Done clears the line.
func (m *Meter) Done() {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.clear()
}

func (m *Meter) clear() {
	if m.width > 0 {
		fmt.Fprint(m.w, "\r", strings.Repeat(" ", m.width), "\r")
		m.width = 0
	}
}

// draw writes over what stands on the line. Errors are of a terminal that
// went away: the work goes on without it.
func (m *Meter) draw(now time.Time) {
	s := m.text(now)
	fmt.Fprint(m.w, "\r", s, strings.Repeat(" ", max(0, m.width-len(s))))
	m.width, m.shown = len(s), now
}

// bar is how many characters the bar has.
const bar = 24

func (m *Meter) text(now time.Time) string {
	var b strings.Builder
	elapsed := now.Sub(m.start)
	at, of := m.done, m.total
	if of == 0 {
		at, of = m.bytes, m.size
	}
	if of > 0 {
		share := min(1, float64(at)/float64(of))
		full := int(share * bar)
		fmt.Fprintf(&b, "[%s%s] %3d%%  ", strings.Repeat("#", full), strings.Repeat(".", bar-full), int(share*100))
	}
	rate := 0.0
	if elapsed > 0 {
		rate = float64(m.done) / elapsed.Seconds()
	}
	fmt.Fprintf(&b, "%d %s  %.0f/s", m.done, m.noun, rate)
	if 0 < at && at < of && elapsed > 0 {
		left := time.Duration(float64(elapsed) * (float64(of)/float64(at) - 1))
		fmt.Fprintf(&b, "  %s left", left.Round(time.Second))
	}
	return b.String()
}
