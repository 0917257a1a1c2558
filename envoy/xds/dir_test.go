package xds_test

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/memproxy/memproxy/envoy/xds"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/policy"
)

func sealed(t *testing.T, number uint64, by ed25519.PrivateKey) *policy.Release {
	t.Helper()
	return must.Get(policy.SignRelease(policy.Builtin(), policy.Statement{Fleet: "north", Number: number}, by))(t)
}

// Proves CARD-9: an invalid release is a fault with its file's name, and hides no
// other.
func TestDirReleases(t *testing.T) {
	path := t.TempDir()
	d := must.Get(xds.NewDir(path, path, keys()))(t)
	put := func(name string, b []byte) {
		t.Helper()
		must.Do(t, os.WriteFile(filepath.Join(path, name), b, 0o600))
	}
	for _, n := range []uint64{12, 2} {
		must.Do(t, d.Publish(sealed(t, n, key)))
	}
	expect.Is(t, d.Publish(sealed(t, 2, key)), fs.ErrExist, "a number twice")
	stranger := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{9}, ed25519.SeedSize))
	put("000013.release", sealed(t, 13, stranger).Encoded())
	put("000014.release", sealed(t, 15, key).Encoded())
	put("000016.release", sealed(t, 16, key).Encoded()[:100])
	put("notes.txt", []byte("not ours"))
	put("17.release", []byte("not ours"))
	list, faults, err := d.Releases()
	if err != nil || len(list) != 2 || list[0].Number != 2 || list[1].Number != 12 {
		t.Fatalf("%v %v", list, err)
	}
	for i, want := range []string{"000013.release: policy: release: the signature matches no key", "000014.release is release 15", "000016.release: policy: release:"} {
		must.Len(t, faults, 3, "faults")
		expect.Text(t, faults[i].Error(), "faults").Has(want)
	}
	expect.Equal(t, must.Get(d.Last())(t), 16, "the last is")
	// A repaired file is read again.
	must.Do(t, os.Remove(filepath.Join(path, "000016.release")))
	must.Do(t, d.Publish(sealed(t, 16, key)))
	again, faults, err := d.Releases()
	if err != nil || len(again) != 3 || len(faults) != 2 || again[0] != list[0] {
		t.Errorf("%v %v %v: want the same releases, not read again, and one more", again, faults, err)
	}
}

// The control plane may run as another user than whoever signs or stops a release.
func TestFilesAreReadableByOtherUsers(t *testing.T) {
	dir := t.TempDir()
	d := must.Get(xds.NewDir(dir, dir, keys()))(t)
	must.Do(t, d.Publish(sealed(t, 1, key)))
	must.Do(t, d.Put(xds.Mark{Release: 1, Kind: xds.MarkStopped, Reason: "by hand"}))
	for _, name := range []string{"000001.release", "000001.stopped"} {
		expect.Equal(t, must.Get(os.Stat(filepath.Join(dir, name)))(t).Mode(), fs.FileMode(0o644), name)
	}
}

// Proves CARD-9: a release that was read stays, as it was, while its file is damaged, so
// that no sidecar gets an older or a wider one; it goes with its file.
func TestDamagedReleaseStays(t *testing.T) {
	dir := t.TempDir()
	d := must.Get(xds.NewDir(dir, dir, keys()))(t)
	must.Do(t, d.Publish(sealed(t, 1, key)))
	first, _, _ := d.Releases()
	path := filepath.Join(dir, "000001.release")
	for name, damage := range map[string]func() error{
		"truncated": func() error { return os.Truncate(path, 100) },
		"empty":     func() error { return os.Truncate(path, 0) },
		"no file":   func() error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) },
	} {
		must.Do(t, os.RemoveAll(path))
		must.Do(t, os.WriteFile(path, first[0].Encoded(), 0o600))
		if _, faults, _ := d.Releases(); len(faults) > 0 {
			t.Fatal(faults)
		}
		must.Do(t, damage())
		list, faults, err := d.Releases()
		if err != nil || len(list) != 1 || list[0].Name() != first[0].Name() || len(faults) != 1 {
			t.Errorf("%s: %v, %v, %v", name, list, faults, err)
		}
	}
	must.Do(t, os.RemoveAll(path))
	if list, faults, err := d.Releases(); err != nil || len(list)+len(faults) > 0 {
		t.Errorf("removed: %v, %v, %v", list, faults, err)
	}
}

// The first mark stays; a truncated one still counts.
func TestDirMarks(t *testing.T) {
	path, marks := t.TempDir(), t.TempDir()
	d := must.Get(xds.NewDir(path, marks, keys()))(t)
	at := time.Unix(1e9, 0).UTC()
	for _, m := range []xds.Mark{
		{Release: 12, Kind: xds.MarkStage, Stage: 1, At: at},
		{Release: 12, Kind: xds.MarkStopped, At: at, Reason: "first"},
		{Release: 12, Kind: xds.MarkStopped, At: at.Add(time.Hour), Reason: "second"},
		{Release: 13, Kind: xds.MarkDone, At: at},
	} {
		must.Do(t, d.Put(m))
	}
	must.Do(t, os.WriteFile(filepath.Join(marks, "000014.stopped"), []byte(`{"rea`), 0o600))
	got := must.Get(d.Marks())(t)
	want := []xds.Mark{
		{Release: 12, Kind: xds.MarkStage, Stage: 1, At: at},
		{Release: 12, Kind: xds.MarkStopped, At: at, Reason: "first"},
		{Release: 13, Kind: xds.MarkDone, At: at},
		{Release: 14, Kind: xds.MarkStopped},
	}
	must.Len(t, got, len(want))
	for i := range want {
		expect.Equal(t, got[i], want[i])
	}
	if entries, _ := os.ReadDir(marks); len(entries) != 4 {
		t.Errorf("%d files: something was left behind", len(entries))
	}
	expect.Error(t, expect.Err(xds.NewDir(filepath.Join(path, "absent"), marks, nil)), "a directory that is not there was opened")
}
