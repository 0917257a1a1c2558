package audit_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/memproxy/memproxy/telemetry/audit"
	"github.com/memproxy/memproxy/telemetry/audit/verify"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
)

const testOrigin = "test.example/log"

func testKey(n byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{n}, ed25519.SeedSize))
}

// noSync avoids disk syncs in tests without crashes.
func noSync(*os.File) error { return nil }

func testOptions(dir string) audit.Options {
	return audit.Options{Dir: dir, Key: testKey(1), Origin: testOrigin, Sync: noSync, CheckpointEvery: time.Hour}
}

// The places of the log's files; see docs/audit-format.md.
func journalPath(bundle int64) string { return fmt.Sprintf("journal/%012d", bundle) }

func tilePath(level any, n int64, width int) string {
	if width == 0 {
		return fmt.Sprintf("tile/%v/%03d", level, n)
	}
	return fmt.Sprintf("tile/%v/%03d.p/%d", level, n, width)
}

func bundlePath(n int64, width int) string { return tilePath("entries", n, width) }

// someEvent is a decision with most kinds of members.
func someEvent() memproxy.Event {
	return memproxy.Event{
		Type: memproxy.EventDecision, Time: time.Date(2026, 3, 4, 5, 6, 7, 89, time.UTC), Decision: "01J8ZK6Q", Session: "run-7",
		Principal: memproxy.Principal{ID: "agent:dev", Kind: memproxy.KindAgent, Tenant: "acme", Trust: memproxy.TrustAuthenticated, Method: "key"},
		Kind:      memproxy.Learn, Backend: "mem0", Route: "mem0.v3.add", Method: "POST",
		Scope:   memproxy.Scope{Tenant: "acme", User: "ann", Agent: "dev", App: "ide", Run: "run-7"},
		Targets: []string{"m1", "m2"}, Fields: []string{"gotchas"}, Items: 3, ContentSHA256: strings.Repeat("ab", 32), Verdict: memproxy.Amend,
		Reasons:  []memproxy.Reason{{Code: memproxy.TrustClamped, Rule: "ceiling", Detail: "asked 900, given 700", Pointer: "/metadata/confidence"}},
		Facts:    &memproxy.Facts{Roles: []string{"dev"}, Writes: []memproxy.Written{{Field: "gotchas", Layer: memproxy.Semantic, Size: 40}}},
		Budget:   []memproxy.LineState{{Line: memproxy.Line{Reason: memproxy.BudgetHour, Key: "principal/agent:dev", Window: memproxy.WindowHour, Limit: 100}, Used: 3}},
		Memories: []string{"a", "b"},
	}
}

func hexOf(h tlog.Hash) string { return hex.EncodeToString(h[:]) }

func open(t testing.TB, opt audit.Options) *audit.Log {
	t.Helper()
	return must.Get(audit.Open(opt))(t)
}

func closeLog(t testing.TB, l *audit.Log) {
	t.Helper()
	must.Do(t, l.Close(context.Background()))
}

func record(t testing.TB, l *audit.Log, n int) {
	t.Helper()
	var wg sync.WaitGroup
	for range min(n, 50) {
		wg.Go(func() {
			for range n / min(n, 50) {
				expect.OK(t, l.Record(context.Background(), someEvent()))
			}
		})
	}
	wg.Wait()
	for range n % min(n, 50) {
		must.Do(t, l.Record(context.Background(), someEvent()))
	}
}

// Proves CARD-7: every record has its index, and chain and tree hold across restarts and
// bundles.
func TestRecordsSurviveReopening(t *testing.T) {
	dir := ring.Dir(t)
	var mu sync.Mutex
	seen := map[uint64][]byte{}
	opt := testOptions(dir)
	opt.OnRecord = func(i uint64, ev *memproxy.Event, rec []byte) {
		mu.Lock()
		defer mu.Unlock()
		expect.Equal(t, ev.Decision, "01J8ZK6Q", "record", i, "comes with event", ev)
		seen[i] = rec
	}
	var leaves []tlog.Hash
	for _, n := range []int{3, 253, 1, 256, 600, 0, 171} {
		l := open(t, opt)
		must.Equal(t, l.Size(), uint64(len(leaves)), "size", len(leaves))
		if n > 0 {
			record(t, l, n)
		}
		must.Do(t, l.Flush(context.Background()))
		expect.Equal(t, l.Lag(), (audit.Lag{}), "lag")
		for i := len(leaves); i < int(l.Size()); i++ {
			leaves = append(leaves, tlog.RecordHash(seen[uint64(i)]))
		}
		closeLog(t, l)
		want := treeRoot(t, leaves)
		msg := must.Get(os.ReadFile(filepath.Join(dir, "checkpoint")))(t)
		got, err := verify.ParseCheckpoint(msg, must.Get(verify.ParseKey(must.Get(audit.VerifierKey(testOrigin, opt.Key.Public().(ed25519.PublicKey)))(t)))(t))
		if err != nil || int(got.Size) != len(leaves) || got.Root != want {
			t.Fatalf("checkpoint of %d records is %d %v (%v), want %v", len(leaves), got.Size, got.Root, err, want)
		}
	}
	prev := hexOf(tlog.Hash{})
	for i := range leaves {
		must.Equal(t, bytes.Contains(seen[uint64(i)], []byte(`"prev_hash":"`+prev+`"`)), true, "record", i, "does not name the one before it", seen[uint64(i)])
		prev = hexOf(leaves[i])
	}
	if list, _ := os.ReadDir(filepath.Join(dir, "journal")); len(list) != 1 {
		t.Errorf("%d journals are left, want the one of the bundle that is not full", len(list))
	}
}

