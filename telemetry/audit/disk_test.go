package audit_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/memproxy/memproxy/telemetry/audit"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/internal/wait"
)

// fullDisk are options of a log whose disk has no room while full is set.
func fullDisk(t *testing.T) (opt audit.Options, full *atomic.Bool) {
	full, opt = new(atomic.Bool), testOptions(ring.Dir(t))
	opt.Sync = func(*os.File) error {
		if full.Load() {
			return syscall.ENOSPC
		}
		return nil
	}
	return opt, full
}

// Proves CARD-7: a full disk only refuses records. The log recovers without a restart,
// loses no acknowledged record and keeps no refused one.
func TestDiskFull(t *testing.T) {
	opt, full := fullDisk(t)
	opt.AsyncDelay = time.Hour
	var ids []string
	opt.OnRecord = func(_ uint64, ev *memproxy.Event, _ []byte) { ids = append(ids, ev.Decision) }
	l := open(t, opt)
	try := func(id string) error {
		err := l.Record(context.Background(), memproxy.Event{Type: memproxy.EventDecision, Decision: id})
		return err
	}
	want := func(wrong bool, err error) {
		t.Helper()
		if (err != nil) != wrong || (wrong && !errors.Is(err, syscall.ENOSPC)) {
			t.Fatalf("error %v, want one: %v", err, wrong)
		}
	}
	want(false, try("a"))
	full.Store(true)
	want(true, try("lost1"))
	want(true, try("lost2"))
	want(true, l.Healthy())
	must.Do(t, l.RecordAsync(memproxy.Event{Type: memproxy.EventOutcome, Decision: "note"}))
	want(true, try("lost3"))
	full.Store(false)
	want(false, try("b")) // the note, which has no waiting caller, was kept
	want(false, l.Healthy())
	closeLog(t, l)
	expect.Equal(t, strings.Join(ids, " "), "a note b", "the log holds")
	if size, repair := reopen(t, opt); size != 3 || repair != "" {
		t.Errorf("reopened with %d records, repair %q", size, repair)
	}
}

// The same at the first record of a bundle, whose journal is new.
func TestDiskFullAtABundlesStart(t *testing.T) {
	opt, full := fullDisk(t)
	l := open(t, opt)
	record(t, l, 256)
	full.Store(true)
	must.Is(t, l.Record(context.Background(), someEvent()), syscall.ENOSPC, "record")
	full.Store(false)
	record(t, l, 10)
	closeLog(t, l)
	if size, _ := reopen(t, opt); size != 266 {
		t.Errorf("%d records", size)
	}
}

// Healthy reports a checkpoint that cannot be written; records continue while there is
// memory.
func TestCheckpointFails(t *testing.T) { synctest.Test(t, checkpointFails) }

func checkpointFails(t *testing.T) {
	var broken atomic.Bool
	opt := testOptions(ring.Dir(t))
	opt.Sync = func(f *os.File) error {
		if broken.Load() && strings.HasPrefix(filepath.Base(f.Name()), "checkpoint") {
			return syscall.EIO
		}
		return nil
	}
	l := open(t, opt)
	broken.Store(true)
	record(t, l, 300)
	expect.Is(t, l.Flush(context.Background()), syscall.EIO, "flush")
	expect.Is(t, l.Healthy(), syscall.EIO, "healthy")
	expect.Equal(t, l.Lag().Unsigned, 300, "lag")
	var err error
	for range (64 + 1) * 256 {
		if err = l.Record(context.Background(), memproxy.Event{Type: "x"}); err != nil {
			break
		}
	}
	expect.Is(t, err, audit.ErrFull, "memory is not bounded")
	broken.Store(false)
	time.Sleep(time.Minute) // in the bubble: it tries again
	synctest.Wait()
	record(t, l, 1)
	expect.OK(t, l.Healthy(), "still ill")
	closeLog(t, l)
}

// A log whose directory is removed refuses records until the directory is back: one made
// anew would lack the earlier records.
func TestRemovedDirectoryIsNotMadeAnew(t *testing.T) {
	opt := testOptions(filepath.Join(ring.Dir(t), "log"))
	away := opt.Dir + ".away"
	l := open(t, opt)
	record(t, l, 256+1)
	must.Do(t, l.Flush(t.Context()))
	must.Do(t, os.Rename(opt.Dir, away))
	for range 3 {
		must.Is(t, l.Record(t.Context(), someEvent()), os.ErrNotExist, "record")
	}
	must.Is(t, l.Healthy(), os.ErrNotExist, "health")
	must.Is(t, expect.Err(os.Stat(opt.Dir)), os.ErrNotExist, "the directory")
	must.Do(t, os.Rename(away, opt.Dir))
	record(t, l, 1)
	must.Do(t, l.Healthy())
	closeLog(t, l)
}

