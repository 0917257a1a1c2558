package ledger_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/memproxy/memproxy/ledger"
	"modernc.org/sqlite"
	sqlitelib "modernc.org/sqlite/lib"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/ledger/redo"
)

// Proves EDGE-3, SYN-5, TRL-7: an entry acknowledged just before the disk fills up is
// not lost. Until there is room, the ledger fails look-ups and writes; then it writes
// the entry once and in order. If the process ends before, the next one does so,
// provided that the redo log has the entry.
func TestAcknowledgedEntriesWaitForRoom(t *testing.T) {
	for _, tc := range []struct {
		name         string
		logged, ends bool // the redo log has room; the process ends before the disk has
		lost         int
	}{
		{"logged", true, false, 0},
		{"not logged", false, false, 0},
		{"logged, and the process ends", true, true, 0},
		{"not logged, and the process ends", false, true, 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var lost int
			opt := ledger.Options{Path: filepath.Join(ring.Dir(t), "ledger.db"), Vault: testVault(t), OnLost: func(int, error) { lost++ }, Timeout: ring.Limit}
			pages := room(opt.Path)
			l := must.Get(ledger.Open(opt))(t)
			pages(t, 1) // no fewer than it has
			if !tc.logged {
				readOnly(t, opt.Path+redo.Suffix)
			}
			big := func(i int) memproxy.Entry {
				e := queuedEntry(fmt.Sprint("m", i))
				e.Versions[0].Text = string(make([]byte, 64<<10))
				return e
			}
			for i := range 3 {
				err := l.Commit(t.Context(), big(i))
				expect.That(t, errors.Is(err, memproxy.ErrKept) != tc.logged && (!tc.logged || err == nil), "commit: %v", err)
			}
			failing := func(wrong bool) {
				t.Helper()
				_, locked := l.SessionLocked(t.Context(), "acme", "s")
				_, bound := l.Bind(t.Context(), memproxy.Ownership{Backend: "mem0", Kind: memproxy.TargetEntity, ID: "user:ann", Scope: memproxy.Scope{Tenant: "acme"}})
				_, looked := l.Lookup(t.Context(), big(2).Versions[0].MemoryKey)
				for call, err := range map[string]error{"Ping": l.Ping(t.Context()), "SessionLocked": locked, "Bind": bound, "Lookup": looked} {
					if full, is := errors.AsType[*sqlite.Error](err); wrong != (is && full.Code() == sqlitelib.SQLITE_FULL) || !wrong && err != nil {
						t.Errorf("%s: %v", call, err)
					}
				}
			}
			_ = l.Sync(t.Context()) // entries may still be queued
			failing(true)
			if tc.ends {
				must.Do(t, l.Close())
				l = must.Get(ledger.Open(opt))(t)
			} else {
				pages(t, 1<<20)
			}
			failing(false)
			defer func() { _ = l.Close() }()
			if report, err := l.Chains.Verify(t.Context(), "acme", ledger.VerifyOptions{}); err != nil || int(report.Checked) != 3-tc.lost || len(report.Faults) > 0 || lost != tc.lost {
				t.Errorf("%d lost, %+v, %v", lost, report, err)
			}
			for i := range 3 - tc.lost {
				k := big(i).Versions[0].MemoryKey
				expect.Equal(t, must.Get(l.Version(t.Context(), k, 1))(t).Text, big(i).Versions[0].Text, k)
			}
			expect.Equal(t, must.Get(os.Stat(opt.Path+redo.Suffix))(t).Size(), 0, "what is written stays in the log")
		})
	}
}

// room returns a function that limits the pages of the file of a ledger that is opened from now
// on, through the connection of its writer, which must have nothing to do.
func room(path string) func(t *testing.T, pages int) {
	var conns []sqlite.ExecQuerierContext
	var mu sync.Mutex
	sqlite.RegisterConnectionHook(func(conn sqlite.ExecQuerierContext, dsn string) error {
		mu.Lock()
		defer mu.Unlock()
		if strings.Contains(dsn, path) && strings.Contains(dsn, "wal_autocheckpoint") {
			conns = append(conns, conn)
		}
		return nil
	})
	return func(t *testing.T, pages int) {
		t.Helper()
		mu.Lock()
		defer mu.Unlock()
		must.Equal(t, len(conns) > 0, true, "the ledger is open")
		for _, conn := range conns {
			must.Get(conn.ExecContext(t.Context(), fmt.Sprint("PRAGMA max_page_count = ", pages), nil))(t)
		}
	}
}

// readOnly makes a file that this process has open one that it can only read.
func readOnly(t *testing.T, path string) {
	t.Helper()
	file := must.Get(os.Open(path))(t)
	defer file.Close()
	n := 0
	for _, e := range must.Get(os.ReadDir("/proc/self/fd"))(t) {
		fd, err := strconv.Atoi(e.Name())
		if to, _ := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && to == path && fd != int(file.Fd()) {
			must.Do(t, syscall.Dup3(int(file.Fd()), fd, syscall.O_CLOEXEC))
			n++
		}
	}
	must.Equal(t, n, 1, "open files of that name")
}

// Proves EDGE-3: of an entry that is committed in parts, all are kept while the disk is full.
func TestAllPartsWaitForRoom(t *testing.T) {
	path := filepath.Join(ring.Dir(t), "ledger.db")
	pages := room(path)
	l := open(t, ledger.Options{Path: path, Vault: testVault(t)})
	pages(t, 1) // no fewer than it has
	var all memproxy.Entry
	for i := range 2*128 + 1 {
		e := queuedEntry(fmt.Sprint("m", i))
		all.Versions, all.Queued = append(all.Versions, e.Versions...), true
		all.Versions[i].Text = string(make([]byte, 4<<10))
	}
	expect.Is(t, l.Commit(t.Context(), all), memproxy.ErrKept)
	pages(t, 1<<20)
	for i := range all.Versions {
		got := must.Get(l.History(t.Context(), all.Versions[i].MemoryKey, 0, 0))(t)
		must.Len(t, got, 1, i)
	}
}
