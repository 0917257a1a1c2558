package redo_test

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/ledger/redo"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/ledger/keys"
)

func testVault(t testing.TB) *keys.Vault {
	t.Helper()
	k := must.Get(keys.New(bytes.Repeat([]byte{7}, keys.Size)))(t)
	v := must.Get(keys.NewVault(keys.Set{Signing: k}))(t)
	return v
}

// Proves SYN-5: an erased entry is overwritten in the file while later entries stay, and
// a full log takes no entry.
func TestErase(t *testing.T) {
	file := must.Get(os.Create(filepath.Join(t.TempDir(), "log")))(t)
	v := testVault(t)
	l := must.Get(redo.Open(file, v, 0, nil, nil))(t)
	t.Cleanup(func() { _ = l.Close() })
	var ends []int64 // of the entries
	for i := range 3 {
		queued, logged := l.Append([]byte(strings.Repeat("x", 10+i)), func(n uint64) bool { return n == uint64(i+1) })
		must.Equal(t, queued, true)
		must.Equal(t, logged, true)
		ends = append(ends, must.Get(file.Stat())(t).Size())
	}
	must.Do(t, l.Applied(2, true))
	text, err := os.ReadFile(file.Name())
	expect.That(t, err == nil && len(bytes.Trim(text[:ends[1]], "\x00")) == 0 && int64(len(text)) == ends[2], "%d bytes, %v", len(text), err)
	again := must.Get(os.Open(file.Name()))(t)
	var found []string
	second, err := redo.Open(again, v, 2, func(n uint64, plain []byte) error {
		found = append(found, string(plain))
		return nil
	}, func(err error) { t.Error(err) })
	expect.That(t, err == nil && len(found) == 1 && found[0] == strings.Repeat("x", 12), "left are %q, %v", found, err)
	_ = second.Close()
	never := func(uint64) bool { t.Error("a full log had an entry queued"); return true }
	if queued, logged := l.Append(make([]byte, 16<<20), never); queued || logged {
		t.Error("over the limit: accepted")
	}
	must.Do(t, l.Applied(3, false))
	expect.Equal(t, must.Get(file.Stat())(t).Size(), 0)
}

// An entry that the queue refuses leaves neither a number nor a frame that counts.
func TestRefusedEntriesAreRolledBack(t *testing.T) {
	file := must.Get(os.Create(filepath.Join(t.TempDir(), "log")))(t)
	l := must.Get(redo.Open(file, testVault(t), 4, nil, nil))(t)
	t.Cleanup(func() { _ = l.Close() })
	queued, logged := l.Append([]byte("refused"), func(uint64) bool { return false })
	expect.That(t, !queued && !logged, "%v %v", queued, logged)
	queued, logged = l.Append([]byte("taken"), func(n uint64) bool { return n == 5 })
	expect.That(t, queued && logged, "%v %v", queued, logged)
}

// A frame of the log that was torn while it was read had been applied, and is no
// part of a backup.
func TestTornFramesAreApplied(t *testing.T) {
	frame := func(number uint64, size int) []byte {
		b := make([]byte, 13+size)
		binary.BigEndian.PutUint32(b, uint32(len(b)))
		binary.BigEndian.PutUint64(b[4:], number)
		return append(b, make([]byte, -len(b)&3)...)
	}
	one, two, erased := frame(1, 20), frame(2, 33), make([]byte, 8)
	all := slices.Concat(one, erased, two)
	for _, c := range []struct {
		log     []byte
		applied uint64
		want    []byte
	}{
		{all, 0, all}, {all, 1, two}, {all, 2, nil}, {nil, 0, nil}, {all[:3], 0, nil},
		{all[:len(one)-5], 1, nil}, {slices.Concat(one[:20], two), 1, nil},
		{bytes.Repeat([]byte{255}, 64), 7, bytes.Repeat([]byte{255}, 64)},
		{append([]byte{128}, make([]byte, 63)...), 7, nil},
	} {
		expect.Equal(t, string(redo.Unapplied(c.log, c.applied)), string(c.want), c.applied)
	}
}

// Any bytes are read as an entry that was sealed under its number, or as none.
func FuzzFrame(f *testing.F) {
	v, dir := testVault(f), f.TempDir()
	f.Add([]byte{0, 0, 0, 0})
	f.Add([]byte{0, 0, 0, 13, 0, 0, 0, 0, 0, 0, 0, 1, 0})
	f.Add(bytes.Repeat([]byte{255}, 40))
	f.Fuzz(func(t *testing.T, text []byte) {
		path := filepath.Join(dir, "log")
		must.Do(t, os.WriteFile(path, text, 0o600))
		l, err := redo.Open(must.Get(os.Open(path))(t), v, 0, func(n uint64, plain []byte) error {
			t.Errorf("entry %d is %q", n, plain)
			return nil
		}, func(err error) { expect.Is(t, err, keys.ErrSealed) })
		must.Do(t, err)
		must.Do(t, l.Close())
	})
}