// treeRoot is the root as computed by package tlog.
func treeRoot(t testing.TB, leaves []tlog.Hash) tlog.Hash {
	t.Helper()
	var stored []tlog.Hash
	reader := tlog.HashReaderFunc(func(ix []int64) ([]tlog.Hash, error) {
		out := make([]tlog.Hash, len(ix))
		for i, x := range ix {
			out[i] = stored[x]
		}
		return out, nil
	})
	for i, leaf := range leaves {
		hs := must.Get(tlog.StoredHashesForRecordHash(int64(i), leaf, reader))(t)
		stored = append(stored, hs...)
	}
	return must.Get(tlog.TreeHash(int64(len(leaves)), reader))(t)
}

func TestNotesKeepTheirOrder(t *testing.T) {
	var kinds []memproxy.EventType
	opt := testOptions(ring.Dir(t))
	opt.AsyncDelay = time.Hour // written only with a record
	opt.OnRecord = func(_ uint64, ev *memproxy.Event, _ []byte) { kinds = append(kinds, ev.Type) }
	l := open(t, opt)
	for _, typ := range []memproxy.EventType{"a", "b"} {
		must.Do(t, l.RecordAsync(memproxy.Event{Type: typ}))
	}
	must.Do(t, l.Record(context.Background(), memproxy.Event{Type: "c"}))
	must.Do(t, l.RecordAsync(memproxy.Event{Type: "d"}))
	closeLog(t, l)
	if got := len(kinds); got != 4 || kinds[0] != "a" || kinds[1] != "b" || kinds[2] != "c" || kinds[3] != "d" {
		t.Errorf("order %v, want a b c d", kinds)
	}
	expect.Is(t, l.RecordAsync(memproxy.Event{}), audit.ErrClosed, "note on a closed log")
	expect.Is(t, l.Record(context.Background(), memproxy.Event{}), audit.ErrClosed, "record on a closed log")
	expect.Is(t, l.Healthy(), audit.ErrClosed, "a closed log is healthy")
}

func TestOneWriter(t *testing.T) {
	opt := testOptions(ring.Dir(t))
	l := open(t, opt)
	expect.Is(t, expect.Err(audit.Open(opt)), audit.ErrLocked, "a second writer")
	closeLog(t, l)
	closeLog(t, open(t, opt))
}

func TestOptionsAreChecked(t *testing.T) {
	good := testOptions(ring.Dir(t))
	for name, spoil := range map[string]func(*audit.Options){
		"no dir": func(o *audit.Options) { o.Dir = "" }, "no key": func(o *audit.Options) { o.Key = nil },
		"no origin": func(o *audit.Options) { o.Origin = "" }, "space": func(o *audit.Options) { o.Origin = "a b" },
		"plus": func(o *audit.Options) { o.Origin = "a+b" }, "newline": func(o *audit.Options) { o.Origin = "a\nb" },
	} {
		o := good
		spoil(&o)
		expect.Error(t, expect.Err(audit.Open(o)), name, "opened")
	}
	closeLog(t, open(t, good))
	other := good
	other.Key = testKey(2)
	expect.Is(t, expect.Err(audit.Open(other)), audit.ErrCorrupt, "another key")
}

func TestKeyFile(t *testing.T) {
	dir := filepath.Join(ring.Dir(t), "keys")
	a := must.Get(audit.LoadOrCreateKey(dir))(t)
	b := must.Get(audit.LoadOrCreateKey(dir))(t)
	must.Equal(t, a.Equal(b), true, "the key changed")
	path := filepath.Join(dir, audit.KeyFile)
	if st, _ := os.Stat(path); st.Mode().Perm() != 0o600 {
		t.Errorf("key file mode %v", st.Mode())
	}
	must.Do(t, os.Chmod(path, 0o640))
	expect.Error(t, expect.Err(audit.LoadOrCreateKey(dir)), "a key that others may read was taken")
	must.Do(t, os.WriteFile(path, []byte("rubbish"), 0o600))
	_ = os.Chmod(path, 0o600)
	expect.Error(t, expect.Err(audit.LoadOrCreateKey(dir)), "rubbish was taken for a key")
}

