package ledger_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/memproxy/memproxy/ledger"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/ledger/redo"
)

// queuedEntry is the entry of an addition.
func queuedEntry(id string) memproxy.Entry {
	k := memproxy.MemoryKey{Backend: "mem0", Kind: memproxy.TargetMemory, ID: id}
	return memproxy.Entry{
		Queued:   true,
		Versions: []memproxy.Version{{MemoryKey: k, Tenant: "acme", Op: memproxy.OpWrite, Actor: "agent:dev", Decision: "d-" + id, Text: "the text of " + id, Metadata: []byte(`{"a":1}`)}},
		States:   []memproxy.StateChange{{MemoryKey: k, Tenant: "acme", State: memproxy.StateFlagged, Decision: "d-" + id, Findings: []memproxy.Finding{{Rule: "r", End: 3}}}},
		Owners:   []memproxy.Ownership{{Backend: k.Backend, Kind: k.Kind, ID: id, Scope: memproxy.Scope{Tenant: "acme"}, Actor: "agent:dev", Decision: "d-" + id}},
	}
}

// killed returns copies of the files of a ledger with n entries in its redo log and
// none in the database, as after kill -9.
func killed(t *testing.T, n int) (files map[string][]byte) {
	t.Helper()
	queued(t, n, func(path string) {
		files = map[string][]byte{}
		for _, suffix := range []string{"", "-wal", redo.Suffix} {
			text := must.Get(os.ReadFile(path + suffix))(t)
			files[suffix] = text
		}
	})
	return files
}

// queued calls f while a ledger is open with n entries, none of which is in the
// database.
func queued(t *testing.T, n int, f func(path string)) {
	t.Helper()
	var all []memproxy.Entry
	for i := range n {
		all = append(all, queuedEntry(fmt.Sprint("m", i)))
	}
	queuedEntries(t, all, f)
}

func queuedEntries(t *testing.T, all []memproxy.Entry, f func(path string)) {
	t.Helper()
	path := filepath.Join(ring.Dir(t), "ledger.db")
	l, w := stalled(t, ledger.Options{Path: path, Vault: testVault(t)})
	defer func() { _ = l.Close() }()
	defer w.free()
	w.still.Store(true)
	for i, e := range all {
		must.Do(t, l.Commit(t.Context(), e))
		if i == 0 {
			<-w.inside
			w.still.Store(false)
		}
	}
	f(path)
}

// writer waits in its transactions while still is set, from the first one until free is
// called.
type writer struct {
	still  atomic.Bool
	inside chan struct{} // for each transaction
	free   func()
}

// stalled opens a ledger with such a writer.
func stalled(t *testing.T, opt ledger.Options) (*ledger.Ledger, *writer) {
	t.Helper()
	release := make(chan struct{})
	w := &writer{inside: make(chan struct{}, 1000), free: sync.OnceFunc(func() { close(release) })}
	opt.Clock = func() time.Time {
		if w.still.Load() {
			w.inside <- struct{}{}
			<-release
		}
		return time.Unix(1, 0)
	}
	return open(t, opt), w
}

// revived opens copies of files, and returns how many entries are complete and how many
// were reported lost. No entry may be partial.
func revived(t *testing.T, files map[string][]byte, n int) (whole, lost int) {
	t.Helper()
	path := filepath.Join(must.Get(os.MkdirTemp(ring.Dir(t), ""))(t), "ledger.db")
	put(t, path, files)
	for round := range 2 { // the second time nothing is left to apply
		l := must.Get(ledger.Open(ledger.Options{Timeout: ring.Limit, Path: path, Vault: testVault(t), OnLost: func(int, error) { lost++ }}))(t)
		whole = 0
		for i := range n {
			want := queuedEntry(fmt.Sprint("m", i))
			k := want.Versions[0].MemoryKey
			all := must.Get(l.Lookup(t.Context(), k))(t)
			rec := all.Of(k)
			history := must.Get(l.History(t.Context(), k, 0, 0))(t)
			if !rec.HasOwner() && !rec.HasStatus() && len(history) == 0 {
				continue
			}
			must.That(t, rec.Owner == want.Owners[0] && rec.Status.State == memproxy.StateFlagged && len(history) == 1,
				"round %d: a part of %d: %+v, %d versions", round, i, rec, len(history))
			must.Equal(t, must.Get(l.Version(t.Context(), k, 1))(t).Text, want.Versions[0].Text, "round", round, i)
			whole++
		}
		report, err := l.Chains.Verify(t.Context(), "acme", ledger.VerifyOptions{})
		must.That(t, err == nil && report.Checked == int64(whole) && len(report.Faults) == 0, "round %d: %+v, %v", round, report, err)
		must.Equal(t, must.Get(os.Stat(path+redo.Suffix))(t, round).Size(), 0, "round", round, "what is applied stays in the log")
		must.Do(t, l.Close())
	}
	return whole, lost
}

