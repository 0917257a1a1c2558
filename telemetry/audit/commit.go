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
	"github.com/memproxy/memproxy/internal/durable"
)

// committer is the writer. It appends the queue to the journal, with one fsync for
// everything that waits.
type committer struct {
	opt      *Options
	disk     disk
	queue    *queue
	progress *progress
	reserve  *reserve

	mac     frameMAC
	journal *os.File
	offset  int64
	frame   frame
	events  []*memproxy.Event // of the frame's records, for Options.OnRecord
	records []byte            // of the last frame, in the bundle's memory
	spare   []*item
	now     []byte
}

// run commits the queue until the log is closed and the queue is empty.
func (c *committer) run(stop <-chan struct{}) {
	for closing := false; !closing; {
		var again <-chan time.Time
		if broken, _ := c.progress.failing(); broken != nil {
			again = time.After(retryEvery)
		}
		select {
		case <-c.queue.wake:
		case <-again:
		case <-stop:
			closing = true
		}
		// Callers that are about to join the group get to the queue first. Groups are then
		// larger, and a write costs less (docs/performance.md).
		runtime.Gosched()
		batch := c.queue.takeAll(c.spare)
		if left, err := c.commit(batch); err != nil {
			c.refuse(left, err)
		}
		clear(batch)
		c.spare = batch
	}
}

// commit makes a batch durable and releases its callers. A batch that crosses the end of
// a bundle needs two frames, in two files. With an error it returns the remaining items.
func (c *committer) commit(batch []*item) (left []*item, err error) {
	if err := c.repairJournal(); err != nil {
		return batch, err
	}
	if len(batch) == 0 {
		return nil, nil
	}
	if err := c.progress.lagging(); err != nil {
		return batch, err
	}
	t := c.progress.tip                                   // only this goroutine changes it
	if now := c.opt.Clock().Round(0); now.After(t.time) { // by the wall clock, which may be set back
		t.time = now
	}
	c.now = appendTime(c.now[:0], t.time)
	c.begin(t.next)
	done := 0
	for i, it := range batch {
		if !it.take() {
			continue
		}
		for k := range it.bodies {
			if len(c.frame.leaves) > 0 && t.next%tileWidth == 0 {
				if err := c.flush(t); err != nil {
					return batch[done:], err
				}
				c.release(batch[done:i])
				done = i
				c.begin(t.next)
			}
			t = c.append(t, it, k)
		}
	}
	if len(c.frame.leaves) > 0 {
		if err := c.flush(t); err != nil {
			return batch[done:], err
		}
	}
	c.release(batch[done:])
	return nil, nil
}

func (c *committer) begin(next uint64) {
	c.frame.begin(next)
	c.events = c.events[:0]
}

func (c *committer) append(t tip, it *item, part int) tip {
	start := len(c.frame.buf)
	c.frame.buf = append(c.frame.buf, 0, 0)
	c.frame.buf = splice(c.frame.buf, &it.bodies[part], t.next, t.prev, c.now)
	record := c.frame.buf[start+2:]
	binary.BigEndian.PutUint16(c.frame.buf[start:], uint16(len(record)))
	t.next, t.prev = t.next+1, tlog.RecordHash(record)
	c.frame.leaves = append(c.frame.leaves, t.prev)
	if c.opt.OnRecord != nil {
		c.events = append(c.events, &it.event)
	}
	return t
}

