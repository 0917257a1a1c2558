// Package redo is the write-ahead log of queued ledger entries that may not be in the
// database yet. An entry is written to the file, and so to the kernel, before its
// caller goes on, so that a killed process loses none. Like SQLite's WAL the file is
// not synced, so a power failure may lose the last entries. Entries are encrypted under
// the vault's keys and numbered. The database stores the number of the last entry that
// it has, in the same transaction as the entry, so that each is applied once.
//
// A frame is its length, the entry's number, the length and name of the key, the encrypted
// entry, and zeros up to a multiple of four. Frames of length zero were erased.
package redo

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/memproxy/memproxy/ledger/keys"
)

const (
	// Suffix is appended to a ledger's path.
	Suffix = ".redo"
	// maxSize limits the file. Above it, entries wait until the database has caught up.
	maxSize   = 16 << 20
	headSize  = 4 + 8 + 1 // size of a frame without the key's name and the encrypted entry
	keepFrame = 64 << 10  // size of the largest buffer that is reused for the next frame
)

// Log is an open log. A nil Log logs nothing. It is safe for concurrent use.
type Log struct {
	vault *keys.Vault

	mu    sync.Mutex // held from the numbering of an entry until it is queued
	file  *os.File
	frame []byte // buffer for the next frame
	last  uint64 // number of the last entry that was appended
	ends  []end
	done  int64 // end of the last frame that was applied or lost
	wiped int64 // how much of that was overwritten
}

// end is the position at which the frame of an entry ends.
type end struct {
	number uint64
	at     int64
}

// Open reads a log and calls entry, in order, with each entry after the one numbered
// applied. An entry that was changed in the file is skipped and reported to lost. A
// partial frame at the end is ignored, because its caller was never answered. The Log
// owns the file and closes it after an error.
func Open(file *os.File, vault *keys.Vault, applied uint64, entry func(number uint64, plain []byte) error, lost func(error)) (*Log, error) {
	l := &Log{vault: vault, file: file, last: applied}
	if err := l.read(entry, lost); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return l, nil
}

func (l *Log) read(entry func(number uint64, plain []byte) error, lost func(error)) error {
	text, err := io.ReadAll(io.LimitReader(l.file, 2*maxSize))
	if err != nil {
		return err
	}
	l.done = int64(len(text))
	for at := 0; at < len(text); {
		n, number, plain, err := readFrame(l.vault, text[at:])
		if n == 0 {
			break
		}
		if err != nil {
			lost(fmt.Errorf("redo log at %d: %w", at, err))
		}
		at += n
		if err != nil || number <= l.last {
			continue
		}
		if err := entry(number, plain); err != nil {
			return fmt.Errorf("redo log at %d: %w; if %s is moved away, memproxy starts without the writes in it", at-n, err, l.file.Name())
		}
		l.last = number
		l.ends = append(l.ends, end{number, l.done})
	}
	return nil
}

// Append logs an entry and calls queue with its number, so that the log and the queue
// have the same order. If queue refuses the entry, it is removed from the log. If the
// file cannot be written, the entry is queued with the number zero and is not logged.
// If the log is full, it is neither logged nor queued.
func (l *Log) Append(plain []byte, queue func(number uint64) bool) (queued, logged bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	number, err := l.append(plain)
	switch {
	case err != nil:
		return queue(0), false
	case number == 0:
		return false, false
	case !queue(number):
		l.last, l.ends = l.last-1, l.ends[:len(l.ends)-1]
		return false, false
	}
	return true, true
}

// append logs an entry and returns its number, or zero if the log is full.
func (l *Log) append(plain []byte) (uint64, error) {
	from := l.done
	if n := len(l.ends); n > 0 {
		from = l.ends[n-1].at
	}
	if from+int64(len(plain)) > maxSize {
		return 0, nil
	}
	number := l.last + 1
	sealed := l.vault.SealEntry(number, plain)
	name := l.vault.Current()
	frame := binary.BigEndian.AppendUint32(l.frame[:0], uint32(headSize+len(name)+len(sealed)))
	frame = binary.BigEndian.AppendUint64(frame, number)
	frame = append(frame, byte(len(name)))
	frame = append(append(frame, name...), sealed...)
	frame = append(frame, make([]byte, -len(frame)&3)...)
	l.frame = frame
	if cap(frame) > keepFrame {
		l.frame = nil
	}
	if _, err := l.file.WriteAt(frame, from); err != nil {
		return 0, errors.Join(err, l.file.Truncate(from)) // a partial frame must not stay
	}
	l.last = number
	l.ends = append(l.ends, end{number, from + int64(len(frame))})
	return number, nil
}

// Applied records that the entries up to a number are in the database or lost. When all
// are, the file is truncated. erase overwrites those entries and syncs the file.
func (l *Log) Applied(number uint64, erase bool) error {
	if l == nil || number == 0 && !erase {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.ends) > 0 && l.ends[0].number <= number {
		l.done, l.ends = l.ends[0].at, l.ends[1:]
	}
	if erase && l.done > l.wiped {
		_, err := l.file.WriteAt(make([]byte, l.done-l.wiped), l.wiped)
		if err == nil {
			err = l.file.Sync()
		}
		if err != nil {
			return fmt.Errorf("ledger: redo log: %w", err)
		}
		l.wiped = l.done
	}
	if len(l.ends) > 0 || l.done == 0 {
		return nil
	}
	l.done, l.wiped, l.ends = 0, 0, nil
	if err := l.file.Truncate(0); err != nil {
		return fmt.Errorf("ledger: redo log: %w", err)
	}
	return nil
}

// Close closes the file.
func (l *Log) Close() error {
	if l == nil {
		return nil
	}
	return l.file.Close()
}

// readFrame reads a frame. n is its length, or zero if the frame is not complete.
func readFrame(vault *keys.Vault, text []byte) (n int, number uint64, plain []byte, err error) {
	if len(text) < 4 {
		return 0, 0, nil, nil
	}
	n = int(binary.BigEndian.Uint32(text))
	if n == 0 {
		return 4, 0, nil, nil // erased
	}
	if n > len(text) || n < headSize || n < headSize+int(text[12]) {
		return 0, 0, nil, nil
	}
	number = binary.BigEndian.Uint64(text[4:])
	name, sealed := string(text[headSize:headSize+int(text[12])]), text[headSize+int(text[12]):n]
	plain, err = vault.OpenEntry(name, number, sealed)
	return (n + 3) &^ 3, number, plain, err
}

// Unapplied returns the part of a copied log after an applied entry. The file may have
// been truncated and rewritten during the copy; a frame torn by that had been applied.
func Unapplied(text []byte, applied uint64) []byte {
	for at := int64(0); at+headSize <= int64(len(text)); {
		n := int64(binary.BigEndian.Uint32(text[at:]))
		if n > 0 && binary.BigEndian.Uint64(text[at+4:]) > applied {
			return text[at:]
		}
		at += max(4, n+3) &^ 3
	}
	return nil
}
