package ledger_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/ledger"
	"github.com/memproxy/memproxy/ledger/keys"
	"github.com/memproxy/memproxy/ledger/ledgertest"
)

var (
	_ gate.Ledger = (*ledger.Ledger)(nil)
	_ gate.Signer = (*keys.Signer)(nil)
)

func open(t testing.TB, opt ledger.Options) *ledger.Ledger {
	t.Helper()
	if opt.Timeout == 0 {
		opt.Timeout = ring.Limit // tests share their machine
	}
	l := must.Get(ledger.Open(opt))(t)
	t.Cleanup(func() {
		for _, missed := range unseen(t, l, opt) {
			t.Errorf("the store has what is taken for absent, %s", missed)
		}
		_ = l.Close()
	})
	return l
}

// onFile opens a new ledger and returns it with the path of its file.
func onFile(t testing.TB) (l *ledger.Ledger, path string) {
	t.Helper()
	path = filepath.Join(ring.Dir(t), "ledger.db")
	return open(t, ledger.Options{Path: path, Vault: ledgertest.Vault(t)}), path
}

// Proves EDGE-3.
func TestContract(t *testing.T) {
	for name, opt := range map[string]ledger.Options{
		"file":           {Path: "file"},
		"file, no cache": {Path: "file", CacheSize: -1},
		"file, little":   {Path: "file", CacheSize: 8},
		"memory":         {},
	} {
		t.Run(name, func(t *testing.T) {
			if opt.Path != "" && opt.CacheSize == 0 {
				t.Parallel()
			} else if opt.Path != "" {
				ring.Slow(t, "the whole contract once more on files")
			}
			ledgertest.Run(t, func(t *testing.T) *ledger.Ledger {
				opt := opt
				if opt.Path != "" {
					opt.Path = filepath.Join(ring.Dir(t), "ledger.db")
				}
				return open(t, opt)
			})
		})
	}
}

func TestSurvivesReopening(t *testing.T) {
	path := filepath.Join(ring.Dir(t), "a dir?with=odd&names#%20", "ledger.db")
	must.Do(t, os.MkdirAll(filepath.Dir(path), 0o700))
	l := open(t, ledger.Options{Path: path})
	must.Do(t, l.Commit(context.Background(), memproxy.Entry{Queued: true, Owners: []memproxy.Ownership{ledgertest.Row("a")}})) // Close writes what is queued
	must.Do(t, l.Close())
	info, err := os.Stat(path)
	must.Do(t, err, "the file", info)
	must.Equal(t, info.Mode().Perm(), 0o600, "the file", info)
	l = open(t, ledger.Options{Path: path})
	got, err := ledger.ByID(t.Context(), l, "mem0", memproxy.TargetMemory, "a")
	must.Do(t, err, got)
	must.Equal(t, got["a"].Owner.Actor, "agent:dev", got)
}

func TestOpenRefuses(t *testing.T) {
	for name, opt := range map[string]ledger.Options{
		"timeout":   {Timeout: -1},
		"queue":     {Queue: -1},
		"directory": {Path: ring.Dir(t)},
		"nowhere":   {Path: filepath.Join(ring.Dir(t), "no", "such", "dir", "ledger.db")},
	} {
		if l, err := ledger.Open(opt); err == nil {
			t.Errorf("%s: opened", name)
			_ = l.Close()
		}
	}
}

// A file locked by another program delays a call by its deadline at most, and the rows
// are written once it is unlocked.
func TestLockedFile(t *testing.T) {
	path := filepath.Join(ring.Dir(t), "ledger.db")
	l := open(t, ledger.Options{Path: path, Queue: 2, Timeout: ring.Limit, OnLost: func(n int, err error) { t.Errorf("%d rows are lost: %v", n, err) }})
	other := must.Get(sql.Open("sqlite", path))(t)
	defer other.Close()
	conn := must.Get(other.Conn(t.Context()))(t)
	must.Get(conn.ExecContext(t.Context(), `BEGIN EXCLUSIVE`))(t)
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	must.Do(t, l.Commit(t.Context(), memproxy.Entry{Queued: true, Owners: []memproxy.Ownership{ledgertest.Row("b"), ledgertest.Row("c")}}))
	expect.Is(t, l.Commit(short, memproxy.Entry{Owners: []memproxy.Ownership{ledgertest.Row("a")}}), context.DeadlineExceeded, "a commit under a lock")
	expect.Is(t, l.Sync(short), context.DeadlineExceeded, "a ledger that is locked is not up to date")
	must.Get(conn.ExecContext(t.Context(), `ROLLBACK`))(t)
	must.Do(t, l.Commit(t.Context(), memproxy.Entry{Owners: []memproxy.Ownership{ledgertest.Row("a")}}))
	row := ledgertest.Row("a")
	expect.Len(t, must.Get(ledger.ByID(t.Context(), l, row.Backend, row.Kind, "a", "b", "c"))(t), 3)
}

func TestQueueIsBounded(t *testing.T) {
	l, w := stalled(t, ledger.Options{Path: filepath.Join(ring.Dir(t), "ledger.db"), Queue: 2})
	w.still.Store(true)
	defer w.free()
	err := l.Commit(context.Background(), memproxy.Entry{Queued: true, Owners: []memproxy.Ownership{ledgertest.Row("first")}})
	<-w.inside // the queue is not drained from here on
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	n := 0
	for ; n < 1000 && err == nil; n++ {
		err = l.Commit(ctx, memproxy.Entry{Queued: true, Owners: []memproxy.Ownership{ledgertest.Row(fmt.Sprint(n))}})
	}
	expect.That(t, errors.Is(err, context.DeadlineExceeded) && n <= 3, "the %dth entry: %v, want the third to wait in vain", n, err)
}
