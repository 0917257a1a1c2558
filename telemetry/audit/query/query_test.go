package query_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/telemetry/audit"
	"github.com/memproxy/memproxy/telemetry/audit/query"
	"github.com/memproxy/memproxy/telemetry/audit/verify"
)

var begin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// openLog opens a log whose record i is appended at begin + i seconds, if records are
// appended one by one.
func openLog(t testing.TB, dir string) *audit.Log {
	t.Helper()
	at := begin.Add(-2 * time.Second) // opening the log reads the clock once
	return must.Get(audit.Open(audit.Options{
		Dir: dir, Key: ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, 32)), Origin: "q", CheckpointEvery: time.Hour, Reserve: 1 << 16,
		Sync:  func(*os.File) error { return nil },
		Clock: func() time.Time { at = at.Add(time.Second); return at },
	}))(t)
}

// add records events i = from..to-1 that differ in every field by i.
func add(t testing.TB, l *audit.Log, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		ev := memproxy.Event{
			Type: memproxy.EventDecision, Decision: fmt.Sprint("d", i), Principal: memproxy.Principal{ID: fmt.Sprint("agent:", i%3)},
			Kind: memproxy.Kinds[i%2], Fields: []string{fmt.Sprint("f", i%5)}, Verdict: memproxy.Verdict(i % 4), ShadowVerdict: memproxy.Verdict(i % 4),
			Scope: memproxy.Scope{Agent: fmt.Sprint("named", i%7)},
		}
		if i%4 == 3 {
			ev.Reasons = []memproxy.Reason{{Code: memproxy.BudgetHour}}
		}
		must.Do(t, l.Record(context.Background(), ev))
	}
}

func run(t testing.TB, dir string, f query.Filter) (got []int) {
	t.Helper()
	must.Do(t, query.Query(context.Background(), dir, f, func(r *verify.Record) error {
		got = append(got, int(r.Index))
		return nil
	}))
	return got
}

// Proves SYN-6, EDGE-7: queries by agent, field, action, verdict, time and last n.
func TestQuery(t *testing.T) {
	dir := ring.Dir(t)
	l := openLog(t, dir)
	const size = 700
	add(t, l, 0, size)
	// The preallocated journal of the next bundle, as in a running log.
	must.Do(t, os.WriteFile(filepath.Join(dir, "journal", "000000000003"), make([]byte, 4096), 0o600))
	at := func(i int) time.Time { return begin.Add(time.Duration(i) * time.Second) }
	for name, c := range map[string]struct {
		f    query.Filter
		want func(i int) bool
	}{
		"all":       {query.Filter{}, func(int) bool { return true }},
		"principal": {query.Filter{Principal: "agent:1"}, func(i int) bool { return i%3 == 1 }},
		"agent":     {query.Filter{Agent: "named3"}, func(i int) bool { return i%7 == 3 }},
		"agent id":  {query.Filter{Agent: "agent:2"}, func(i int) bool { return i%3 == 2 }},
		"field":     {query.Filter{Field: "f4"}, func(i int) bool { return i%5 == 4 }},
		"action":    {query.Filter{Action: "correct"}, func(i int) bool { return i%2 == 1 }},
		"verdict":   {query.Filter{Verdict: "hold"}, func(i int) bool { return i%4 == 2 }},
		"reason":    {query.Filter{Reason: "budget.hour"}, func(i int) bool { return i%4 == 3 }},
		"decision":  {query.Filter{Decision: "d512"}, func(i int) bool { return i == 512 }},
		"none":      {query.Filter{Type: "reload"}, func(int) bool { return false }},
		"time":      {query.Filter{Since: at(250), Until: at(520)}, func(i int) bool { return i >= 250 && i < 520 }},
		"since":     {query.Filter{Since: at(512)}, func(i int) bool { return i >= 512 }},
		"the end":   {query.Filter{Since: at(600)}, func(i int) bool { return i >= 600 }},
		"before":    {query.Filter{Since: at(-9)}, func(i int) bool { return true }},
		"until":     {query.Filter{Until: at(256)}, func(i int) bool { return i < 256 }},
		"last":      {query.Filter{Last: 300}, func(i int) bool { return i >= size-300 }},
		"last deny": {query.Filter{Last: 2, Verdict: "deny"}, func(i int) bool { return i == 699 || i == 695 }},
		"two":       {query.Filter{Verdict: "deny", Principal: "agent:0"}, func(i int) bool { return i%4 == 3 && i%3 == 0 }},
	} {
		t.Run(name, func(t *testing.T) {
			var want []int
			for i := range size {
				if c.want(i) {
					want = append(want, i)
				}
			}
			expect.Equal(t, fmt.Sprint(run(t, dir, c.f)), fmt.Sprint(want), want)
		})
	}
	must.Do(t, l.Close(context.Background()))
	expect.Len(t, run(t, dir, query.Filter{}), size)
	expect.Error(t, query.Query(context.Background(), dir, query.Filter{Last: query.MaxLast + 1}, nil), "more than fits memory was promised")
}

