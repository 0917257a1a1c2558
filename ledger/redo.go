package ledger

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/durable"
	"github.com/memproxy/memproxy/ledger/keys"
)

// redo is the log of queued entries that may not be in the database yet, so that a
// killed process loses none of them: the entry is written to the file, and so to the
// kernel, before the caller goes on. Like SQLite's own log it is not synced, so a power
// failure may lose the last milliseconds. Entries are encrypted under the vault's keys,
// numbered, and applied once: the number of the last one is stored in the same
// transaction. A nil redo does nothing.
//
// A frame is its length, the entry's number, the length and name of the key, the
// sealed entry, and zeros up to a multiple of four. Frames of no length were erased.
type redo struct {
	vault *keys.Vault

	mu    sync.Mutex // held from numbering an entry until it is queued
	file  *os.File
	last  uint64 // entry that was appended
	ends  []redoEnd
	done  int64 // end of the last frame that was applied, or was lost
	wiped int64 // of these, what was overwritten
}

// redoEnd is where the frame of an entry ends.
type redoEnd struct {
	number uint64
	at     int64
}

const (
	// maxRedo limits the file. Above it, entries wait until the database has caught up.
	maxRedo    = 16 << 20
	redoSuffix = ".redo"
	redoHead   = 4 + 8 + 1
)

// redoVersion is a version with what its JSON leaves out.
type redoVersion struct {
	memproxy.Version
	Text     string `json:"text,omitempty"`
	Metadata []byte `json:"metadata,omitempty"`
}

// redoEntry is an entry in the log.
type redoEntry struct {
	Found, Versions []redoVersion          `json:",omitempty"`
	States          []memproxy.StateChange `json:",omitempty"`
	Renewed         []memproxy.Renewal     `json:",omitempty"`
	Owners          []memproxy.Ownership   `json:",omitempty"`
}

func encodeEntry(e *memproxy.Entry) ([]byte, error) {
	all := func(versions []memproxy.Version) (out []redoVersion) {
		for i := range versions {
			v := &versions[i]
			out = append(out, redoVersion{*v, v.Text, v.Metadata})
		}
		return out
	}
	return json.Marshal(redoEntry{all(e.Found), all(e.Versions), e.States, e.Renewed, e.Owners})
}

func decodeEntry(text []byte) (*memproxy.Entry, error) {
	var in redoEntry
	if err := json.Unmarshal(text, &in); err != nil {
		return nil, err
	}
	all := func(versions []redoVersion) (out []memproxy.Version) {
		for _, v := range versions {
			v.Version.Text, v.Version.Metadata = v.Text, v.Metadata
			out = append(out, v.Version)
		}
		return out
	}
	return &memproxy.Entry{Found: all(in.Found), Versions: all(in.Versions), States: in.States, Renewed: in.Renewed, Owners: in.Owners}, nil
}

// append adds an encoded entry, and returns its number; zero when there is no
// room. The caller holds the lock until the entry is queued.
func (r *redo) append(entry []byte) (uint64, error) {
	end := r.end()
	if end+int64(len(entry)) > maxRedo {
		return 0, nil
	}
	number := r.last + 1
	sealed, err := r.vault.SealEntry(number, entry)
	if err != nil {
		return 0, err
	}
	name := r.vault.Current()
	frame := make([]byte, redoHead, redoHead+len(name)+len(sealed)+3)
	binary.BigEndian.PutUint32(frame, uint32(redoHead+len(name)+len(sealed)))
	binary.BigEndian.PutUint64(frame[4:], number)
	frame[12] = byte(len(name))
	frame = append(append(frame, name...), sealed...)
	frame = append(frame, make([]byte, -len(frame)&3)...)
	if _, err := r.file.WriteAt(frame, end); err != nil {
		return 0, errors.Join(err, r.file.Truncate(end)) // a part of a frame is none
	}
	r.last = number
	r.ends = append(r.ends, redoEnd{number, end + int64(len(frame))})
	return number, nil
}

