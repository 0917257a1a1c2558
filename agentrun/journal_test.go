// What is in the journal, and when a run is tried again, is seen inside of the package alone, so
// these are in the slow ring, where the package is compiled once more for them.

//go:build slow

package agentrun

import (
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

func entryOf(id string) *journalEntry {
	return &journalEntry{
		Decision: id, Begun: time.Unix(1, 0).UTC(), Route: "letta.send_message", Method: "POST", Path: "/v1/agents/a/messages", Session: memproxy.NameSession("s"),
		Principal: memproxy.Principal{ID: "agent:dev", Tenant: "acme", ActsAs: memproxy.Limit{All: true}}, Baseline: []byte("{}"),
	}
}

// Proves EDGE-1: the next process finds an entry unchanged until it is removed; only
// the process's user can read it.
func TestJournalKeepsRuns(t *testing.T) {
	j := journal{dir: filepath.Join(t.TempDir(), "runs", "letta")}
	if got, err := j.unsettled(); len(got) != 0 || err != nil {
		t.Fatalf("%v %v", got, err)
	}
	one, two := entryOf("01-a"), entryOf("02-b")
	for _, e := range []*journalEntry{two, one} {
		must.Do(t, j.write(e))
	}
	got, err := j.unsettled()
	if err != nil || len(got) != 2 || !reflect.DeepEqual(got[0], one) || !reflect.DeepEqual(got[1], two) {
		t.Fatalf("%v %+v", err, got)
	}
	for _, path := range []string{j.dir, j.path("01-a")} {
		if st, err := os.Stat(path); err != nil || st.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v %v", path, st.Mode(), err)
		}
	}
	for range 2 { // removing twice is no error
		expect.OK(t, j.remove("01-a"))
	}
	if got, err := j.unsettled(); len(got) != 1 || err != nil {
		t.Errorf("%v %v", got, err)
	}
	j.runs = map[string]*attempt{}
	_, mine := j.claim("02-b", time.Time{})
	must.Equal(t, mine, true)
	must.Do(t, os.RemoveAll(j.dir))
	expect.Is(t, j.remove("02-b"), fs.ErrNotExist, "a directory that cannot be synced")
	expect.Equal(t, len(j.runs), 0, "attempts to settle a run whose entry is gone")
}

// An unreadable file is reported and does not affect other runs; an incomplete write is
// removed.
func TestJournalSurvivesDamage(t *testing.T) {
	j := journal{dir: t.TempDir()}
	must.Do(t, j.write(entryOf("01-a")))
	for name, text := range map[string]string{"02-b.json": "{", "03-c.json": `{"decision":"01-a"}`, ".02-b.json.1.tmp": "{", "notes.txt": ""} {
		must.Do(t, os.WriteFile(filepath.Join(j.dir, name), []byte(text), 0o600))
	}
	got, err := j.unsettled()
	if len(got) != 1 || err == nil || !strings.Contains(err.Error(), "another run") {
		t.Errorf("%v %v", got, err)
	}
	if _, err := os.Stat(filepath.Join(j.dir, ".02-b.json.1.tmp")); !os.IsNotExist(err) {
		t.Error("an unfinished file stays")
	}
	for _, id := range []string{"", "../x", `a\b`} {
		expect.Error(t, j.write(entryOf(id)), id, "became a file name")
	}
}

// A full journal refuses further runs.
func TestJournalIsBounded(t *testing.T) {
	j := journal{dir: t.TempDir()}
	for i := range maxJournal {
		must.Do(t, os.WriteFile(filepath.Join(j.dir, strings.Repeat("x", 8)+string(rune('a'+i%26))+time.Duration(i).String()), nil, 0o600))
	}
	if err := j.write(entryOf("01-a")); err != errJournal {
		t.Error(err)
	}
}

// A run is settled by one goroutine at a time and retried with backoff.
func TestUnsettledRunsAreRetriedWithBackoff(t *testing.T) {
	u, now := &journal{dir: t.TempDir(), runs: map[string]*attempt{}}, time.Unix(0, 0)
	must.Do(t, u.write(entryOf("d")))
	c := &CompensatedRun{a: &gate.Admission{Decision: memproxy.Decision{ID: "d"}}}
	take := func(want bool) *CompensatedRun {
		t.Helper()
		left, mine := u.reclaim("d", now)
		must.Equal(t, mine, want, now)
		return left
	}
	take(true)
	take(false) // it is being settled
	for wait := firstRetry; wait < lastRetry; wait *= 2 {
		u.release("d", c, true, now)
		now = now.Add(wait - 1)
		take(false)
		now = now.Add(1)
		if take(true) != c {
			t.Error("what was left of it is lost")
		}
	}
	u.release("d", c, false, now) // its agents were busy: no backoff
	take(true)
	must.Do(t, u.remove("d"))
	take(false) // whoever read the entry before it was settled must not undo what came later
}
