package audit

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/memproxy/memproxy/internal/wait"
)

// maxUnpublished is the number of bundles that may wait for tiles and a checkpoint
// before records are refused.
const maxUnpublished = 64

// progress is the state of the log: what is durable, which only the writer advances,
// and what is signed, which only the publisher advances.
type progress struct {
	every time.Duration // see Options.CheckpointEvery
	wake  chan struct{} // wakes the publisher

	mu      sync.Mutex
	tip     tip
	bundles []*bundle // bundles that are not full or not published yet, in order
	signed  uint64    // size of the last checkpoint
	broken  error     // why the journal cannot be written, or nil
	stale   error     // why the checkpoint cannot be written, or nil
	due     bool      // the publisher will be woken
	last    time.Time // of the last checkpoint
}

// tip is the position of the next record, and the hash of the preceding one.
type tip struct {
	next uint64
	prev tlog.Hash
	time time.Time
}

// bundle has up to 256 records as stored in the entry bundle. Both slices only grow, so
// that a copy of their headers is a snapshot.
type bundle struct {
	n      int64
	buf    []byte
	leaves []tlog.Hash
}

// advance adds durable records to the bundle in memory that the publisher reads.
func (p *progress) advance(t tip, n int64, payload []byte, leaves []tlog.Hash) *bundle {
	p.mu.Lock()
	defer p.mu.Unlock()
	if k := len(p.bundles); k == 0 || p.bundles[k-1].n != n {
		room := 0
		if k > 0 { // records have similar lengths
			room = len(p.bundles[k-1].buf) * 9 / 8
		}
		p.bundles = append(p.bundles, &bundle{n: n, buf: make([]byte, 0, room), leaves: make([]tlog.Hash, 0, tileWidth)})
	}
	b := p.bundles[len(p.bundles)-1]
	b.buf = append(b.buf, payload...)
	b.leaves = append(b.leaves, leaves...)
	p.tip = t
	if !p.due {
		p.due = true
		time.AfterFunc(max(p.every/10, p.every-time.Since(p.last)), func() { wait.Wake(p.wake) })
	}
	if len(p.bundles) > maxUnpublished/2 { // a burst must not fill the room before the time has passed
		wait.Wake(p.wake)
	}
	return b
}

func (p *progress) setJournalError(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.broken = err
}

// journalFailure returns the bundle that is being filled, with its durable part, or nil if
// there is none, and why the journal cannot be written, or nil.
func (p *progress) journalFailure() (n int64, b *bundle, why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tip.next%tileWidth != 0 {
		b = p.bundles[len(p.bundles)-1]
	}
	return int64(p.tip.next / tileWidth), b, p.broken
}

// lagging returns an error if checkpoints have not been written for so long that memory
// would fill.
func (p *progress) lagging() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.bundles) > maxUnpublished {
		return fmt.Errorf("audit: %d bundles wait for a checkpoint: %w", len(p.bundles), errors.Join(ErrFull, p.stale))
	}
	return nil
}

func (p *progress) durable() (size uint64, bundles []bundle) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.due = false
	bundles = make([]bundle, len(p.bundles))
	for i, b := range p.bundles {
		bundles[i] = *b
	}
	return p.tip.next, bundles
}

// published records a checkpoint of that size, or why it could not be written. It
// returns the full bundles, which are no longer needed.
func (p *progress) published(size uint64, err error) (full []bundle) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stale = err
	if err != nil {
		return nil
	}
	p.signed, p.last = size, time.Now()
	p.bundles = slices.DeleteFunc(p.bundles, func(b *bundle) bool {
		done := b.n < int64(size/tileWidth)
		if done {
			full = append(full, *b)
		}
		return done
	})
	return full
}

// failing returns the errors of the last attempts to write the journal and the checkpoint.
func (p *progress) failing() (journal, checkpoint error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.broken, p.stale
}

func (p *progress) sizes() (durable, signed uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tip.next, p.signed
}
