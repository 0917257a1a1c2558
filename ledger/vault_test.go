package ledger_test

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/ledger"
	"github.com/memproxy/memproxy/ledger/keys"
	"github.com/memproxy/memproxy/ledger/ledgertest"
)

const secretText = "zanzibarquokka is the word that must not be seen"

// everything is the content of all files of a directory.
func everything(t *testing.T, dir string) []byte {
	t.Helper()
	var all []byte
	must.Do(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		all = append(all, b...)
		return err
	}))
	return all
}

func held(t *testing.T, l *ledger.Ledger, id string) {
	t.Helper()
	h, c := ledgertest.Held(id, secretText)
	c.Query, c.Header = "q=zanzibarquokka", memproxy.Header{"X-Said": {"zanzibarquokka"}}
	must.Get(l.Holds.Put(t.Context(), h, c))(t)
}

// No content is on disk in plain text, in the database or its log, while listed members
// are.
//
// Proves MFW-7, DOL-4.
func TestContentsAreEncryptedOnDisk(t *testing.T) {
	dir := ring.Dir(t)
	l := open(t, ledger.Options{Path: filepath.Join(dir, "ledger.db"), Vault: ledgertest.Vault(t), OnNotice: func() {}})
	held(t, l, "h1")
	v := ledgertest.Version("m1", secretText)
	v.Metadata = []byte(`{"note":"zanzibarquokka"}`)
	must.Do(t, l.Commit(t.Context(), memproxy.Entry{Versions: []memproxy.Version{v}}))
	d := memproxy.Dissent{Correction: memproxy.Correction{MemoryKey: memproxy.MemoryKey{Backend: "mem0", ID: "m1"}, Tenant: "acme", Author: "a", Corrector: "b", Decision: "d9"}, Text: secretText}
	must.Do(t, l.Commit(t.Context(), memproxy.Entry{Dissents: []memproxy.Dissent{d}}))
	for range 2 { // with its log, then closed
		all := everything(t, dir)
		for _, word := range []string{"zanzibarquokka", "must not be seen"} {
			expect.Equal(t, bytes.Contains(all, []byte(word)), false, word, "is on the disk")
		}
		expect.Equal(t, bytes.Contains(all, []byte("directive.always")), true, "the scan does not see what is not encrypted")
		must.Do(t, l.Close())
	}
}

// After shredding, the wrapped key is nowhere on disk.
//
// Proves EDGE-8.
func TestShreddedKeyIsGone(t *testing.T) {
	dir := ring.Dir(t)
	path := filepath.Join(dir, "ledger.db")
	l := open(t, ledger.Options{Path: path, Vault: ledgertest.Vault(t)})
	held(t, l, "h1")
	held(t, l, "h2")
	one, two := wrappedKey(t, path, "content WHERE ref = 'hold/2:h1/'"), wrappedKey(t, path, "content WHERE ref = 'hold/2:h2/'")
	must.Do(t, l.Holds.Shred(t.Context(), "h1", memproxy.Review{Reviewer: "human:ann"}))
	all := everything(t, dir)
	expect.Equal(t, bytes.Contains(all, one), false, "the key is still on the disk")
	expect.Equal(t, bytes.Contains(all, two), true, "the neighbour's key is gone")
}

// After a purge, no wrapped key of the memory's texts is on disk.
//
// Proves SYN-9, EDGE-8.
func TestPurgedKeysAreGone(t *testing.T) {
	dir := ring.Dir(t)
	path := filepath.Join(dir, "ledger.db")
	l := open(t, ledger.Options{Path: path, Vault: ledgertest.Vault(t)})
	must.Do(t, l.Commit(t.Context(), memproxy.Entry{Versions: []memproxy.Version{ledgertest.Version("m", "one"), ledgertest.Version("m", "two"), ledgertest.Version("n", "three")}}))
	one, two, other := wrappedKey(t, path, "version WHERE place = 1"), wrappedKey(t, path, "version WHERE place = 2"), wrappedKey(t, path, "version WHERE place = 3")
	must.Do(t, l.Upkeep.Purge(t.Context(), ledgertest.Version("m", "").MemoryKey, "system:ttl", "d-purge"))
	all := everything(t, dir)
	expect.Equal(t, bytes.Contains(all, one), false, "a key is still on the disk")
	expect.Equal(t, bytes.Contains(all, two), false, "a key is still on the disk")
	expect.Equal(t, bytes.Contains(all, other), true, "the neighbour's key is gone")
}

// wrappedKey returns the wrapped key of the content of a row.
func wrappedKey(t *testing.T, path, row string) (b []byte) {
	t.Helper()
	must.Do(t, opened(t, path).QueryRow(`SELECT substr(envelope, 5, 60) FROM `+row).Scan(&b))
	must.Len(t, b, 60, row, "has no key")
	return b
}

