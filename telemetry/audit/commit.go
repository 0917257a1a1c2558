package audit

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/memproxy/memproxy"
)

// write is the writer: it commits what is queued until the log is closed and
// the queue is empty.
func (l *Log) write() {
	defer close(l.written)
	for closing := false; !closing; {
		var again <-chan time.Time
		if l.failing() {
			again = time.After(retryEvery)
		}
		select {
		case <-l.queue.wake:
		case <-again:
		case <-l.stop:
			closing = true
		}
		// Callers that are about to join this commit get to the queue first.
		runtime.Gosched()
		batch := l.queue.takeAll(l.spare)
		l.commit(batch)
		clear(batch)
		l.spare = batch
	}
}

func (l *Log) failing() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.broken != nil
}

// commit makes a batch durable and lets its callers go. A batch that crosses
// the end of a bundle takes two frames, in two files.
func (l *Log) commit(batch []*item) {
	if err := l.mend(); err != nil {
		l.refuse(batch, err)
		return
	}
	if len(batch) == 0 {
		return
	}
	if err := l.lagging(); err != nil {
		l.refuse(batch, err)
		return
	}
	t := l.tip
	if now := l.opt.Clock(); now.After(t.time) {
		t.time = now
	}
	l.now = appendTime(l.now[:0], t.time)
	l.begin(t.next)
	done := 0
	for i, it := range batch {
		if !it.take() {
			continue
		}
		for k := range it.parts {
			if l.frame.count > 0 && t.next%tileWidth == 0 {
				if err := l.flush(t); err != nil {
					l.refuse(batch[done:], err)
					return
				}
				l.release(batch[done:i], nil)
				l.tell()
				done = i
				l.begin(t.next)
			}
			t = l.append(t, it, k)
		}
	}
	if l.frame.count > 0 {
		if err := l.flush(t); err != nil {
			l.refuse(batch[done:], err)
			return
		}
	}
	var err error
	if l.opt.CheckpointEvery < 0 {
		err = l.publish(false)
	}
	l.release(batch[done:], err)
	l.tell()
}

func (l *Log) begin(next uint64) {
	l.frame.begin(next)
	l.leaves, l.owners = l.leaves[:0], l.owners[:0]
}

// append writes one record into the frame.
func (l *Log) append(t tip, it *item, part int) tip {
	start := len(l.frame.buf)
	l.frame.buf = append(l.frame.buf, 0, 0)
	l.frame.buf = splice(l.frame.buf, it.body(part), t.next, t.prev, l.now)
	record := l.frame.buf[start+2:]
	binary.BigEndian.PutUint16(l.frame.buf[start:], uint16(len(record)))
	l.leaf.Reset()
	l.leaf.Write([]byte{0})
	l.leaf.Write(record)
	l.leaf.Sum(l.frame.last[:0])
	if part == 0 {
		it.index, it.leaf = t.next, l.frame.last
	}
	l.leaves = append(l.leaves, l.frame.last)
	if l.opt.OnRecord != nil {
		l.owners = append(l.owners, it)
	}
	l.frame.count++
	t.next++
	t.prev = l.frame.last
	return t
}

// flush makes the frame durable and moves the tip behind it. After an error
// the journal may hold anything behind the tip: mend writes it anew.
func (l *Log) flush(t tip) (err error) {
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.broken = err
	}()
	payload := len(l.frame.buf)
	l.frame.end(l.mac)
	n := int64(l.frame.first / tileWidth)
	fresh := l.journal == nil
	if fresh {
		l.offset = 0
		if l.journal = l.reserve.take(n); l.journal != nil {
			fresh = false // its name is durable
		} else if l.journal, err = os.OpenFile(l.disk.path(journalPath(n)), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600); err != nil {
			return fmt.Errorf("audit: %w", err)
		}
	}
	if _, err = l.journal.WriteAt(l.frame.buf, l.offset); err != nil {
		return fmt.Errorf("audit: journal: %w", err)
	}
	if err = l.opt.commit(l.journal); err != nil {
		return fmt.Errorf("audit: journal: %w", err)
	}
	if fresh {
		if err = l.disk.syncDir(journalDir); err != nil {
			return err
		}
	}
	if err = inPlace(l.journal, l.disk.path(journalPath(n))); err != nil {
		return err
	}
	if l.offset == 0 {
		l.reserve.ask(n + 1)
	}
	l.offset += int64(len(l.frame.buf))
	b := l.advance(t, n, l.frame.buf[frameHeader:payload], l.leaves)
	if l.opt.OnRecord != nil {
		l.collect(b)
	}
	if t.next%tileWidth == 0 {
		_ = l.journal.Close() // synced
		l.journal = nil
	}
	return nil
}

