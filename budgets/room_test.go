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

// Proves TRL-6: while the file of totals has no room, a charge fails and is not
// counted, so that refused writes use no budget; settlements are counted all the same.
// Ping reports it and notices when there is room again.
func TestTotalsWithoutRoom(t *testing.T) {
	path := filepath.Join(t.TempDir(), "budgets.jsonl")
	m := must.Get(NewMemory(path))(t)
	t.Cleanup(func() { _ = m.Close() })
	charge := func(id string, written bool) (int64, error) {
		a, err := m.Charge(t.Context(), memproxy.Charge{ID: id, Tenant: "acme", Cost: 1, Time: time.Unix(7200, 0), Written: written, Lines: []memproxy.Line{
			{Key: "principal/a", Window: memproxy.WindowHour, Limit: 10}, {Key: "principal/a", Window: memproxy.WindowTotal, Limit: 10}}})
		if err != nil {
			return 0, err
		}
		return a.Lines[0].Used*10 + a.Lines[1].Used, nil
	}
	writable := m.totals.f
	m.totals.f = must.Get(os.Open(path))(t) // opened read-only
	for _, id := range []string{"1", "2", "1"} {
		expect.Error(t, expect.Err(charge(id, false)), id, "is granted")
	}
	if _, err := charge("made", true); err == nil || m.Ping(t.Context()) == nil {
		t.Error("a file without room is well")
	}
	_ = m.totals.f.Close()
	m.totals.f = writable
	expect.OK(t, m.Ping(t.Context()))
	if used, err := charge("1", false); used != 22 || err != nil {
		t.Errorf("%d used of hour and total, %v: want what was made, and this one", used, err)
	}
}

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
// there is room for a short line, and however often it is asked; its probes use no room.
func TestPingOnAFullDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "budgets.jsonl")
	must.Do(t, os.WriteFile(path, []byte(`{"k":"k","d":1}`+"\n"), 0o600))
	m := must.Get(NewMemory(path))(t)
	t.Cleanup(func() { _ = m.Close() })
	disk := &onDisk{m.totals.f.(*os.File), 100}
	m.totals.f = disk
	charge := func(lines int) error {
		c := memproxy.Charge{ID: fmt.Sprint(disk.room), Cost: 1, Time: time.Unix(7200, 0)}
		for i := range lines {
			c.Lines = append(c.Lines, memproxy.Line{Key: strings.Repeat("long", 50) + fmt.Sprint(i), Window: memproxy.WindowTotal, Limit: 10})
		}
		_, err := m.Charge(t.Context(), c)
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