// Proves SYN-6: a record matches by the right member, not because the word occurs
// elsewhere.
func TestQueryAsksTheRightMember(t *testing.T) {
	dir := ring.Dir(t)
	l := openLog(t, dir)
	for _, ev := range []memproxy.Event{
		{Type: memproxy.EventDecision, Kind: memproxy.Learn, Fields: []string{"one"}, Targets: []string{"two"}},
		{Type: memproxy.EventDecision, Kind: memproxy.Learn, Fields: []string{"two"}, Targets: []string{"one"}},
	} {
		must.Do(t, l.Record(context.Background(), ev))
	}
	for _, c := range []struct {
		f    query.Filter
		want int
	}{{query.Filter{Field: "one"}, 0}, {query.Filter{Field: "two"}, 1}, {query.Filter{Memory: "one"}, 1}, {query.Filter{Memory: "two"}, 0}} {
		expect.List(t, run(t, dir, c.f), []int{c.want}, c.f, c.want)
	}
}

// Proves SYN-6: pruned records are absent, without an error.
func TestQueryOfPrunedLog(t *testing.T) {
	dir := ring.Dir(t)
	l := openLog(t, dir)
	add(t, l, 0, 800)
	must.Do(t, l.Flush(context.Background()))
	must.Equal(t, must.Get(l.Prune(context.Background(), begin.Add(300*time.Second), 0))(t), 256, "pruned")
	if got := run(t, dir, query.Filter{}); len(got) != 801-256 || got[0] != 256 {
		t.Errorf("%d records from %d on", len(got), got[0])
	}
	must.Do(t, l.Close(context.Background()))
}

// Proves SYN-6: what is followed is every later record, after the last three or after none,
// while the journal of the next bundle is there already.
func TestTailFollows(t *testing.T) {
	for _, last := range []int{3, 0} {
		synctest.Test(t, func(t *testing.T) { tailFollows(t, last) })
	}
}

func tailFollows(t *testing.T, last int) {
	dir := ring.Dir(t)
	l := openLog(t, dir)
	add(t, l, 0, 254)
	ctx, cancel := context.WithCancel(t.Context())
	var got []int
	done := make(chan error, 1)
	go func() {
		done <- query.Tail(ctx, dir, query.Filter{}, last, true, func(r *verify.Record) error { got = append(got, int(r.Index)); return nil })
	}()
	synctest.Wait() // it is at the end of the log
	must.Len(t, must.Get(os.ReadDir(filepath.Join(dir, "journal")))(t), 2, "the journal of the next bundle beside that of the last")
	next := 254 - last
	for _, to := range []int{254, 256, 600, 601} { // at 256 a bundle is full, and the next one empty; then follow two more
		if to == 601 {
			must.Do(t, l.Flush(ctx))
		}
		add(t, l, max(next, 254), to)
		time.Sleep(time.Second)
		synctest.Wait()
		for _, i := range got {
			must.Equal(t, i, next, "record")
			next++
		}
		if got = nil; next != to {
			t.Fatalf("it passed the records before %d, want those before %d", next, to)
		}
	}
	cancel()
	must.Do(t, <-done)
	must.Do(t, l.Close(context.Background()))
	stop := errors.New("enough")
	expect.Is(t, query.Tail(context.Background(), dir, query.Filter{}, 5, false, func(*verify.Record) error { return stop }), stop, "the caller's error is lost")
}