// A new directory is synced with its own name, once: commits wait for every other sync
// of the disk.
func TestDirectoriesAreSyncedWithTheirNames(t *testing.T) {
	var mu sync.Mutex
	synced := map[string]int{}
	opt := testOptions(ring.Dir(t))
	opt.Sync = func(f *os.File) error {
		mu.Lock()
		defer mu.Unlock()
		name, err := filepath.Rel(opt.Dir, f.Name())
		synced[filepath.ToSlash(name)]++
		return err
	}
	l := open(t, opt)
	for round, want := range []int{2, 2, 4} { // for two directories in it
		if round == 2 { // another directory may have taken the log's place
			record(t, l, 1)
			must.Do(t, os.Rename(filepath.Join(opt.Dir, journalPath(2)), filepath.Join(opt.Dir, "away")))
			expect.Error(t, l.Record(t.Context(), someEvent()), "a record in a journal that is not in its place")
		}
		record(t, l, 256)
		must.Do(t, l.Flush(t.Context()))
		if synced["tile/entries"] != round+1 || synced["tile/0"] != round+1 || synced["tile"] != want {
			t.Errorf("round %d: synced %v, want tile %d times", round, synced, want)
		}
	}
	closeLog(t, l)
}

// A checkpoint writes the partial files that changed, and itself: a tile of a higher level
// stays in place, past the time for which old ones are kept, until another directory may
// have taken the log's place.
func TestCheckpointsWriteWhatChanged(t *testing.T) {
	opt := testOptions(ring.Dir(t))
	files := func() map[string]os.FileInfo {
		all := map[string]os.FileInfo{}
		must.Do(t, filepath.WalkDir(opt.Dir, func(name string, e os.DirEntry, err error) error {
			if err == nil && !e.IsDir() && filepath.Base(filepath.Dir(name)) != "journal" {
				all[strings.TrimPrefix(name, opt.Dir+"/")], err = e.Info()
			}
			return err
		}))
		return all
	}
	l := open(t, opt)
	record(t, l, 256)
	above := tilePath(1, 0, 1)
	for round := range 8 + 2 {
		record(t, l, 1)
		before := files()
		must.Do(t, l.Flush(t.Context()))
		var wrote []string
		for name, now := range files() {
			if was := before[name]; was == nil || !os.SameFile(was, now) {
				wrote = append(wrote, name)
			}
		}
		slices.Sort(wrote)
		want := []string{"checkpoint", tilePath(0, 1, round+1), bundlePath(1, round+1)}
		if round > 0 && !slices.Equal(wrote, want) || files()[above] == nil {
			t.Errorf("round %d: wrote %q, want %q; %s is there: %v", round, wrote, want, above, files()[above] != nil)
		}
	}
	must.Do(t, os.Remove(filepath.Join(opt.Dir, above)))
	must.Do(t, os.Rename(filepath.Join(opt.Dir, journalPath(1)), filepath.Join(opt.Dir, "away")))
	expect.Error(t, l.Record(t.Context(), someEvent()), "a record in a journal that is not in its place")
	record(t, l, 1)
	must.Do(t, l.Flush(t.Context()))
	expect.Equal(t, files()[above] != nil, true, above, "is not written again")
	closeLog(t, l)
}

// blockedLog is a log whose disk hangs until free is called.
func blockedLog(t *testing.T, max int) (l *audit.Log, entered <-chan struct{}, free func()) {
	t.Helper()
	gate, in := make(chan struct{}), make(chan struct{}, 1)
	var hang atomic.Bool
	opt := testOptions(ring.Dir(t))
	opt.MaxQueue = max
	opt.Sync = func(*os.File) error {
		if hang.Load() {
			wait.Wake(in)
			<-gate
		}
		return nil
	}
	l = open(t, opt)
	hang.Store(true)
	return l, in, func() { hang.Store(false); close(gate) }
}

// Proves SYN-4: a disk that hangs blocks a caller no longer than its context, and does
// not fill memory.
func TestHangingDisk(t *testing.T) { synctest.Test(t, hangingDisk) }

func hangingDisk(t *testing.T) {
	l, entered, free := blockedLog(t, 2)
	first := make(chan error, 1)
	go func() {
		err := l.Record(context.Background(), someEvent())
		first <- err
	}()
	<-entered
	ctx, cancel := context.WithCancel(context.Background())
	second := make(chan error, 1)
	go func() {
		err := l.Record(ctx, memproxy.Event{Type: memproxy.EventDecision, Decision: "given up"})
		second <- err
	}()
	synctest.Wait() // the record is in the queue
	expect.Equal(t, l.Lag().Queued != 0, true, "nothing waits for the disk")
	cancel()
	expect.Is(t, <-second, context.Canceled, "a cancelled record")
	expect.OK(t, l.RecordAsync(someEvent()), "the queue has room for a note")
	expect.Is(t, l.RecordAsync(someEvent()), audit.ErrFull, "a full queue")
	expect.Is(t, l.Record(context.Background(), someEvent()), audit.ErrFull, "a full queue")
	short, stop := context.WithCancel(context.Background())
	stop()
	expect.Is(t, l.Close(short), context.Canceled, "close of a hanging log")
	free()
	expect.OK(t, <-first, "the first record")
	closeLog(t, l)
	expect.Equal(t, l.Size(), 2)
}
