package audit_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"hash/crc32"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/telemetry/audit"
)

// abandoned returns the options of a log as a killed process leaves that of opt: with nothing
// signed since the last checkpoint.
func abandoned(t testing.TB, l *audit.Log, opt audit.Options) audit.Options {
	t.Helper()
	from := opt.Dir
	opt.Dir = filepath.Join(ring.Dir(t), "log")
	must.Do(t, os.CopyFS(opt.Dir, os.DirFS(from)))
	closeLog(t, l)
	return opt
}

// crashed returns the journal of bundle 0 in a new log with n unsigned records, each in
// its own commit.
func crashed(t testing.TB, n int) (opt audit.Options, path string, content []byte) {
	t.Helper()
	opt = testOptions(ring.Dir(t))
	l := open(t, opt)
	for range n {
		record(t, l, 1)
	}
	opt = abandoned(t, l, opt)
	path = filepath.Join(opt.Dir, journalPath(0))
	content = must.Get(os.ReadFile(path))(t)
	return opt, path, content
}

// frameStarts are the offsets of a journal's frames, and its length.
func frameStarts(t testing.TB, b []byte) []int {
	t.Helper()
	starts := []int{0}
	for at := 0; at < len(b); {
		at += 20 + int(binary.BigEndian.Uint32(b[at+16:])) + 36 // header, payload, trailer
		starts = append(starts, at)
	}
	return starts
}

// reopen opens a log and returns the repair that it recorded, if any.
func reopen(t testing.TB, opt audit.Options) (size uint64, repair string) {
	t.Helper()
	opt.OnRecord = func(_ uint64, ev *memproxy.Event, _ []byte) {
		if ev.Type == memproxy.EventRepair {
			repair = ev.Detail
		}
	}
	l := open(t, opt)
	size = l.Size()
	closeLog(t, l)
	return size, repair
}

// Proves CARD-7: wherever the last commit is torn, earlier records are kept, and the
// cut is recorded.
func TestTornTail(t *testing.T) {
	opt, path, content := crashed(t, 3)
	starts := frameStarts(t, content)
	checkpoint := must.Get(os.ReadFile(filepath.Join(opt.Dir, "checkpoint")))(t)
	restore := func(b []byte) {
		must.Do(t, os.RemoveAll(filepath.Join(opt.Dir, "tile")))
		for name, b := range map[string][]byte{path: b, filepath.Join(opt.Dir, "checkpoint"): checkpoint} {
			must.Do(t, os.WriteFile(name, b, 0o600))
		}
	}
	for cut := starts[2]; cut < len(content); cut += 7 * ring.Share(4, 8) {
		restore(content[:cut])
		size, repair := reopen(t, opt)
		if size != 3 { // two, and the repair record
			t.Fatalf("cut at %d: %d records", cut, size)
		}
		expect.Equal(t, strings.Contains(repair, "torn commit"), cut > starts[2], "cut at", cut, "repair", repair)
	}
	// An arbitrary tail is torn as well; zeros are preallocated space.
	restore(append(content[:starts[2]:starts[2]], bytes.Repeat([]byte{0xff}, 5000)...))
	if size, repair := reopen(t, opt); size != 3 || !strings.Contains(repair, "cut 5000 bytes") {
		t.Errorf("rubbish: %d records, %q", size, repair)
	}
	// So is a commit of which a part did not reach the disk, though its length did.
	holed := bytes.Clone(content)
	clear(holed[starts[2]+100 : starts[2]+200])
	restore(holed)
	if size, repair := reopen(t, opt); size != 3 || !strings.Contains(repair, "torn commit") {
		t.Errorf("a hole: %d records, %q", size, repair)
	}
	restore(append(content[:starts[2]:starts[2]], make([]byte, 5000)...))
	if size, repair := reopen(t, opt); size != 3 || strings.Contains(repair, "cut") {
		t.Errorf("zeros: %d records, %q", size, repair)
	}
	// Complete frames are kept.
	restore(content)
	if size, repair := reopen(t, opt); size != 4 || !strings.Contains(repair, "took over 3 records") {
		t.Errorf("whole: %d records, %q", size, repair)
	}
	if size, repair := reopen(t, opt); size != 4 || repair != "" {
		t.Errorf("nothing to repair: %d records, %q", size, repair)
	}
}

