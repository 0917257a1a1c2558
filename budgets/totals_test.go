package budgets

import (
	"bytes"
	"fmt"
	"maps"
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

func write(t testing.TB, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "budgets.jsonl")
	must.Do(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// total is an account that never expires.
func total(tenant, key string) account {
	return account{tenant, key, memproxy.WindowTotal, 0}
}

// Proves TRL-6: a torn last line, which a killed process leaves, is dropped; any other
// corruption prevents the start, since a guessed total could grant more writes.
func TestReadTotals(t *testing.T) {
	a := `{"t":"acme","k":"principal/a","d":3}` + "\n"
	of := func(n int64) map[account]int64 { return map[account]int64{total("acme", "principal/a"): n} }
	for name, c := range map[string]struct {
		content string
		want    map[account]int64
		fault   string
	}{
		"empty":              {"", map[account]int64{}, ""},
		"sums":               {a + a, of(6), ""},
		"falls":              {a + `{"t":"acme","k":"principal/a","d":-2}` + "\n", of(1), ""},
		"never below zero":   {a + `{"t":"acme","k":"principal/a","d":-9}` + "\n" + a, of(3), ""},
		"no tenant":          {`{"k":"principal/a","d":1}` + "\n", map[account]int64{total("", "principal/a"): 1}, ""},
		"no last newline":    {a + strings.TrimSpace(a), of(6), ""},
		"torn tail":          {a + a[:20], of(3), ""},
		"torn at the start":  {a[:5], map[account]int64{}, ""},
		"broken in between":  {a + a[:20] + "\n" + a, nil, ":2: not a line of totals"},
		"two lines in one":   {a + a[:20] + a + a, nil, ":2: not a line of totals"},
		"no key":             {`{"d":1}` + "\n" + a, nil, ":1: not a line of totals"},
		"not a whole number": {`{"k":"x","d":1.5}` + "\n" + a, nil, ":1: not a line of totals"},
		"a line too long":    {a + strings.Repeat("x", maxLine+1) + "\n" + a, nil, "too long"},
		"more than it holds": {`{"k":"x","d":9223372036854775807}` + "\n" + `{"k":"x","d":1}` + "\n", nil, ":1: more than a total holds"},
		"a negative abyss":   {a + `{"t":"acme","k":"principal/a","d":-9223372036854775808}` + "\n" + a, of(3), ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := readTotals(write(t, c.content))
			if c.fault != "" {
				must.ErrorHas(t, err, c.fault)
				return
			}
			must.Do(t, err, "read")
			expect.Map(t, got, c.want, "read")
		})
	}
}

// A long file is compacted without changing the totals.
func TestTotalsStayShort(t *testing.T) {
	path := write(t, "")
	f, counts, err := openTotals(path)
	must.Do(t, err)
	must.Len(t, counts, 0)
	f.compactAt = 3
	for range 4 {
		must.Do(t, f.add([]entry{{"acme", "k", 2}}))
	}
	f.compact(map[account]int64{total("acme", "k"): 8})
	if f.lines != 1 || f.compactAt != 4+slack {
		t.Errorf("%d lines, at most %d", f.lines, f.compactAt)
	}
	must.Do(t, f.add([]entry{{"acme", "k", 1}}))
	must.Do(t, f.close())
	if got, err := readTotals(path); err != nil || got[total("acme", "k")] != 9 {
		t.Errorf("read %v, %v", got, err)
	}
}

// If the file cannot be compacted the old one stays in use.
func TestTotalsThatCannotBeShortened(t *testing.T) {
	path := write(t, "")
	f, _, err := openTotals(path)
	must.Do(t, err)
	must.Do(t, f.add([]entry{{"", "k", 1}, {"", "l", 5}}))
	if err := os.Mkdir(path+".new", 0o700); err != nil { // blocks the new file
		t.Fatal(err)
	}
	f.compactAt = 1
	f.compact(map[account]int64{total("", "k"): 1})
	expect.Equal(t, f.compactAt, 2, "the next try is at")
	must.Do(t, f.add([]entry{{"", "k", 1}}))
	must.Do(t, f.close())
	if got, err := readTotals(path); err != nil || got[total("", "k")] != 2 || got[total("", "l")] != 5 {
		t.Errorf("read %v, %v", got, err)
	}
	if _, _, err := openTotals(path); err == nil {
		t.Error("a file that cannot be written was opened")
	}
}

// Proves TRL-6: while the file of totals has no room, a charge fails and is not
// counted, so that refused writes use no budget; settlements are counted all the same.
// Ping reports it and notices when there is room again.
func TestTotalsWithoutRoom(t *testing.T) {
	path := write(t, "")
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
	path := write(t, `{"k":"k","d":1}`+"\n")
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
	disk.room = room + 100 // enough for a probe, but not for this charge
	must.Do(t, m.Ping(t.Context()))
	must.Error(t, charge(60), "a long charge fails, and Ping does not")
	expect.Error(t, m.Ping(t.Context()), "a long charge fails, and Ping does not")
	disk.room = 8 * room
	must.Do(t, m.Ping(t.Context()))
	must.Do(t, charge(60))
	disk.room = room + 100
	must.Do(t, m.Ping(t.Context())) // there was room for the long charge
	if got, err := os.ReadFile(path); err != nil || bytes.Contains(got, []byte("room")) || bytes.Count(got, []byte("\n")) != 61 {
		t.Errorf("%s, %v: want the charges alone", got, err)
	}
}

// FuzzReadTotals: whatever the file contains, reading neither panics nor gives a total
// that is not positive, and compacting preserves what was read.
func FuzzReadTotals(f *testing.F) {
	line := `{"t":"acme","k":"principal/a","d":3}` + "\n"
	for _, s := range []string{"", line, line + line[:10], line[:10] + line, "{}\n" + line, `{"k":"\ud800","d":1}` + "\n", "\n\n", `{"k":"x","d":-1}`, `{"k":"x","d":9223372036854775807}` + "\n" + `{"k":"x","d":1}`} {
		f.Add([]byte(s))
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, content []byte) {
		path := filepath.Join(dir, "budgets.jsonl")
		must.Do(t, os.WriteFile(path, content, 0o600))
		first, err := readTotals(path)
		if err != nil {
			return
		}
		for k, n := range first {
			if n <= 0 || k.key == "" {
				t.Fatalf("%+v counts %d", k, n)
			}
		}
		opened, counts, err := openTotals(path)
		must.Do(t, err, "opened with")
		must.Map(t, counts, first, "opened with")
		must.Do(t, opened.close())
		again, err := readTotals(path)
		if err != nil || !maps.Equal(again, first) {
			out, _ := os.ReadFile(path)
			t.Fatalf("rewritten to %q: %v, %v", bytes.TrimSpace(out), again, err)
		}
	})
}
