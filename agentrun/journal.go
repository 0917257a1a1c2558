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

// maxJournal is the maximum number of unsettled runs of one backend.
const maxJournal = 1024

var errJournal = errors.New("too many runs wait for compensation")

// journalEntry is a compensated run that is not settled yet. It contains memories, but no
// credentials.
type journalEntry struct {
	Decision  string               `json:"decision"`
	Begun     time.Time            `json:"begun"`
	Principal memproxy.Principal   `json:"principal"`
	Route     string               `json:"route"`
	Method    string               `json:"method"`
	Path      string               `json:"path"`
	Session   memproxy.SessionName `json:"session,omitzero"`
	Baseline  []byte               `json:"picture"`
}

// journal is a directory with a file per unsettled run. Runs that outlive this process
// are settled by the next one.
type journal struct {
	dir string

	writing sync.RWMutex // held for reading while an entry is written, which unsettled would take for an incomplete one

	mu   sync.Mutex
	runs map[string]*attempt // that this process is settling or failed to settle
}

func (j *journal) path(decision string) string { return filepath.Join(j.dir, decision+".json") }

func (j *journal) write(e *journalEntry) (err error) {
	if strings.ContainsAny(e.Decision, `/\`) || e.Decision == "" {
		return errors.New("the decision id is not a valid file name")
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
	j.writing.RLock()
	defer j.writing.RUnlock()
	return durable.Write(j.path(e.Decision), raw)
}

// remove deletes the entry of a settled run, durably: settled again after a power cut, the run
// would be taken for the author of later changes.
func (j *journal) remove(decision string) error {
	if err := removeFile(j.path(decision)); err != nil {
		return err
	}
	j.forget(decision)
	return durable.SyncDir(j.dir)
}

// removeFile deletes a file, if it exists.
func removeFile(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// unsettled returns the entries of the directory, oldest first: file names sort by time. The
// error joins the errors of unreadable entries.
func (j *journal) unsettled() (entries []*journalEntry, err error) {
	files, err := os.ReadDir(j.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var faults []error
	for _, f := range files {
		switch name := f.Name(); {
		case durable.IsPartial(name):
			j.writing.Lock()
			faults = append(faults, removeFile(filepath.Join(j.dir, name))) // an incomplete write: its run was never forwarded
			j.writing.Unlock()
		case strings.HasSuffix(name, ".json"):
			raw, err := durable.Read(filepath.Join(j.dir, name))
			if errors.Is(err, fs.ErrNotExist) {
				continue // its run was settled meanwhile
			}
			e := &journalEntry{}
			if err == nil {
				err = json.Unmarshal(raw, e)
			}
			if err == nil && e.Decision+".json" != name {
				err = errors.New(name + " contains another run's entry")
			}
			if err == nil {
				entries = append(entries, e)
			}
			faults = append(faults, err)
		}
	}
	return entries, errors.Join(faults...)
}

// Backoff between attempts to settle a run.
const (
	firstRetry = 15 * time.Second
	lastRetry  = time.Hour
)

type attempt struct {
	busy  bool
	wait  time.Duration
	again time.Time
	run   *CompensatedRun // state after the last attempt; nil for a run of an earlier process
}

// claim claims a journal entry if no other goroutine settles it and its retry time has
// come. It returns the state after the last attempt, if any.
func (j *journal) claim(decision string, now time.Time) (left *CompensatedRun, mine bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	at := j.runs[decision]
	if at == nil {
		at = &attempt{}
		j.runs[decision] = at
	}
	if at.busy || now.Before(at.again) {
		return nil, false
	}
	at.busy = true
	return at.run, true
}

// reclaim is claim for an entry that was read before: its run may have been settled since.
func (j *journal) reclaim(decision string, now time.Time) (left *CompensatedRun, mine bool) {
	left, mine = j.claim(decision, now)
	if _, err := os.Stat(j.path(decision)); mine && errors.Is(err, fs.ErrNotExist) {
		j.forget(decision)
		return nil, false
	}
	return left, mine
}

// release releases a run. If an attempt to settle it failed, the next one comes after a
// longer delay; if its agents were busy, in the next round.
func (j *journal) release(decision string, c *CompensatedRun, tried bool, now time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	at := j.runs[decision]
	if at == nil {
		return
	}
	at.busy, at.run = false, c
	if tried {
		at.wait = min(lastRetry, max(firstRetry, 2*at.wait))
		at.again = now.Add(at.wait)
	}
}

// forget forgets the attempts to settle a run.
func (j *journal) forget(decision string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.runs, decision)
}
