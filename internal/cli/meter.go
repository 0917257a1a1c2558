package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// Meter shows progress on one line of a terminal. A nil Meter shows nothing.
type Meter struct {
	w     io.Writer
	noun  string
	now   func() time.Time
	start time.Time
	total int64 // bytes of input; 0 when that is not known

	mu    sync.Mutex
	count int64
	bytes int64
	shown time.Time
	width int // of what stands on the line
}

// redraw is how often the line is drawn at most.
const redraw = 100 * time.Millisecond

// newMeter returns a meter that draws on w: noun is what is counted ("lines"),
// total the bytes of the whole input or 0.
func newMeter(w io.Writer, noun string, total int64, now func() time.Time) *Meter {
	return &Meter{w: w, noun: noun, total: total, now: now, start: now()}
}

// MeterOn returns a meter of what is counted ("lines") where stderr is a terminal
// and stdout is not, whose lines would be among the meter's; else nil. What is read
// from a file tells how much is left.
func MeterOn(stderr, stdout io.Writer, noun string, from io.Reader) *Meter {
	to, is := file(stderr)
	if out, same := file(stdout); !is || !terminal(to) || same && terminal(out) {
		return nil
	}
	var total int64
	if f, is := from.(*os.File); is {
		total = remaining(f)
	}
	return newMeter(to, noun, total, time.Now)
}

// terminal reports whether f is a terminal, or looks like one.
func terminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && info.Name() != "null"
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
// again, for messages on the same terminal.
func (m *Meter) Writer(w io.Writer) io.Writer {
	if m == nil {
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

// Add counts n more and draws the line when it is time.
func (m *Meter) Add(n int64) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.count += n
	if now := m.now(); now.Sub(m.shown) >= redraw {
		m.draw(now)
	}
}

// Done draws the last state and ends the line.
func (m *Meter) Done() {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.draw(m.now())
	fmt.Fprintln(m.w)
	m.width = 0
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
	if m.total > 0 {
		share := min(1, float64(m.bytes)/float64(m.total))
		full := int(share * bar)
		fmt.Fprintf(&b, "[%s%s] %3d%%  ", strings.Repeat("#", full), strings.Repeat(".", bar-full), int(share*100))
	}
	rate := 0.0
	if elapsed > 0 {
		rate = float64(m.count) / elapsed.Seconds()
	}
	fmt.Fprintf(&b, "%d %s  %.0f/s", m.count, m.noun, rate)
	if m.total > 0 && m.bytes > 0 && m.bytes < m.total && elapsed > 0 {
		left := time.Duration(float64(elapsed) * (float64(m.total)/float64(m.bytes) - 1))
		fmt.Fprintf(&b, "  %s left", left.Round(time.Second))
	}
	return b.String()
}