// inPlace is an error where a path no longer names the file that is open: the
// directory was moved, or put back to an earlier copy, while the log was running, and
// what is written to the file is lost with the process. mend writes it into its place.
func inPlace(f *os.File, path string) error {
	open, err := f.Stat()
	if err != nil {
		return fmt.Errorf("audit: journal: %w", err)
	}
	named, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("audit: journal: %w", err)
	}
	if !os.SameFile(open, named) {
		return fmt.Errorf("audit: journal: %s was replaced while the log was running", path)
	}
	return nil
}

// advance adds durable records to the bundle in memory, from where the
// publisher takes them.
func (l *Log) advance(t tip, n int64, payload []byte, leaves []tlog.Hash) *bundle {
	l.mu.Lock()
	defer l.mu.Unlock()
	if k := len(l.bundles); k == 0 || l.bundles[k-1].n != n {
		room := 0
		if k > 0 { // records differ little in length
			room = len(l.bundles[k-1].buf) * 9 / 8
		}
		l.bundles = append(l.bundles, &bundle{n: n, buf: make([]byte, 0, room), leaves: make([]tlog.Hash, 0, tileWidth)})
	}
	b := l.bundles[len(l.bundles)-1]
	b.buf = append(b.buf, payload...)
	b.leaves = append(b.leaves, leaves...)
	l.tip = t
	if !l.due && l.opt.CheckpointEvery > 0 {
		l.due = true
		time.AfterFunc(l.opt.CheckpointEvery, func() { signal(l.publishWake) })
	}
	return b
}

// fact is a durable record that the hook has yet to be told of.
type fact struct {
	index  uint64
	event  memproxy.Event
	record []byte
}

// collect keeps what the hook is to be notified of: the frame's records, in
// the bundle's own memory. The items are their callers' again once those are
// released, and callers are not kept waiting for the hook.
func (l *Log) collect(b *bundle) {
	rest := b.buf[len(b.buf)-(len(l.frame.buf)-frameHeader-frameTrailer):]
	for i, it := range l.owners {
		n := 2 + int(binary.BigEndian.Uint16(rest))
		l.facts = append(l.facts, fact{l.frame.first + uint64(i), it.event, rest[2:n:n]})
		rest = rest[n:]
	}
}

// tell hands the hook what is durable by now.
func (l *Log) tell() {
	for i := range l.facts {
		l.opt.OnRecord(l.facts[i].index, l.facts[i].event, l.facts[i].record)
	}
	clear(l.facts)
	l.facts = l.facts[:0]
}

// release answers the callers of a batch.
func (l *Log) release(batch []*item, err error) {
	for _, it := range batch {
		switch {
		case it.state.Load() == withdrawn:
		case it.note:
			l.queue.recycle(it)
		default:
			it.done <- err
		}
	}
}

// refuse answers the callers of a batch that was not written. Nobody waits for
// a note, so notes are kept for the next attempt.
func (l *Log) refuse(batch []*item, err error) {
	var notes []*item
	for _, it := range batch {
		if it.note {
			notes = append(notes, it)
		} else if it.take() {
			it.done <- err
		}
	}
	l.queue.putBack(notes)
}

// lagging refuses records when checkpoints have not been written for so long
// that memory would fill.
func (l *Log) lagging() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.bundles) > maxUnpublished {
		return fmt.Errorf("audit: %d bundles wait for a checkpoint: %w", len(l.bundles), errors.Join(ErrFull, l.stale))
	}
	return nil
}

// mend makes a journal that failed good again: what is durable is written to
// a new file, which takes the old one's name. After a failed sync the old file
// says nothing reliable about what is on the disk.
func (l *Log) mend() error {
	l.mu.Lock()
	why, next := l.broken, l.tip.next
	var b *bundle
	if k := len(l.bundles); next%tileWidth != 0 {
		b = l.bundles[k-1]
	}
	l.mu.Unlock()
	if why == nil {
		return nil
	}
	err := l.rewrite(int64(next/tileWidth), b)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.broken = err
	return err
}

func (l *Log) rewrite(n int64, b *bundle) error {
	if l.journal != nil {
		_ = l.journal.Close() // it is replaced
		l.journal = nil
	}
	if b == nil {
		if err := os.Remove(l.disk.path(journalPath(n))); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("audit: %w", err)
		}
		return l.disk.syncDir(journalDir)
	}
	f := frame{}
	f.begin(uint64(n * tileWidth))
	f.buf = append(f.buf, b.buf...)
	f.count, f.last = len(b.leaves), b.leaves[len(b.leaves)-1]
	f.end(l.mac)
	if err := l.disk.replace(journalPath(n), f.buf, true); err != nil {
		return err
	}
	if err := l.disk.syncDir(journalDir); err != nil {
		return err
	}
	var err error
	if l.journal, err = os.OpenFile(l.disk.path(journalPath(n)), os.O_WRONLY, 0o600); err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	l.offset = int64(len(f.buf))
	return nil
}