// Proves CARD-7: after a pause a record is signed within a tenth of a second, and a busy
// log within a second, by one checkpoint a second.
func TestCheckpointsAreASecondApart(t *testing.T) { synctest.Test(t, checkpointsAreASecondApart) }

func checkpointsAreASecondApart(t *testing.T) {
	opt := testOptions(ring.Dir(t))
	opt.CheckpointEvery = 0 // the default
	l := open(t, opt)
	defer l.Close(context.Background())
	pass := func(d time.Duration) {
		time.Sleep(d) // in the bubble
		synctest.Wait()
	}
	pass(2 * time.Second)
	record(t, l, 1)
	must.Equal(t, l.Lag().Unsigned, 1, "the record is signed at once")
	pass(100 * time.Millisecond)
	must.Equal(t, l.Lag().Unsigned, 0)
	checkpoints, signed := 0, l.Lag().Unsigned
	for range 400 {
		record(t, l, 1)
		pass(10 * time.Millisecond)
		lag := l.Lag().Unsigned
		must.Equal(t, lag <= 100, true, lag, "records, of more than a second, are not signed")
		if lag <= signed {
			checkpoints++
		}
		signed = lag
	}
	if checkpoints < 3 || checkpoints > 4 {
		t.Errorf("%d checkpoints in four seconds", checkpoints)
	}
}

// Proves CARD-7: a burst within the time between two checkpoints is signed earlier, and no
// record is refused for want of room.
func TestBurstsAreSignedEarlier(t *testing.T) { synctest.Test(t, burstsAreSignedEarlier) }

func burstsAreSignedEarlier(t *testing.T) {
	opt := testOptions(ring.Dir(t))
	l := open(t, opt)
	defer l.Close(context.Background())
	ev := memproxy.Event{Type: memproxy.EventReload, Detail: "short"}
	for range 64 + 4 {
		for range 256 - 1 {
			must.Do(t, l.RecordAsync(ev))
		}
		must.Do(t, l.Record(t.Context(), ev), "after", l.Size())
		synctest.Wait()
	}
	if n := l.Lag().Unsigned; n > (64/2+1)*256 {
		t.Errorf("%d records are not signed", n)
	}
}

// An asynchronous event waits for others for Options.AsyncDelay, each time anew, and not
// if another's caller waits.
func TestAsynchronousEventsAreWrittenInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opt := testOptions(ring.Dir(t))
		opt.AsyncDelay = time.Second
		written := make(chan time.Time, 3)
		opt.OnRecord = func(uint64, *memproxy.Event, []byte) { written <- time.Now() }
		l := open(t, opt)
		defer closeLog(t, l)
		for range 3 {
			synctest.Wait() // the writer may have been woken once more
			begun := time.Now()
			must.Do(t, l.RecordAsync(someEvent()))
			expect.Equal(t, (<-written).Sub(begun), opt.AsyncDelay)

			begun = time.Now()
			must.Do(t, l.RecordAsync(someEvent()))
			must.Do(t, l.Record(t.Context(), someEvent()))
			expect.Equal(t, (<-written).Sub(begun), 0)
			expect.Equal(t, (<-written).Sub(begun), 0)
		}
	})
}

// What was passed to the hook is not kept: neither the bundles that the records are in, nor
// the events.
func TestRecordsPassedOnAreForgotten(t *testing.T) {
	opt := testOptions(ring.Dir(t))
	opt.AsyncDelay = time.Hour // written with the next record, in one group
	var records []weak.Pointer[byte]
	var events []weak.Pointer[memproxy.Facts]
	opt.OnRecord = func(_ uint64, ev *memproxy.Event, rec []byte) {
		records, events = append(records, weak.Make(&rec[0])), append(events, weak.Make(ev.Facts))
	}
	l := open(t, opt)
	large := someEvent()
	large.Memories = slices.Repeat([]string{"a-memory"}, 1000)
	for range 200 {
		large.Facts = &memproxy.Facts{Risk: 1, Roles: []string{"dev"}}
		must.Do(t, l.RecordAsync(large))
	}
	for range 57 { // the bundle is full, and the next one began
		must.Do(t, l.Record(t.Context(), someEvent()))
	}
	must.Do(t, l.Flush(t.Context()))
	runtime.GC()
	for i := range 200 {
		must.Equal(t, records[i].Value(), nil, "record", i)
		must.Equal(t, events[i].Value(), nil, "event", i)
	}
	closeLog(t, l)
}