// takeBack undoes the last append, whose entry was not queued.
func (r *redo) takeBack() { r.last, r.ends = r.last-1, r.ends[:len(r.ends)-1] }

func (r *redo) end() int64 {
	if n := len(r.ends); n > 0 {
		return r.ends[n-1].at
	}
	return r.done
}

// applied is called when the entries up to a number are in the database, or are
// lost. Once all are, the file is empty. Erase overwrites what they said.
func (r *redo) applied(number uint64, erase bool) error {
	if r == nil || number == 0 && !erase {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.ends) > 0 && r.ends[0].number <= number {
		r.done, r.ends = r.ends[0].at, r.ends[1:]
	}
	if erase && r.done > r.wiped {
		_, err := r.file.WriteAt(make([]byte, r.done-r.wiped), r.wiped)
		if err == nil {
			err = r.file.Sync()
		}
		if err != nil {
			return fmt.Errorf("ledger: redo log: %w", err)
		}
		r.wiped = r.done
	}
	if len(r.ends) > 0 || r.done == 0 {
		return nil
	}
	r.done, r.wiped, r.ends = 0, 0, nil
	if err := r.file.Truncate(0); err != nil {
		return fmt.Errorf("ledger: redo log: %w", err)
	}
	return nil
}

func (r *redo) close() error {
	if r == nil {
		return nil
	}
	return r.file.Close()
}

// openRedo opens the log, and returns the entries that the database does not have yet.
func openRedo(ctx context.Context, s *store) (left []*job, err error) {
	if s.opt.Path == "" || s.opt.Durable || s.opt.Vault == nil {
		return nil, nil
	}
	r := &redo{vault: s.opt.Vault}
	if r.file, err = durable.Open(s.opt.Path+redoSuffix, os.O_RDWR|os.O_CREATE); err != nil {
		return nil, err
	}
	s.redo = r
	if err := s.writer.QueryRowContext(ctx, `SELECT applied FROM redo`).Scan(&r.last); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(r.file, 2*maxRedo))
	if err != nil {
		return nil, err
	}
	r.done = int64(len(text))
	for at := 0; at < len(text); {
		n, number, entry, err := readFrame(r.vault, text[at:])
		if n == 0 {
			break // a partial write, whose caller was not answered
		}
		if err != nil {
			s.opt.OnLost(1, fmt.Errorf("ledger: redo log at %d: %w", at, err))
		}
		if at += n; err != nil || number <= r.last {
			continue
		}
		e, err := decodeEntry(entry)
		if err != nil {
			return nil, fmt.Errorf("redo log at %d: %w; with %s moved away it starts without what is in it", at-n, err, s.opt.Path+redoSuffix)
		}
		r.last = number
		r.ends = append(r.ends, redoEnd{number, r.done})
		left = append(left, &job{ctx: context.Background(), size: size(e), number: number, also: func(t *transaction) error { return applyEntry(t, e, nil) }})
	}
	return left, nil
}

// resume applies what the last process left in the log, before the ledger is used.
func resume(s *store, left []*job) error {
	if s.redo == nil {
		return nil
	}
	last := &job{ctx: context.Background(), done: make(chan error, 1)}
	for _, j := range append(left, last) {
		s.jobs <- j
	}
	if err := <-last.done; err != nil {
		return err
	}
	return s.redo.applied(0, true)
}

// readFrame reads a frame: its length, zero when it is not whole, and the entry.
func readFrame(vault *keys.Vault, text []byte) (n int, number uint64, entry []byte, err error) {
	if len(text) < 4 {
		return 0, 0, nil, nil
	}
	n = int(binary.BigEndian.Uint32(text))
	if n == 0 {
		return 4, 0, nil, nil // erased
	}
	if n > len(text) || n < redoHead || n < redoHead+int(text[12]) {
		return 0, 0, nil, nil
	}
	number = binary.BigEndian.Uint64(text[4:])
	name, sealed := string(text[redoHead:redoHead+int(text[12])]), text[redoHead+int(text[12]):n]
	entry, err = vault.OpenEntry(name, number, sealed)
	return (n + 3) &^ 3, number, entry, err
}