// wantRevived is revived with what has to come of it.
func wantRevived(t *testing.T, files map[string][]byte, n, whole, lost int, about ...any) {
	t.Helper()
	is, gone := revived(t, files, n)
	expect.Equal(t, is, whole, append(about, "entries")...)
	expect.Equal(t, gone, lost, append(about, "lost")...)
}

// Proves EDGE-3, SYN-5: queued entries survive kill -9 complete, once, and in the
// chain, though the database had none of them.
func TestQueuedEntriesOutliveTheProcess(t *testing.T) {
	files := killed(t, 3)
	for _, text := range []string{"the text of m0", "agent:dev", "acme"} {
		expect.Equal(t, bytes.Contains(files[redo.Suffix], []byte(text)), false, "the log shows", text)
	}
	wantRevived(t, files, 3, 3, 0)
	delete(files, redo.Suffix)
	wantRevived(t, files, 3, 0, 0, "without the log")
}

// redoHead is the size of a frame without its key and entry, in bytes.
const redoHead = 13

// Proves EDGE-3, TRL-7: a truncated or altered log yields complete entries only, and
// alterations are reported.
func TestDamagedRedoLogs(t *testing.T) {
	files := killed(t, 2)
	log := files[redo.Suffix]
	first := len(log) / 2
	for _, size := range []int{0, 3, redoHead, first - 4, first, first + 5, len(log) - 4} {
		files[redo.Suffix] = log[:size]
		wantRevived(t, files, 2, size/first, 0, "cut to", size, "of", len(log))
	}
	for _, at := range []int{5, 11, 12, redoHead, redoHead + 20, first - 8} {
		bad := bytes.Clone(log)
		bad[at] ^= 1
		files[redo.Suffix] = bad
		wantRevived(t, files, 2, 1, 1, "changed at", at)
	}
	files[redo.Suffix] = append(bytes.Clone(log[first:]), log[:first]...)
	whole, _ := revived(t, files, 2)
	expect.That(t, whole == 1, "in another order: %d entries", whole)
	files[redo.Suffix] = append(bytes.Clone(log), log...)
	wantRevived(t, files, 2, 2, 0, "twice")
}

// Proves EDGE-3: an entry that comes from the redo log writes the same rows as one that need
// not, with every member set.
func TestEntriesSurviveTheirEncoding(t *testing.T) {
	e := memproxy.Entry{Queued: true}
	v := reflect.ValueOf(&e).Elem()
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		if f := v.Field(i); f.Kind() == reflect.Slice && name != "ExpectedOwners" && name != "Dissents" && name != "Corrections" && name != "Retractions" {
			f.Set(reflect.MakeSlice(f.Type(), 1, 1))
			fill(t, f.Index(0), name)
		}
	}
	filled := e.States[0]
	e.States = nil
	for i := range 4 { // only the first applies: the others were decided on another state
		state := filled
		state.ID, state.State = fmt.Sprint(i), memproxy.StateFlagged
		if i&1 == 0 {
			state.From = nil
		}
		if i&2 == 0 {
			state.Seen = time.Time{}
		}
		e.States = append(e.States, state)
	}
	var plain, revived string
	opt := ledger.Options{Vault: testVault(t), Timeout: ring.Limit, Clock: func() time.Time { return time.Unix(1, 0) }}
	queuedEntries(t, []memproxy.Entry{queuedEntry("m0"), e}, func(path string) {
		revived = filepath.Join(ring.Dir(t), "ledger.db")
		for _, suffix := range []string{"", "-wal", redo.Suffix} {
			must.Do(t, os.WriteFile(revived+suffix, must.Get(os.ReadFile(path+suffix))(t), 0o600))
		}
		plain = path
	})
	for _, opt.Path = range []string{revived, plain} {
		l := open(t, opt)
		for _, v := range []memproxy.Version{e.Found[0], e.Versions[0]} {
			got := must.Get(l.Version(t.Context(), v.MemoryKey, 1))(t)
			must.Equal(t, got.Text+string(got.Metadata), v.Text+string(v.Metadata), opt.Path)
		}
		must.Do(t, l.Close())
	}
	for _, path := range []string{plain, revived} { // texts are encrypted, each time with another key
		vandalise(t, path, `UPDATE version SET envelope = ''`)
	}
	expect.Map(t, tablesOf(t, revived), tablesOf(t, plain))
}

// fill sets every member to a distinct value.
func fill(t *testing.T, v reflect.Value, name string) {
	t.Helper()
	switch {
	case v.Type() == reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(time.Unix(1, 5).UTC()))
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i), name+"."+v.Type().Field(i).Name)
		}
	case v.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(t, v.Index(0), name)
	case v.Kind() == reflect.String:
		v.SetString(name)
	case v.Kind() == reflect.Bool:
		v.SetBool(true)
	case v.CanInt():
		v.SetInt(7)
	case v.CanUint():
		v.SetUint(7)
	default:
		t.Fatalf("%s is a %s", name, v.Type())
	}
}