// A log that replaces the one that is followed, as after it was archived, is followed from
// its first record on. Records that were pruned before they were read are an error.
func TestTailMissesNothing(t *testing.T) {
	for want, change := range map[string]func(t *testing.T, dir string, l *audit.Log, read func()){
		"4 5 0 1 2 <nil>": func(t *testing.T, dir string, l *audit.Log, read func()) {
			add(t, l, 5, 6)
			must.Do(t, l.Close(t.Context()))
			read()
			must.Do(t, os.Rename(dir, dir+".archived"))
			read() // nothing
			l = openLog(t, dir)
			add(t, l, 0, 3)
			must.Do(t, l.Close(t.Context()))
		},
		"4 records 5 to 255: " + verify.ErrGap.Error(): func(t *testing.T, _ string, l *audit.Log, _ func()) {
			add(t, l, 5, 800)
			must.Do(t, l.Flush(t.Context()))
			must.Equal(t, must.Get(l.Prune(t.Context(), begin.Add(300*time.Second), 0))(t), 256, "pruned")
			must.Do(t, l.Close(t.Context()))
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			dir := filepath.Join(ring.Dir(t), "audit")
			l := openLog(t, dir)
			add(t, l, 0, 5)
			ctx, cancel := context.WithCancel(t.Context())
			got, read, done := "", make(chan bool), make(chan error, 1)
			go func() {
				done <- query.Tail(ctx, dir, query.Filter{}, 1, true, func(r *verify.Record) error {
					got += fmt.Sprint(r.Index, " ")
					<-read
					return nil
				})
			}()
			synctest.Wait()
			goOn := sync.OnceFunc(func() { close(read) })
			change(t, dir, l, func() { goOn(); time.Sleep(time.Second) })
			goOn()
			time.Sleep(time.Second)
			cancel()
			err := <-done
			expect.Equal(t, got+fmt.Sprint(err), want)
		})
	}
}

// Records that are missing in the middle, or before the end in the checkpoint, are an
// error and not a shorter result; a journal with a distant number is ignored.
func TestGapsAreErrors(t *testing.T) {
	dir := ring.Dir(t)
	l := openLog(t, dir)
	add(t, l, 0, 1800)
	must.Do(t, l.Close(t.Context()))
	must.Do(t, os.WriteFile(dir+"/journal/000999999999", nil, 0o600))
	all := run(t, dir, query.Filter{})
	checkpoint := must.Get(os.ReadFile(dir + "/checkpoint"))(t)
	for name, cut := range map[string]func(dir string) error{
		"one in the middle":  func(dir string) error { return os.Remove(dir + "/tile/entries/003") },
		"one near the begin": func(dir string) error { return os.Remove(dir + "/tile/entries/001") },
		"one near the end":   func(dir string) error { return os.Remove(dir + "/tile/entries/006") },
		"an end far away": func(dir string) error {
			lines := bytes.SplitN(checkpoint, []byte("\n"), 3)
			lines[1] = []byte("9007199254740991")
			return os.WriteFile(dir+"/checkpoint", bytes.Join(lines, []byte("\n")), 0o600)
		},
	} {
		at := ring.Dir(t)
		must.Do(t, errors.Join(os.CopyFS(at, os.DirFS(dir)), cut(at)))
		for _, f := range []query.Filter{{}, {Last: len(all)}} {
			expect.Is(t, query.Query(t.Context(), at, f, func(*verify.Record) error { return nil }), verify.ErrGap, name, "last", f.Last)
		}
	}
	expect.Equal(t, len(all) >= 1800, true, len(all), "records of the whole log")
}

// A pipe or device in place of a file would block, or be read, for ever.
func TestOnlyRegularFilesAreRead(t *testing.T) {
	dir := ring.Dir(t)
	l := openLog(t, dir)
	add(t, l, 0, 10)
	must.Do(t, l.Close(t.Context()))
	must.Do(t, os.Symlink(os.DevNull, dir+"/tile/entries/000"))
	expect.ErrorHas(t, query.Query(t.Context(), dir, query.Filter{}, func(*verify.Record) error { return nil }), "is not a file", "a device in a bundle's place")
}