// After a rotation both keys decrypt older contents, and only the new key decrypts
// newer ones.
func TestVaultRotation(t *testing.T) {
	path := filepath.Join(ring.Dir(t), "ledger.db")
	old, next := ledgertest.Key(t), ledgertest.Key(t)
	for i, keys := range [][]keys.Key{{old}, {next, old}, {next}} {
		l := open(t, ledger.Options{Path: path, Vault: ledgertest.Vault(t, keys...)})
		if i < 2 {
			id := fmt.Sprint("h", i)
			h, c := ledgertest.Held(id, "text")
			must.Get(l.Holds.Put(t.Context(), h, c))(t)
		}
		for j := range min(i+1, 2) {
			want := error(nil)
			if i == 2 && j == 0 {
				want = ledger.ErrSealed
			}
			_, _, err := l.Holds.Content(t.Context(), fmt.Sprint("h", j))
			expect.That(t, errors.Is(err, want), "keys %v: h%d: %v, want %v", keys, j, err, want)
		}
		must.Do(t, l.Close())
	}
}

// An envelope that was altered, or moved to another item or tenant, does not decrypt.
func TestEnvelopesAreBound(t *testing.T) {
	for name, change := range map[string]string{
		"body changed":      `UPDATE content SET envelope = CAST(substr(envelope, 1, 64) || zeroblob(length(envelope) - 64) AS BLOB) WHERE ref = 'hold/2:h1/'`,
		"body cut":          `UPDATE content SET envelope = substr(envelope, 1, 69) WHERE ref = 'hold/2:h1/'`,
		"key changed":       `UPDATE content SET envelope = CAST(substr(envelope, 1, 4) || zeroblob(60) || substr(envelope, 65) AS BLOB) WHERE ref = 'hold/2:h1/'`,
		"moved":             `UPDATE content SET envelope = (SELECT envelope FROM content WHERE ref = 'hold/2:h2/') WHERE ref = 'hold/2:h1/'`,
		"another tenant":    `UPDATE hold SET tenant = 'other' WHERE id = 'h1'`,
		"key of no vault":   `UPDATE content SET envelope = CAST(x'ffffffff' || substr(envelope, 5) AS BLOB) WHERE ref = 'hold/2:h1/'`,
		"body of another's": `UPDATE content SET envelope = CAST(substr(envelope, 1, 64) || (SELECT substr(envelope, 65) FROM content WHERE ref = 'hold/2:h2/') AS BLOB) WHERE ref = 'hold/2:h1/'`,
	} {
		t.Run(name, func(t *testing.T) {
			l, path := onFile(t)
			held(t, l, "h1")
			held(t, l, "h2")
			vandalise(t, path, change)
			_, _, err := l.Holds.Content(t.Context(), "h1")
			expect.That(t, errors.Is(err, ledger.ErrSealed), "%v, want ErrSealed", err)
			_, _, err = l.Holds.Content(t.Context(), "h2")
			expect.That(t, err == nil, "the neighbour: %v", err)
		})
	}
}

// vandalise runs SQL on a ledger's file.
func vandalise(t *testing.T, path string, statements ...string) {
	t.Helper()
	db := opened(t, path)
	defer db.Close()
	for _, s := range statements {
		must.Do(t, expect.Err(db.Exec(s)), s)
	}
}