// Proves CARD-7: damage that no crash explains is not repaired.
func TestDamageIsRefused(t *testing.T) {
	sum := func(b []byte, from, to int) {
		binary.BigEndian.PutUint32(b[to-4:], crc32.Checksum(b[from:to-4], crc32.MakeTable(crc32.Castagnoli)))
	}
	for name, spoil := range map[string]func(b []byte, starts []int) []byte{
		"a commit in the middle": func(b []byte, s []int) []byte { b[s[1]+50] ^= 1; return b },
		"a commit of zeros":      func(b []byte, s []int) []byte { clear(b[s[1]:s[2]]); return b }, // no preallocated space
		"a commit dropped":       func(b []byte, s []int) []byte { return append(b[:s[1]:s[1]], b[s[2]:]...) },
		"a commit twice":         func(b []byte, s []int) []byte { return append(b, b[s[2]:]...) },
		"a forged commit": func(b []byte, s []int) []byte {
			i := bytes.LastIndex(b, []byte("agent:dev"))
			b[i+6] = 'x'
			sum(b, s[2], s[3])
			return b
		},
		"a forged mac": func(b []byte, s []int) []byte { b[s[3]-10] ^= 1; sum(b, s[2], s[3]); return b },
	} {
		t.Run(name, func(t *testing.T) {
			opt, path, content := crashed(t, 3)
			bad := spoil(bytes.Clone(content), frameStarts(t, content))
			must.Do(t, os.WriteFile(path, bad, 0o600))
			expect.Is(t, expect.Err(audit.Open(opt)), audit.ErrCorrupt, "opened")
			if after, _ := os.ReadFile(path); !bytes.Equal(after, bad) {
				t.Error("the damaged journal was changed")
			}
		})
	}
}

func TestDamageOfSignedRecordsIsRefused(t *testing.T) {
	for name, spoil := range map[string]func(dir string) error{
		"journal gone":    func(dir string) error { return os.Remove(filepath.Join(dir, journalPath(1))) },
		"journal cut":     func(dir string) error { return os.Truncate(filepath.Join(dir, journalPath(1)), 100) },
		"tile gone":       func(dir string) error { return os.Remove(filepath.Join(dir, tilePath(0, 0, 0))) },
		"bundle gone":     func(dir string) error { return os.Remove(filepath.Join(dir, bundlePath(0, 0))) },
		"checkpoint gone": func(dir string) error { return os.Remove(filepath.Join(dir, "checkpoint")) },
		"tile changed": func(dir string) error {
			path := filepath.Join(dir, tilePath(0, 0, 0))
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			b[7] ^= 1
			return os.WriteFile(path, b, 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			opt := testOptions(ring.Dir(t))
			l := open(t, opt)
			record(t, l, 300)
			closeLog(t, l)
			must.Do(t, spoil(opt.Dir))
			expect.Is(t, expect.Err(audit.Open(opt)), audit.ErrCorrupt, "opened")
		})
	}
	// Derived files are rebuilt: partial tiles and leftovers of a crash.
	opt := testOptions(ring.Dir(t))
	l := open(t, opt)
	record(t, l, 300)
	closeLog(t, l)
	for _, name := range []string{"tile/0/001.p", "tile/1", "tile/entries/001.p", "log.vkey"} {
		must.Do(t, os.RemoveAll(filepath.Join(opt.Dir, name)))
	}
	stale := filepath.Join(opt.Dir, "tile/entries/000.p/17")
	must.Do(t, os.MkdirAll(filepath.Dir(stale), 0o700))
	for _, name := range []string{stale, filepath.Join(opt.Dir, "checkpoint.tmp")} {
		must.Do(t, os.WriteFile(name, []byte("left"), 0o600))
	}
	if size, _ := reopen(t, opt); size != 300 {
		t.Errorf("size %d after mending", size)
	}
	for _, name := range []string{"tile/0/001.p/44", "tile/1/000.p/1", "tile/entries/001.p/44", "log.vkey"} {
		expect.OK(t, expect.Err(os.Stat(filepath.Join(opt.Dir, name))), "not made again")
	}
	expect.Error(t, expect.Err(os.Stat(stale)), "a leftover stayed")
}

