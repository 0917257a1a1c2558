package ledger_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/ledger"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/ledger/redo"
)

// dirOf returns the files of a directory, by name.
func dirOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries := must.Get(os.ReadDir(dir))(t)
	files := map[string]string{}
	for _, e := range entries {
		b := must.Get(os.ReadFile(filepath.Join(dir, e.Name())))(t)
		files[e.Name()] = string(b)
	}
	return files
}

func namesOf(t *testing.T, dir string) []string {
	t.Helper()
	return slices.Sorted(maps.Keys(dirOf(t, dir)))
}

// put writes the files of a ledger, by what follows its path in their names.
func put[B string | []byte](t *testing.T, path string, files map[string]B) {
	t.Helper()
	for suffix, b := range files {
		must.Do(t, os.WriteFile(path+suffix, []byte(b), 0o600))
	}
}

// Proves EDGE-3, SYN-5: a backup of an open ledger, whose writer waits in a
// transaction, is one file with every committed entry; a restore does not apply the
// redo log of the ledger it replaces.
func TestBackupHasQueuedEntries(t *testing.T) {
	dir := ring.Dir(t)
	file := filepath.Join(dir, "backup.db")
	opt := ledger.Options{Vault: testVault(t), Timeout: ring.Limit}
	queued(t, 3, func(path string) {
		opt.Path = path
		must.Do(t, ledger.Backup(t.Context(), opt, file))
		expect.Is(t, ledger.Backup(t.Context(), opt, file), fs.ErrExist, "an existing file")
		expect.ErrorHas(t, ledger.Restore(t.Context(), ledger.Options{Path: path, Vault: testVault(t)}, file, true), "in use", "in the place of a ledger that is open")
	})
	files := dirOf(t, dir)
	must.List(t, namesOf(t, dir), []string{"backup.db"}, "the backup is")
	expect.Equal(t, must.Get(os.Stat(file))(t).Mode().Perm(), 0o600, "its mode is")
	wantRevived(t, map[string][]byte{"": []byte(files["backup.db"])}, 3, 3, 0)

	// The redo log of the replaced ledger is not applied.
	left := killed(t, 2)
	state := filepath.Join(ring.Dir(t), "ledger.db")
	put(t, state, left)
	expect.Is(t, ledger.Restore(t.Context(), ledger.Options{Path: state, Vault: testVault(t)}, file, false), fs.ErrExist, "over a ledger without force")
	must.Do(t, ledger.Restore(t.Context(), ledger.Options{Path: state, Vault: testVault(t)}, file, true))
	files = dirOf(t, filepath.Dir(state))
	expect.List(t, namesOf(t, filepath.Dir(state)), []string{"ledger.db", "ledger.db.replaced", "ledger.db.replaced.redo"})
	wantRevived(t, map[string][]byte{"": []byte(files["ledger.db"])}, 3, 3, 0, "restored")
	// The files of a killed process are restored as one, whose name is its last step.
	left = killed(t, 3)
	into := filepath.Join(ring.Dir(t), "ledger.db")
	copied := filepath.Join(ring.Dir(t), "copied.db")
	put(t, copied, left)
	must.Do(t, ledger.Restore(t.Context(), ledger.Options{Path: into, Vault: testVault(t)}, copied, false))
	alone := dirOf(t, filepath.Dir(into))
	expect.List(t, namesOf(t, filepath.Dir(into)), []string{"ledger.db"}, "the files of a killed process are restored as")
	wantRevived(t, map[string][]byte{"": []byte(alone["ledger.db"])}, 3, 3, 0, "of a killed process")

	// The replaced ledger is kept with its redo log.
	before := map[string][]byte{"": []byte(files["ledger.db.replaced"]), redo.Suffix: []byte(files["ledger.db.replaced.redo"])}
	wantRevived(t, before, 2, 2, 0, "what was replaced")
	expect.Is(t, ledger.Restore(t.Context(), ledger.Options{Path: state, Vault: testVault(t)}, file, true), fs.ErrExist, "over what an earlier restore left")
}

