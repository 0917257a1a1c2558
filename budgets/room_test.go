// A disk without room is a file in the place of the one that the totals have open, so this is
// in the slow ring, where the package is compiled once more for it.

//go:build slow

package budgets

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// onDisk is a file on a disk with little room: writes use it up, and a write for which
// there is no room is torn.
type onDisk struct {
	*os.File
	room int
}

func (d *onDisk) Write(b []byte) (int, error) {
	n, err := d.File.Write(b[:min(len(b), d.room)])
	if d.room -= n; err == nil && n < len(b) {
		err = syscall.ENOSPC
	}
	return n, err
}

func (d *onDisk) Truncate(size int64) error {
	info, err := d.Stat()
	if err != nil {
		return err
	}
	d.room += int(info.Size() - size)
	return d.File.Truncate(size)
}

// Proves TRL-6: Ping reports a full disk before and after a charge failed on it, although
// there is room for a short line, and however often it is asked; its probes use no room. A
// charge that failed is not counted, and can be made once there is room again.
func TestPingOnAFullDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "budgets.jsonl")
	must.Do(t, os.WriteFile(path, []byte(`{"k":"k","d":1}`+"\n"), 0o600))
	m := must.Get(NewMemory(path))(t)
	t.Cleanup(func() { _ = m.Close() })
	disk := &onDisk{m.totals.f.(*os.File), 100}
	m.totals.f = disk
	charge := func(lines int) error {
		c := memproxy.Charge{ID: "1", Cost: 1, Time: time.Unix(7200, 0)}
		for i := range lines {
			c.Lines = append(c.Lines, memproxy.Line{Key: strings.Repeat("long", 50) + fmt.Sprint(i), Window: memproxy.WindowTotal, Limit: 10})
		}
		a, err := m.Charge(t.Context(), c)
		if err == nil {
			expect.Equal(t, a.Lines[0].Used, 1, "used")
		}
		return err
	}
	for range 3 {
		expect.Is(t, m.Ping(t.Context()), syscall.ENOSPC, "before a charge")
		expect.Is(t, charge(1), syscall.ENOSPC, "the charge")
	}
	expect.Equal(t, disk.room, 100, "room for")
	disk.room = minProbe + 100 // enough for a probe, but not for this charge
	must.Do(t, m.Ping(t.Context()))
	must.Error(t, charge(60), "a long charge fails, and Ping does not")
	expect.Error(t, m.Ping(t.Context()), "a long charge fails, and Ping does not")
	disk.room = 8 * minProbe
	must.Do(t, m.Ping(t.Context()))
	must.Do(t, charge(60))
	disk.room = minProbe + 100
	must.Do(t, m.Ping(t.Context())) // there was room for the long charge
	if got, err := os.ReadFile(path); err != nil || bytes.Contains(got, []byte("room")) || bytes.Count(got, []byte("\n")) != 61 {
		t.Errorf("%s, %v: want the charges alone", got, err)
	}
}
