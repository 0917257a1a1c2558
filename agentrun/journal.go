package agentrun

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/durable"
)

// maxJournal bounds the runs that wait to be settled, all of one backend.
const maxJournal = 1024

// errJournal says that too many runs wait to be settled.
var errJournal = errors.New("too many runs wait to be settled")

// entry of the journal: a run that was let through, until what it wrote has
// been ruled on. It holds memories, and no credential.
type journalEntry struct {
	Decision  string               `json:"decision"`
	Begun     time.Time            `json:"begun"`
	Principal memproxy.Principal   `json:"principal"`
	Route     string               `json:"route"`
	Method    string               `json:"method"`
	Path      string               `json:"path"`
	Session   memproxy.SessionName `json:"session,omitzero"`
	Picture   []byte               `json:"picture"`
}

// journal keeps entries in a directory, a file for each, so that a run which
// outlives this process is settled by the next.
type journal struct{ dir string }

func (j journal) path(decision string) string { return filepath.Join(j.dir, decision+".json") }

// write makes an entry durable.
func (j journal) write(e *journalEntry) (err error) {
	if strings.ContainsAny(e.Decision, `/\`) || e.Decision == "" {
		return errors.New("a decision id that is no file name")
	}
	if err := os.MkdirAll(j.dir, 0o700); err != nil {
		return err
	}
	if files, err := os.ReadDir(j.dir); err != nil {
		return err
	} else if len(files) >= maxJournal {
		return errJournal
	}
	raw, err := json.Marshal(e)
	if err != nil {
		return err
	}
	return durable.Write(j.path(e.Decision), raw)
}

// remove drops an entry that is settled.
func (j journal) remove(decision string) error {
	if err := os.Remove(j.path(decision)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// left are the entries of earlier processes, oldest first by name, which is by
// time. What cannot be read comes back as an error with the others.
func (j journal) left() (entries []*journalEntry, err error) {
	files, err := os.ReadDir(j.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var faults []error
	for _, f := range files {
		switch name := f.Name(); {
		case durable.Partial(name):
			faults = append(faults, os.Remove(filepath.Join(j.dir, name))) // never took effect: its run was not let through
		case strings.HasSuffix(name, ".json"):
			raw, err := durable.Read(filepath.Join(j.dir, name))
			e := &journalEntry{}
			if err == nil {
				err = json.Unmarshal(raw, e)
			}
			if err == nil && e.Decision+".json" != name {
				err = errors.New(name + " is about another run")
			}
			if err == nil {
				entries = append(entries, e)
			}
			faults = append(faults, err)
		}
	}
	return entries, errors.Join(faults...)
}

// The pace at which what could not be settled is tried again.
const (
	firstRetry = 15 * time.Second
	lastRetry  = time.Hour
)

// unsettled are the runs of the journal that this process knows of: those that
// it is settling, and those that it could not.
type unsettled struct {
	mu   sync.Mutex
	runs map[string]*attempt
}

type attempt struct {
	busy  bool
	wait  time.Duration
	again time.Time
	run   *Watched // as it was left; nil for an earlier process's
}

// take claims a run, if nobody settles it and it is time for that. What was
// left of it, if anything, comes back.
func (u *unsettled) take(decision string, now time.Time) (left *Watched, mine bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	at := u.runs[decision]
	if at == nil {
		if u.runs == nil {
			u.runs = map[string]*attempt{}
		}
		at = &attempt{}
		u.runs[decision] = at
	}
	if at.busy || now.Before(at.again) {
		return nil, false
	}
	at.busy = true
	return at.run, true
}

// leave gives back a run that could not be settled.
func (u *unsettled) leave(c *Watched, now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if at := u.runs[c.a.Decision.ID]; at != nil {
		at.busy, at.run = false, c
		at.wait = min(lastRetry, max(firstRetry, 2*at.wait))
		at.again = now.Add(at.wait)
	}
}

// put gives back a run whose agents were busy: its time is soon.
func (u *unsettled) put(decision string, c *Watched) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if at := u.runs[decision]; at != nil {
		at.busy, at.run = false, c
	}
}

// drop forgets a run that is settled.
func (u *unsettled) drop(decision string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.runs, decision)
}