// Proves EDGE-3: only an intact ledger of this program is opened, backed up or restored;
// another file stays as it is.
func TestRestoreRefusesInvalidLedgers(t *testing.T) {
	dir := ring.Dir(t)
	good := filepath.Join(dir, "good.db")
	l, err := ledger.Open(ledger.Options{Timeout: ring.Limit, Path: good, Vault: testVault(t)})
	for i := 0; i < 200 && err == nil; i++ {
		err = l.Commit(t.Context(), queuedEntry(strings.Repeat("m", i+1)))
	}
	must.Do(t, errors.Join(err, l.Close()))
	whole := must.Get(os.ReadFile(good))(t)
	state := filepath.Join(ring.Dir(t), "ledger.db")
	must.Do(t, os.WriteFile(state, whole, 0o600))
	n := 0
	bad := func(change func(b []byte) []byte) string {
		n++
		path := filepath.Join(dir, fmt.Sprint(n, ".db"))
		must.Do(t, os.WriteFile(path, change(bytes.Clone(whole)), 0o600))
		return path
	}
	made := func(statements string) string {
		path := bad(func([]byte) []byte { return nil })
		vandalise(t, path, statements)
		return path
	}
	for name, c := range map[string]struct {
		from string
		want error
	}{
		"missing": {filepath.Join(dir, "missing.db"), fs.ErrNotExist},
		"a text":  {bad(func([]byte) []byte { return []byte("a text that is longer than a head") }), ledger.ErrDamaged},
		"cut":     {bad(func(b []byte) []byte { return b[:len(b)/2] }), ledger.ErrDamaged},
		"short":   {bad(func(b []byte) []byte { return b[:10] }), ledger.ErrDamaged},
		"header":  {bad(func(b []byte) []byte { copy(b[16:60], strings.Repeat("\xff", 44)); return b }), ledger.ErrDamaged},
		"torn":    {bad(func(b []byte) []byte { return b[:len(b)/2+100] }), ledger.ErrDamaged},
		"pages":   {bad(func(b []byte) []byte { copy(b[8192:], strings.Repeat("\xa5", 16384)); return b }), ledger.ErrDamaged},
		"order": {bad(func(b []byte) []byte { // swaps the first two rows of each leaf
			for page := 4096; page < len(b); page += 4096 {
				if b[page] == 10 && binary.BigEndian.Uint16(b[page+3:]) > 1 {
					a, z := binary.BigEndian.Uint16(b[page+8:]), binary.BigEndian.Uint16(b[page+10:])
					binary.BigEndian.PutUint16(b[page+8:], z)
					binary.BigEndian.PutUint16(b[page+10:], a)
				}
			}
			return b
		}), ledger.ErrDamaged},
		"empty":     {bad(func([]byte) []byte { return nil }), ledger.ErrForeign},
		"another's": {made(`CREATE TABLE notes (a)`), ledger.ErrForeign},
		"marked":    {made(`CREATE TABLE notes (a); PRAGMA application_id = 7`), ledger.ErrForeign},
		"newer": {made(`PRAGMA application_id = 1836085880; CREATE TABLE schema_version (version INTEGER PRIMARY KEY, applied INTEGER NOT NULL);
			INSERT INTO schema_version VALUES (999, 0)`), ledger.ErrNewer},
		"older": {made(`PRAGMA application_id = 1836085880; CREATE TABLE schema_version (version INTEGER PRIMARY KEY, applied INTEGER NOT NULL);
			INSERT INTO schema_version VALUES (10, 0)`), ledger.ErrOlder},
	} {
		t.Run(name, func(t *testing.T) {
			if err := ledger.Restore(t.Context(), ledger.Options{Path: state, Vault: testVault(t)}, c.from, true); err == nil || c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
			expect.Error(t, ledger.Backup(t.Context(), ledger.Options{Path: c.from, Vault: testVault(t)}, filepath.Join(ring.Dir(t), "b")), "it is backed up as if it were sound")
			was, _ := os.ReadFile(c.from)
			opens := name == "missing" || name == "empty" || name == "order" // the first two as new ones
			l, err := ledger.Open(ledger.Options{Path: c.from})
			if opens {
				must.Do(t, err)
				must.Do(t, l.Close())
			} else {
				must.Is(t, err, c.want, "opened")
			}
			if c.want == ledger.ErrDamaged && !opens {
				expect.Text(t, err.Error()).Has(c.from, "backup")
				expect.Equal(t, bytes.Equal(must.Get(os.ReadFile(c.from))(t), was), true, "it is as it was")
			}
			after := dirOf(t, filepath.Dir(state))
			if after["ledger.db"] != string(whole) || len(after) != 1 {
				t.Errorf("the ledger was touched: %q", namesOf(t, filepath.Dir(state)))
			}
		})
	}
}

