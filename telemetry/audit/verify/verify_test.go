package verify_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/telemetry/audit"
	"github.com/memproxy/memproxy/telemetry/audit/verify"
)

const origin = "test.example/log"

func key(n byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{n}, ed25519.SeedSize))
}

func vkey(t testing.TB, n byte) string {
	t.Helper()
	return must.Get(audit.VerifierKey(origin, key(n).Public().(ed25519.PublicKey)))(t)
}

// writeLog adds n records to the log in dir and closes it.
func writeLog(t testing.TB, dir string, n int) {
	t.Helper()
	writeWith(t, options(dir), n)
}

func options(dir string) audit.Options {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	return audit.Options{
		Dir: dir, Key: key(1), Origin: origin, CheckpointEvery: time.Hour,
		Sync:  func(*os.File) error { return nil },
		Clock: func() time.Time { at = at.Add(time.Second); return at },
	}
}

func writeWith(t testing.TB, opt audit.Options, n int) {
	t.Helper()
	l := must.Get(audit.Open(opt))(t)
	add(t, l, n)
	must.Do(t, l.Close(context.Background()))
}

func event() memproxy.Event {
	return memproxy.Event{Type: memproxy.EventDecision, Decision: "d", Principal: memproxy.Principal{ID: "agent:dev"}}
}

// add queues records without waiting for each.
func add(t testing.TB, l *audit.Log, n int) {
	t.Helper()
	for i := range n {
		ev := memproxy.Event{Type: memproxy.EventDecision, Decision: fmt.Sprint("d", i), Principal: memproxy.Principal{ID: "agent:dev"}}
		must.Do(t, l.RecordAsync(ev))
	}
	must.Do(t, l.Flush(context.Background()))
}

func check(t testing.TB, opt verify.Options) *verify.Report {
	t.Helper()
	opt.Settle = -1
	return must.Get(verify.Verify(context.Background(), opt))(t)
}

// first returns the first problem of a report, which need not have one.
func first(r *verify.Report) verify.Problem { return append(r.Problems, verify.Problem{Index: -2})[0] }

func mustBeGood(t testing.TB, dir string) *verify.Report {
	t.Helper()
	r := check(t, verify.Options{Dir: dir, Key: vkey(t, 1)})
	must.Equal(t, r.OK(), true, "a good log", r.Problems)
	return r
}

func files(t testing.TB, dir string) []string {
	t.Helper()
	var names []string
	must.Do(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			rel, _ := filepath.Rel(dir, path)
			names = append(names, filepath.ToSlash(rel))
		}
		return err
	}))
	return names
}

func read(t testing.TB, dir, name string) []byte {
	t.Helper()
	return must.Get(os.ReadFile(filepath.Join(dir, name)))(t)
}