// flush makes the frame durable and advances the tip. After an error the content of the
// journal after the tip is undefined, and repairJournal writes the journal again.
func (c *committer) flush(t tip) (err error) {
	defer func() { c.progress.setJournalError(err) }()
	payload := len(c.frame.buf)
	c.frame.end(c.mac)
	n := int64(c.frame.first / tileWidth)
	fresh := c.journal == nil
	if fresh {
		c.offset = 0
		if c.journal = c.reserve.take(n); c.journal != nil {
			fresh = false // the file's name is durable
		} else if c.journal, err = durable.Open(c.disk.path(journalPath(n)), os.O_WRONLY|os.O_CREATE|os.O_TRUNC); err != nil {
			return fmt.Errorf("audit: %w", err)
		}
	}
	if _, err = c.journal.WriteAt(c.frame.buf, c.offset); err != nil {
		return fmt.Errorf("audit: journal: %w", err)
	}
	if err = c.opt.commit(c.journal); err != nil {
		return fmt.Errorf("audit: journal: %w", err)
	}
	if fresh {
		if err = c.disk.syncDir(journalDir); err != nil {
			return err
		}
	}
	if err = inPlace(c.journal, c.disk.path(journalPath(n))); err != nil {
		return err
	}
	if c.offset == 0 {
		c.reserve.request(n + 1)
	}
	c.offset += int64(len(c.frame.buf))
	b := c.progress.advance(t, n, c.frame.buf[frameHeader:payload], c.frame.leaves)
	c.records = b.buf[len(b.buf)-(payload-frameHeader):]
	if t.next%tileWidth == 0 {
		_ = c.journal.Close() // synced
		c.journal = nil
	}
	return nil
}

// inPlace returns an error if a path no longer names the open file: the directory was
// moved, or replaced by an earlier copy, while the log was running. What is written to
// such a file would be lost with the process. repairJournal writes the journal again under
// its path.
func inPlace(f *os.File, path string) error {
	named, err := os.Stat(path)
	open, closed := f.Stat()
	if err = errors.Join(err, closed); err == nil && !os.SameFile(open, named) {
		err = errors.New(path + " was replaced while the log was running")
	}
	if err != nil {
		return fmt.Errorf("audit: journal: %w", err)
	}
	return nil
}

// release answers the callers of a durable batch, and passes its records to the hook.
func (c *committer) release(batch []*item) {
	for _, it := range batch {
		it.answer(nil)
	}
	for i, event := range c.events {
		n := 2 + int(binary.BigEndian.Uint16(c.records))
		c.opt.OnRecord(c.frame.first+uint64(i), event, c.records[2:n:n])
		c.records = c.records[n:]
	}
	clear(c.events) // they are garbage from here on, like their bundle
	c.events, c.records = c.events[:0], nil
	for _, it := range batch {
		c.queue.recycle(it)
	}
}

// refuse returns the error to the callers of a batch that was not written. Asynchronous events
// have no waiting caller, so they are kept for the next attempt.
func (c *committer) refuse(batch []*item, err error) {
	var kept []*item
	for _, it := range batch {
		if it.caller == nil {
			kept = append(kept, it)
		} else if it.take() {
			it.answer(err)
		}
	}
	c.queue.putBack(kept)
}

// repairJournal replaces a journal that could not be written: it writes the durable records to a new file,
// which takes the old one's name. After a failed fsync the content of the old file on
// disk is unknown.
func (c *committer) repairJournal() error {
	n, b, why := c.progress.journalFailure()
	if why == nil {
		return nil
	}
	err := c.rewriteJournal(n, b)
	c.progress.setJournalError(err)
	return err
}

func (c *committer) rewriteJournal(n int64, b *bundle) error {
	c.disk.named.Clear() // the directory may have been replaced
	if c.journal != nil {
		_ = c.journal.Close() // it is replaced
		c.journal = nil
	}
	if b == nil {
		if err := os.Remove(c.disk.path(journalPath(n))); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("audit: %w", err)
		}
		return c.disk.syncDir(journalDir)
	}
	f := frame{}
	f.begin(uint64(n * tileWidth))
	f.buf, f.leaves = append(f.buf, b.buf...), b.leaves
	f.end(c.mac)
	if err := c.disk.replace(journalPath(n), f.buf, true); err != nil {
		return err
	}
	if err := c.disk.syncDir(journalDir); err != nil {
		return err
	}
	var err error
	if c.journal, err = durable.Open(c.disk.path(journalPath(n)), os.O_WRONLY); err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	c.offset = int64(len(f.buf))
	return nil
}