// The ledger itself is no backup of it, and a directory is none at all.
func TestRestoreTakesAnotherFile(t *testing.T) {
	dir := ring.Dir(t)
	state := filepath.Join(dir, "ledger.db")
	must.Do(t, must.Get(ledger.Open(ledger.Options{Timeout: ring.Limit, Path: state, Vault: testVault(t)}))(t).Close())
	same := filepath.Join(dir, "same.db")
	must.Do(t, os.Link(state, same))
	before := namesOf(t, dir)
	for from, want := range map[string]string{state: "the ledger itself", same: "the ledger itself", dir: "not a file"} {
		expect.ErrorHas(t, ledger.Restore(t.Context(), ledger.Options{Path: state, Vault: testVault(t)}, from, true), want)
	}
	expect.List(t, namesOf(t, dir), before)
}

// Proves EDGE-3: redo logs of a damaged or lost file are not applied to the restored
// copy.
func TestRestoreIgnoresOldRedoLogs(t *testing.T) {
	dir := ring.Dir(t)
	copied := filepath.Join(dir, "copy.db")
	queued(t, 1, func(path string) {
		must.Do(t, ledger.Backup(t.Context(), ledger.Options{Path: path, Vault: testVault(t)}, copied))
	})
	for name, file := range map[string][]byte{"lost": nil, "damaged": []byte("no database, but longer than a head")} {
		t.Run(name, func(t *testing.T) {
			state := filepath.Join(ring.Dir(t), "ledger.db")
			left := killed(t, 2)
			if left[""] = file; file == nil {
				delete(left, "")
			}
			put(t, state, left)
			must.Do(t, ledger.Restore(t.Context(), ledger.Options{Path: state, Vault: testVault(t)}, copied, true))
			files := dirOf(t, filepath.Dir(state))
			want := []string{"ledger.db", "ledger.db.replaced-wal", "ledger.db.replaced.redo"}
			if file != nil { // the log has every page and repairs the file
				want = []string{"ledger.db", "ledger.db.replaced", "ledger.db.replaced.redo"}
				wantRevived(t, map[string][]byte{"": []byte(files["ledger.db.replaced"]), redo.Suffix: []byte(files["ledger.db.replaced.redo"])}, 2, 2, 0, "what was replaced")
			}
			expect.List(t, namesOf(t, filepath.Dir(state)), want)
			wantRevived(t, map[string][]byte{"": []byte(files["ledger.db"])}, 2, 1, 0, "the copy")
		})
	}
}

// Proves EDGE-4: schema objects that change the effect of statements, such as a trigger
// that reverts every quarantine or lock, are found whenever a file is opened.
func TestForeignSchemasAreRefused(t *testing.T) {
	for name, addition := range map[string]string{
		"a trigger":     `CREATE TRIGGER undo AFTER UPDATE ON record WHEN NEW.state = 'quarantined' BEGIN UPDATE record SET state = OLD.state, mac = OLD.mac WHERE id = NEW.id; END`,
		"a view":        `DROP TABLE actor; CREATE VIEW actor AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS facts FROM n`,
		"a virtual one": `DROP TABLE actor; CREATE VIRTUAL TABLE actor USING fts5(facts)`,
		"a conflict":    `DROP TABLE session; CREATE TABLE session (tenant, id, strikes UNIQUE ON CONFLICT IGNORE)`,
		"a comparison":  `CREATE UNIQUE INDEX alike ON session (id COLLATE NOCASE)`,
	} {
		t.Run(name, func(t *testing.T) {
			opt := ledger.Options{Path: filepath.Join(ring.Dir(t), "ledger.db"), Vault: testVault(t)}
			must.Do(t, must.Get(ledger.Open(opt))(t).Close())
			vandalise(t, opt.Path, addition)
			_, opened := ledger.Open(opt)
			_, planned := ledger.Rehearse(t.Context(), opt)
			peeked := ledger.Peek(opt, func(*ledger.Ledger) error { return nil })
			for what, err := range map[string]error{
				"opened": opened, "planned": planned, "peeked into": peeked,
				"restored":  ledger.Restore(t.Context(), ledger.Options{Path: filepath.Join(ring.Dir(t), "ledger.db"), Vault: testVault(t)}, opt.Path, false),
				"backed up": ledger.Backup(t.Context(), opt, filepath.Join(ring.Dir(t), "copy.db")),
			} {
				expect.Is(t, err, ledger.ErrForeign, what)
			}
		})
	}
}
