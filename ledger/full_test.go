package ledger

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
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
			opt := Options{Path: filepath.Join(t.TempDir(), "ledger.db"), Vault: testVault(t), OnLost: func(int, error) { lost++ }}
			l := must.Get(Open(opt))(t)
			pages := func(n int) {
				t.Helper()
				must.Get(l.writer.Exec(fmt.Sprintf("PRAGMA max_page_count = %d", n)))(t)
			}
			pages(1) // no fewer than it has
			if !tc.logged {
				must.Do(t, l.redo.Close())
				file := must.Get(os.Open(opt.Path + redo.Suffix))(t) // to read only
				l.redo = must.Get(redo.Open(file, opt.Vault, 0, nil, nil))(t)
			}
			big := func(i int) memproxy.Entry {
				e := queuedEntry(fmt.Sprint("m", i))
				e.Versions[0].Text = string(make([]byte, 64<<10))
				return e
			}
			for i := range 3 {
				if err := l.Commit(t.Context(), big(i)); errors.Is(err, memproxy.ErrKept) == tc.logged || tc.logged && err != nil {
					t.Errorf("commit: %v", err)
				}
			}
			failing := func(wrong bool) {
				t.Helper()
				_, locked := l.SessionLocked(t.Context(), "acme", "s")
				_, bound := l.Bind(t.Context(), memproxy.Ownership{Backend: "mem0", Kind: memproxy.TargetEntity, ID: "user:ann", Scope: memproxy.Scope{Tenant: "acme"}})
				_, looked := l.Lookup(t.Context(), big(2).Versions[0].MemoryKey)
				for call, err := range map[string]error{"Ping": l.Ping(t.Context()), "SessionLocked": locked, "Bind": bound, "Lookup": looked} {
					if retryable(err) != wrong || !wrong && err != nil {
						t.Errorf("%s: %v", call, err)
					}
				}
			}
			_ = l.Sync(t.Context()) // entries may still be queued
			failing(true)
			if tc.ends {
				must.Do(t, l.Close())
				l = must.Get(Open(opt))(t)
			} else {
				pages(1 << 20)
			}
			failing(false)
			defer func() { _ = l.Close() }()
			if report, err := l.Chains.Verify(t.Context(), "acme", VerifyOptions{}); err != nil || int(report.Checked) != 3-tc.lost || len(report.Faults) > 0 || lost != tc.lost {
				t.Errorf("%d lost, %+v, %v", lost, report, err)
			}
			for i := range 3 - tc.lost {
				k := big(i).Versions[0].MemoryKey
				expect.Equal(t, must.Get(l.Version(t.Context(), k, 1))(t).Text, big(i).Versions[0].Text, k)
			}
			if info, err := os.Stat(opt.Path + redo.Suffix); err != nil || info.Size() != 0 {
				t.Errorf("what is written stays in the log: %v, %v", info, err)
			}
		})
	}
}

// Proves EDGE-3: of an entry that is committed in parts, all are kept while the disk is full.
func TestAllPartsWaitForRoom(t *testing.T) {
	l := must.Get(Open(Options{Path: filepath.Join(t.TempDir(), "ledger.db"), Vault: testVault(t)}))(t)
	defer func() { _ = l.Close() }()
	pages := func(n int) { must.Get(l.writer.Exec(fmt.Sprintf("PRAGMA max_page_count = %d", n)))(t) }
	pages(1) // no fewer than it has
	var all memproxy.Entry
	for i := range 2*maxPart + 1 {
		e := queuedEntry(fmt.Sprint("m", i))
		all.Versions, all.Queued = append(all.Versions, e.Versions...), true
		all.Versions[i].Text = string(make([]byte, 4<<10))
	}
	expect.Is(t, l.Commit(t.Context(), all), memproxy.ErrKept)
	pages(1 << 20)
	for i := range all.Versions {
		got := must.Get(l.History(t.Context(), all.Versions[i].MemoryKey, 0, 0))(t)
		must.Len(t, got, 1, i)
	}
}