func opened(t testing.TB, path string) *sql.DB {
	t.Helper()
	file := url.URL{Scheme: "file", Path: path, RawQuery: "_pragma=busy_timeout(10000)"}
	db := must.Get(sql.Open("sqlite", file.String()))(t)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func TestWithoutVault(t *testing.T) {
	l := open(t, ledger.Options{})
	h, c := ledgertest.Held("h", "text")
	expect.Is(t, expect.Err(l.Holds.Put(t.Context(), h, c)), ledger.ErrNoVault, "Holds.Put")
	expect.Is(t, l.Commit(t.Context(), memproxy.Entry{Versions: []memproxy.Version{ledgertest.Version("m", "text")}}), ledger.ErrNoVault, "Commit")
}

// A held write whose row was edited, to be approved or after approval, is not sent: it
// waits for review again, without votes.
func TestEditedHoldsAreNotSent(t *testing.T) {
	l, path := onFile(t)
	approve := func(id string) {
		must.Get(l.Holds.Approve(t.Context(), id, memproxy.Review{Reviewer: "human:ann", Need: 1}))(t)
	}
	const edited = `UPDATE hold SET state = 'approved', reviewer = 'human:ann', reviewed = 1 WHERE id = 'h'`
	for name, c := range map[string]struct {
		approved bool
		edit     []string
		late     bool // the edit is approved with the rest
	}{
		"never approved":         {false, []string{edited}, false},
		"another's approval":     {false, []string{edited, `INSERT OR REPLACE INTO content SELECT 'approval/1:h/', envelope FROM content WHERE ref = 'approval/5:other/'`}, false},
		"another path":           {true, []string{`UPDATE hold SET path = '/v1/elsewhere/' WHERE id = 'h'`}, false},
		"another author":         {true, []string{`UPDATE hold SET principal = 'human:boss' WHERE id = 'h'`}, false},
		"another reviewer":       {true, []string{`UPDATE hold SET reviewer = 'human:boss' WHERE id = 'h'`}, false},
		"another path, unseen":   {false, []string{`UPDATE hold SET path = '/v1/elsewhere/' WHERE id = 'h'`}, true},
		"another author, unseen": {false, []string{`UPDATE hold SET principal = 'human:boss' WHERE id = 'h'`}, true},
		"another trust, unseen":  {false, []string{`UPDATE hold SET trust = 'human' WHERE id = 'h'`}, true},
		"the approval was taken": {true, []string{`DELETE FROM content WHERE ref = 'approval/1:h/'`}, false},
		"other reasons":          {true, []string{`UPDATE hold SET reasons = '[]' WHERE id = 'h'`}, false},
		"as it was approved":     {true, nil, false},
	} {
		vandalise(t, path, `DELETE FROM hold`, `DELETE FROM content WHERE ref LIKE 'hold/%' OR ref LIKE 'approval/%'`, `DELETE FROM vote`)
		for _, id := range []string{"h", "other"} {
			h, content := ledgertest.Held(id, "text")
			must.Get(l.Holds.Put(t.Context(), h, content))(t)
		}
		approve("other")
		if c.approved {
			approve("h")
		}
		vandalise(t, path, c.edit...)
		if c.late {
			approve("h")
		}
		_, err := l.Holds.Claim(t.Context(), "h", time.Minute)
		forged := errors.Is(err, memproxy.ErrForged)
		expect.That(t, forged == (c.edit != nil) && (forged || err == nil), "%s: %v", name, err)
		if h, err := l.Holds.Get(t.Context(), "h"); c.edit != nil && (err != nil || h.State != memproxy.HoldPending) {
			t.Errorf("%s: it is %s, %v", name, h.State, err)
		}
	}
}

// What reviewers are shown of a waiting write is as it was stored. An edited one is not shown
// and not approved, alone or in a group, and neither is one that was over; it can be rejected.
func TestEditedHoldsAreNotShown(t *testing.T) {
	l, path := onFile(t)
	ann := memproxy.Review{Reviewer: "human:ann", Need: 1}
	sent := func() {
		must.Get(l.Holds.Approve(t.Context(), "h", ann))(t)
		claim := must.Get(l.Holds.Claim(t.Context(), "h", time.Minute))(t)
		must.Do(t, l.Holds.EndClaim(t.Context(), "h", claim.Token, memproxy.HoldDone, memproxy.HoldResult{Status: 200}))
	}
	reevaluated := func() {
		v := memproxy.Reevaluation{Verdict: memproxy.Hold, Reasons: []memproxy.Reason{{Code: memproxy.ScreenRisk}}, Score: 900, Policy: "next"}
		must.Get(l.Holds.Reevaluate(t.Context(), "h", v))(t)
	}
	for name, c := range map[string]struct {
		first func()
		edit  string
	}{
		"as it was stored":       {nil, ``},
		"as it was reevaluated":  {reevaluated, ``},
		"another reason":         {nil, `UPDATE hold SET reasons = '[{"code":"trust.correction"}]'`},
		"no findings":            {nil, `UPDATE hold SET findings = '[]'`},
		"a lower risk":           {nil, `UPDATE hold SET score = score - 1`},
		"the reasons of before":  {reevaluated, `UPDATE hold SET reasons = '[]', score = 0`},
		"ruled on by the newest": {nil, `UPDATE hold SET policy = 'next'`},
		"the rules allow it":     {nil, `UPDATE hold SET today = 'allow'`},
		"in another group":       {nil, `UPDATE hold SET similarity = '0000000000000000'`},
		"older":                  {nil, `UPDATE hold SET created = created - 1`},
		"nothing confirms it":    {nil, `DELETE FROM content WHERE ref LIKE 'approval/%'`},
		"sent, to be approved":   {sent, `UPDATE hold SET state = 'pending'`},
		"sent, to be sent":       {sent, `UPDATE hold SET state = 'approved'`},
		"rejected":               {func() { must.Do(t, l.Holds.Reject(t.Context(), "h", ann)) }, `UPDATE hold SET state = 'approved'`},
	} {
		vandalise(t, path, `DELETE FROM hold`, `DELETE FROM content WHERE ref LIKE 'hold/%' OR ref LIKE 'approval/%'`, `DELETE FROM vote`)
		h, content := ledgertest.Held("h", "text")
		h.Findings, h.Score = []memproxy.Finding{{Rule: "r"}}, 700
		h.Reasons = append(h.Reasons, memproxy.Reason{Pointer: "/\xff"}) // JSON stores other bytes
		must.Get(l.Holds.Put(t.Context(), h, content))(t)
		if c.first != nil {
			c.first()
		}
		vandalise(t, path, c.edit)
		_, _, err := l.Holds.Content(t.Context(), "h")
		expect.Equal(t, errors.Is(err, memproxy.ErrForged), c.edit != "", name, "shown", err)
		_, err = l.Holds.Claim(t.Context(), "h", time.Minute)
		expect.Equal(t, err == nil, false, name, "sent")
		if c.edit == "" {
			expect.OK(t, expect.Err(l.Holds.Approve(t.Context(), "h", ann)), name)
			expect.OK(t, expect.Err(l.Holds.Claim(t.Context(), "h", time.Minute)), name)
			continue
		}
		if _, err := l.Holds.Reevaluate(t.Context(), "h", memproxy.Reevaluation{Verdict: memproxy.Allow, Settles: memproxy.HoldApproved, Policy: "p"}); err == nil {
			_, err = l.Holds.Claim(t.Context(), "h", time.Minute)
			expect.Equal(t, err == nil, false, name, "released by rules and sent", err)
		}
		expect.OK(t, l.Holds.Reject(t.Context(), "h", ann), name)
	}
	expect.List(t, edits(t, l), []string{"hold h"}, "told of")
}

// An edited record of an author counts as that of a new one, and begins anew.
func TestEditedTrackRecordsDoNotCount(t *testing.T) {
	for name, edit := range map[string]string{
		"more memories":  `UPDATE actor SET facts = 1000, validated = 1000`,
		"longer known":   `UPDATE actor SET since = 1`,
		"no corrections": `UPDATE actor SET corrections = 0`,
		"another's":      `UPDATE actor SET (facts, corrections, accepted, validated, since, mac) = (SELECT facts, corrections, accepted, validated, since, mac FROM actor WHERE actor = 'human:ann')`,
		"inserted":       `INSERT OR REPLACE INTO actor (tenant, actor, facts, corrections) SELECT tenant, actor, 1000, 0 FROM actor`,
	} {
		l, path := onFile(t)
		written(t, l, "m", memproxy.StateValidated)
		by := ledgertest.Row("n")
		by.Actor = "human:ann"
		must.Do(t, l.Commit(t.Context(), memproxy.Entry{Owners: []memproxy.Ownership{by}, Corrections: []memproxy.Correction{
			{MemoryKey: key("m"), Tenant: "acme", Author: ledgertest.Row("m").Actor, Corrector: "human:ann", Decision: "d"},
		}}))
		of := func() memproxy.Track {
			t.Helper()
			return must.Get(l.Track(t.Context(), "acme", ledgertest.Row("m").Actor))(t)
		}
		was := of()
		must.Equal(t, was.Facts == 1 && was.Corrections == 1, true, was)
		vandalise(t, path, edit)
		expect.Equal(t, of(), memproxy.Track{}, name)
		expect.Equal(t, slices.Contains(edits(t, l), "actor "+ledgertest.Row("m").Actor), true, name, "told of")
		written(t, l, "later", memproxy.StateUntrusted)
		must.Do(t, l.Sync(t.Context()))
		now := of()
		expect.Equal(t, now.Facts == 1 && now.Corrections == 0 && now.Since.After(was.Since), true, name, now)
	}
}

// A pipe or device in place of a ledger or key file is an error: opening does not
// block, and no entry is written to it.
func TestOnlyRegularFilesAreUsed(t *testing.T) {
	for name, put := range map[string]func(string) error{
		"pipe":   func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"device": func(path string) error { return os.Symlink(os.DevNull, path) },
	} {
		for _, file := range []string{"ledger.db", "ledger.db.redo", "vault.key"} {
			dir := ring.Dir(t)
			must.Do(t, put(filepath.Join(dir, file)))
			_, err := keys.LoadOrCreateVault(dir)
			if file == "vault.key" == (err == nil) {
				t.Errorf("a %s as %s: keys: %v", name, file, err)
			}
			l, err := ledger.Open(ledger.Options{Timeout: ring.Limit, Path: filepath.Join(dir, "ledger.db"), Vault: ledgertest.Vault(t)})
			expect.Equal(t, file == "vault.key", err == nil, "a", name, "as", file, err)
			if err == nil {
				_ = l.Close()
			}
		}
	}
}