func write(t testing.TB, dir, name string, b []byte) {
	t.Helper()
	must.Do(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
	must.Do(t, os.WriteFile(filepath.Join(dir, name), b, 0o600))
}

// Proves CARD-7, EDGE-10: every changed byte of any file is detected, and one in a
// record is reported with the record's index.
func TestEveryByteCounts(t *testing.T) {
	dir := ring.Dir(t)
	writeLog(t, dir, 2)
	writeLog(t, dir, 3)
	if r := mustBeGood(t, dir); r.Size != 5 || r.Checkpoints < 3 {
		t.Fatalf("report %+v", r)
	}
	for _, name := range files(t, dir) {
		content := read(t, dir, name)
		entries := strings.HasPrefix(name, "tile/entries/") && strings.HasSuffix(name, "/5")
		starts := recordStarts(content)
		record := -1
		for i := range content {
			sampled := i%ring.Share(7, 29) == 0 || i < 4 || i >= len(content)-4
			if entries && record+1 < len(starts) && i == starts[record+1] {
				record++
				sampled = true
			}
			if !sampled {
				continue
			}
			flips := []byte{0x01}
			if len(content) < 300 { // text: base64 bits, letter case
				flips = []byte{0x01, 0x02, 0x20}
			}
			for _, flip := range flips {
				bad := bytes.Clone(content)
				bad[i] ^= flip
				write(t, dir, name, bad)
				r := check(t, verify.Options{Dir: dir, Key: vkey(t, 1)})
				must.Equal(t, r.OK(), false, name, "byte", i, "flipped by", flip, "nothing found")
				if p := first(r); entries && p.Index != int64(record) {
					t.Fatalf("%s: byte %d is of record %d, named was %v", name, i, record, r.Problems)
				}
			}
		}
		write(t, dir, name, content)
	}
	mustBeGood(t, dir)
}

// recordStarts are the offsets of a bundle's records, at their length prefix.
func recordStarts(b []byte) (starts []int) {
	for at := 0; at+2 <= len(b); at += 2 + int(b[at])<<8 + int(b[at+1]) {
		starts = append(starts, at)
	}
	return starts
}

// split splits a bundle into records, and join reverses that.
func split(b []byte) (recs [][]byte) {
	starts := append(recordStarts(b), len(b))
	for i := range len(starts) - 1 {
		recs = append(recs, b[starts[i]:starts[i+1]])
	}
	return recs
}

// Proves CARD-7, EDGE-10: the report names the record and what happened to it.
func TestRecordsCannotBeRearranged(t *testing.T) {
	const bundle = "tile/entries/001"
	for name, c := range map[string]struct {
		change func([][]byte) [][]byte
		index  int64
		kind   verify.Kind
	}{
		"drop":      {func(r [][]byte) [][]byte { return append(r[:7:7], r[8:]...) }, 263, verify.RecordMissing},
		"drop last": {func(r [][]byte) [][]byte { return r[:255] }, 511, verify.RecordMissing},
		"truncate":  {func(r [][]byte) [][]byte { return r[:100] }, 356, verify.RecordMissing},
		"tear": {func(r [][]byte) [][]byte {
			return append(r[:100:100], r[100][:len(r[100])/2])
		}, 356, verify.RecordMissing},
		"swap":      {func(r [][]byte) [][]byte { r[7], r[9] = r[9], r[7]; return r }, 263, verify.WrongRecord},
		"duplicate": {func(r [][]byte) [][]byte { return append(r[:8:8], r[7:]...) }, 264, verify.WrongRecord},
		"overwrite": {func(r [][]byte) [][]byte { r[9] = r[7]; return r }, 265, verify.RecordMissing},
		"empty":     {func(r [][]byte) [][]byte { return nil }, 256, verify.RecordMissing},
		"rewrite": {func(r [][]byte) [][]byte {
			r[3] = bytes.Replace(r[3], []byte("agent:dev"), []byte("agent:ops"), 1)
			return r
		}, 259, verify.RecordChanged},
		"surplus": {func(r [][]byte) [][]byte { return append(r, r[255]) }, 512, verify.UnexpectedFile},
	} {
		t.Run(name, func(t *testing.T) {
			dir := ring.Dir(t)
			writeLog(t, dir, 600)
			mustBeGood(t, dir)
			write(t, dir, bundle, bytes.Join(c.change(split(read(t, dir, bundle))), nil))
			r := check(t, verify.Options{Dir: dir, Key: vkey(t, 1)})
			if p := first(r); p.Index != c.index || p.Kind != c.kind || len(r.Problems) > 1 && r.Problems[1].Kind == verify.UnexpectedFile {
				t.Errorf("found %v, want record %d %s", r.Problems, c.index, c.kind)
			}
		})
	}
}

func TestMissingFilesAreNamed(t *testing.T) {
	dir := ring.Dir(t)
	writeLog(t, dir, 600)
	for _, name := range files(t, dir) {
		if name == "lock" || name == "log.vkey" || strings.HasPrefix(name, "checkpoints/") {
			continue // not part of the proof
		}
		content := read(t, dir, name)
		must.Do(t, os.Remove(filepath.Join(dir, name)))
		expect.Equal(t, check(t, verify.Options{Dir: dir, Key: vkey(t, 1)}).OK(), false, name, "is gone and nothing was found")
		write(t, dir, name, content)
	}
	for _, stray := range []string{"tile/0/999", "tile/6/128", "tile/7/000", "tile/entries/x999/999"} {
		write(t, dir, stray, []byte("stray"))
		expect.Equal(t, check(t, verify.Options{Dir: dir, Key: vkey(t, 1)}).OK(), false, "a tile of nowhere was not found", stray)
		must.Do(t, os.Remove(filepath.Join(dir, stray)))
	}
	// A copy without the writer's own files is complete for readers.
	must.Do(t, os.RemoveAll(filepath.Join(dir, "journal")))
	mustBeGood(t, dir)
}

// A checkpoint of far more records than there are files does not keep the verifier busy.
func TestAnEndFarAway(t *testing.T) {
	dir := ring.Dir(t)
	writeLog(t, dir, 600)
	secret := base64.StdEncoding.EncodeToString(append([]byte{1}, key(1).Seed()...))
	signer := must.Get(note.NewSigner("PRIVATE+KEY+" + origin + "+" + strings.Split(vkey(t, 1), "+")[1] + "+" + secret))(t)
	text := origin + "\n9007199254740991\n" + base64.StdEncoding.EncodeToString(make([]byte, 32)) + "\n"
	write(t, dir, "checkpoint", must.Get(note.Sign(&note.Note{Text: text}, signer))(t))
	r := check(t, verify.Options{Dir: dir, Key: vkey(t, 1)})
	if p := first(r); p.Index != 512 || p.Kind != verify.RecordMissing || len(r.Problems) != 1 {
		t.Errorf("found %v", r.Problems)
	}
}

// A tile that was cut or changed is reported, and not the records below it, which are as
// signed.
func TestADamagedTileDoesNotBlameRecords(t *testing.T) {
	const tile = "tile/0/000"
	dir := ring.Dir(t)
	writeLog(t, dir, 600)
	content := read(t, dir, tile)
	for _, damaged := range [][]byte{content[:128*32], append([]byte{content[0] ^ 1}, content[1:]...)} {
		write(t, dir, tile, damaged)
		r := check(t, verify.Options{Dir: dir, Key: vkey(t, 1)})
		if p := first(r); len(r.Problems) != 1 || p.Kind != verify.BadTile || p.File != tile {
			t.Errorf("found %v, want the tile alone", r.Problems)
		}
	}
}

// Proves CARD-7: a log signed with another key is rejected, even if it is consistent.
func TestAnotherKey(t *testing.T) {
	dir := ring.Dir(t)
	opt := options(dir)
	opt.Key = key(2)
	writeWith(t, opt, 9)
	r := check(t, verify.Options{Dir: dir, Key: vkey(t, 1)})
	expect.Equal(t, r.OK(), false, "a log signed by another key verifies")
	if r := check(t, verify.Options{Dir: dir}); !r.OK() || !r.OwnKey {
		t.Errorf("a log agrees with its own key: %v", r.Problems)
	}
}

func copyDir(t testing.TB, from string) string {
	t.Helper()
	to := ring.Dir(t)
	must.Do(t, os.CopyFS(to, os.DirFS(from)))
	return to
}

// Proves CARD-7, EDGE-10: cutting off the end of a log leaves no trace in it, but a
// checkpoint kept elsewhere reveals it.
func TestRollback(t *testing.T) {
	dir := ring.Dir(t)
	writeLog(t, dir, 300)
	old := copyDir(t, dir)
	writeLog(t, dir, 300)
	kept := read(t, dir, "checkpoint")
	mustBeGood(t, old) // an older state is a valid log
	r := check(t, verify.Options{Dir: old, Key: vkey(t, 1), Trusted: [][]byte{kept}})
	if p := first(r); p.Kind != verify.RolledBack || p.Index != 300 {
		t.Errorf("found %v, want a rollback to 300", r.Problems)
	}
	expect.Equal(t, check(t, verify.Options{Dir: dir, Key: vkey(t, 1), Trusted: [][]byte{kept, read(t, old, "checkpoint")}}).OK(), true, "the newer log continues both")
	// An attacker may forget the archived checkpoint.
	write(t, old, fmt.Sprintf("checkpoints/%020d", 600), kept)
	expect.Equal(t, check(t, verify.Options{Dir: old, Key: vkey(t, 1)}).OK(), false, "an archived checkpoint of a longer log was overlooked")
}

// Proves CARD-7, EDGE-10: even the holder of the key cannot rewrite records that a
// checkpoint kept elsewhere covers.
func TestRewrittenByTheKeyHolder(t *testing.T) {
	dir := ring.Dir(t)
	writeLog(t, dir, 300)
	kept := read(t, dir, "checkpoint")
	forged := ring.Dir(t)
	opt := options(forged)
	opt.Clock = time.Now // other times, other history
	writeWith(t, opt, 400)
	mustBeGood(t, forged)
	r := check(t, verify.Options{Dir: forged, Key: vkey(t, 1), Trusted: [][]byte{kept}})
	expect.Equal(t, first(r).Kind, verify.Forked, "found", r.Problems, "a fork")
}

// If bundles and tiles were rebuilt without the key, the signed root does not match,
// and older checkpoints narrow down the first difference.
func TestRebuiltWithoutTheKey(t *testing.T) {
	dir := ring.Dir(t)
	writeLog(t, dir, 300)
	other := copyDir(t, dir)
	writeLog(t, dir, 200)
	opt := options(other)
	opt.Clock = time.Now
	writeWith(t, opt, 200)
	must.Do(t, os.RemoveAll(filepath.Join(other, "checkpoints")))
	for _, name := range files(t, dir) {
		if strings.HasPrefix(name, "checkpoint") {
			write(t, other, name, read(t, dir, name))
		}
	}
	for range 2 {
		r := check(t, verify.Options{Dir: other, Key: vkey(t, 1)})
		expect.Equal(t, slices.ContainsFunc(r.Problems, func(p verify.Problem) bool { return p.Kind == verify.Forked && p.Index == 300 }), true, "found", r.Problems, "a fork from record 300 on")
		const bundle = "tile/entries/000" // its surplus does not explain the root
		write(t, other, bundle, append(read(t, other, bundle), 0))
	}
}