// Proves SYN-6: whole bundles are pruned by age, with a record, but never the last one.
func TestPrune(t *testing.T) {
	opt := testOptions(ring.Dir(t))
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	opt.Clock = func() time.Time { return at }
	var kinds []memproxy.EventType
	opt.OnRecord = func(_ uint64, ev *memproxy.Event, _ []byte) { kinds = append(kinds, ev.Type) }
	l := open(t, opt)
	for range 4 {
		record(t, l, 256)
		at = at.Add(24 * time.Hour)
	}
	must.Do(t, l.Flush(context.Background()))
	for _, c := range []struct {
		before time.Time
		room   int64
		want   uint64
	}{
		{at.Add(-100 * time.Hour), 1 << 40, 0},
		{at.Add(-60 * time.Hour), 0, 512}, // the first two days
		{at.Add(-60 * time.Hour), 0, 0},
		{at.Add(time.Hour), 0, 256}, // the last full bundle stays
	} {
		expect.Equal(t, must.Get(l.Prune(context.Background(), c.before, c.room))(t), c.want, "before", c.before, "pruned")
	}
	closeLog(t, l)
	if n := len(kinds); n != 1026 || kinds[n-1] != memproxy.EventPrune || kinds[n-2] != memproxy.EventPrune {
		t.Errorf("%d records, the last two %v", n, kinds[n-2:])
	}
	if size, repair := reopen(t, opt); size != 1026 || repair != "" {
		t.Errorf("reopened with %d records, %q", size, repair)
	}
	expect.OK(t, expect.Err(os.Stat(filepath.Join(opt.Dir, tilePath(0, 0, 0)))), "the hashes of pruned records are gone")
}

// The oldest bundles are removed while all together have more bytes than the limit.
//
// Proves SYN-6
func TestPruneBySize(t *testing.T) {
	opt := testOptions(ring.Dir(t))
	l := open(t, opt)
	record(t, l, 4*256)
	must.Do(t, l.Flush(context.Background()))
	bundle := must.Get(os.Stat(filepath.Join(opt.Dir, bundlePath(3, 0))))(t).Size()
	for _, c := range []struct {
		maxBytes int64
		want     uint64
	}{
		{0, 0}, {5 * bundle, 0}, {2*bundle + bundle/2, 512}, {2*bundle + bundle/2, 0}, {1, 256},
	} {
		expect.Equal(t, must.Get(l.Prune(context.Background(), time.Time{}, c.maxBytes))(t), c.want, "at most", c.maxBytes, "bytes: pruned")
	}
	closeLog(t, l)
	if size, repair := reopen(t, opt); size != 4*256+2 || repair != "" {
		t.Errorf("reopened with %d records, %q", size, repair)
	}
}

func FuzzReplay(f *testing.F) {
	opt, _, content := crashed(f, 3)
	checkpoint := must.Get(os.ReadFile(filepath.Join(opt.Dir, "checkpoint")))(f)
	f.Add(content)
	f.Add(content[:len(content)-1])
	f.Add([]byte(strings.Repeat("mpj1", 30)))
	f.Add([]byte("mpj1" + strings.Repeat("\x00", 80)))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		opt := opt
		opt.Dir = ring.Dir(t)
		for name, b := range map[string][]byte{journalPath(0): b, "checkpoint": checkpoint} {
			must.Do(t, os.MkdirAll(filepath.Dir(filepath.Join(opt.Dir, name)), 0o700))
			must.Do(t, os.WriteFile(filepath.Join(opt.Dir, name), b, 0o600))
		}
		l, err := audit.Open(opt)
		if err != nil {
			return
		}
		expect.Equal(t, l.Size() <= 4, true, l.Size(), "records were taken over, 3 were written")
		closeLog(t, l)
	})
}

// Proves SYN-6: the times of records do not go back with the wall clock while the process
// runs, so that the log verifies.
func TestTimesDoNotGoBackWithTheWallClock(t *testing.T) {
	opt := testOptions(ring.Dir(t))
	before := time.Now() // with both clocks
	after := before.Add(time.Second)
	*(*uint64)(unsafe.Pointer(&after)) -= 3600 << 30 // an hour of its wall clock
	var set atomic.Bool
	opt.Clock = func() time.Time {
		if set.Load() {
			return after
		}
		return before
	}
	var times []string
	opt.OnRecord = func(_ uint64, _ *memproxy.Event, body []byte) {
		times = append(times, regexp.MustCompile(`"time":"[^"]+"`).FindString(string(body)))
	}
	l := open(t, opt)
	record(t, l, 1)
	set.Store(true)
	record(t, l, 1)
	closeLog(t, l)
	if len(times) != 2 || times[0] == "" || times[1] < times[0] {
		t.Errorf("%q", times)
	}
}
