package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/memproxy/memproxy"
)

// The errors that callers can distinguish.
var (
	ErrClosed  = errors.New("audit: the log is closed")
	ErrFull    = errors.New("audit: too many events are waiting to be written")
	ErrLocked  = errors.New("audit: another memproxy has the log of this state directory open; stop it first, or give this one a directory of its own (state)")
	ErrCorrupt = errors.New("audit: the log is damaged and will not be appended to")
)

// retryEvery is how often a log that cannot write tries again without being asked.
const retryEvery = time.Second

// Log is an open audit log. Its methods are safe for concurrent use.
//
// Three goroutines serve it. The writer (committer) appends queued records to the
// journal with one fsync and releases their callers. The publisher derives entry
// bundles, tiles and the signed checkpoint from the journal, again after a crash. The
// reserve preallocates the next journal.
type Log struct {
	opt  Options
	held *os.File // lock file

	queue     *queue
	progress  *progress
	reserve   *reserve
	committer *committer
	publisher *publisher

	stop, ended chan struct{}
	work        sync.WaitGroup // the writer's and the reserve's
	closing     sync.Once
	closeErr    error
}

// Open opens the log in opt.Dir, or creates one, and repairs what a crash left. It
// returns ErrCorrupt for damage that no crash explains, and ErrLocked if another
// process has the log open.
func Open(opt Options) (*Log, error) {
	if err := opt.validate(); err != nil {
		return nil, err
	}
	signer, vkey, verifier, err := newSigner(opt.Origin, opt.Key)
	if err != nil {
		return nil, err
	}
	l := &Log{opt: opt, stop: make(chan struct{}), ended: make(chan struct{})}
	d := newDisk(opt.Dir, opt.Sync)
	l.queue = newQueue(&l.opt)
	l.reserve = &reserve{disk: d, size: opt.Reserve, wake: make(chan int64, 1), stop: l.stop, begun: -1}
	l.progress = &progress{every: opt.CheckpointEvery, wake: make(chan struct{}, 1)}
	l.publisher = &publisher{opt: &l.opt, disk: d, signer: signer, tree: tree{}, progress: l.progress, queue: l.queue}
	l.committer = &committer{
		opt: &l.opt, disk: d, queue: l.queue, progress: l.progress, reserve: l.reserve,
		mac: newFrameMAC(opt.Key.Seed()),
	}
	if err := os.MkdirAll(d.path(journalDir), 0o700); err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	if l.held, err = lock(d.path(lockFile)); err != nil {
		return nil, err
	}
	was := recovery{Log: l, disk: d, vkey: vkey, verifier: verifier}
	repair, err := was.restore()
	if err == nil {
		err = l.publisher.publish(true)
	}
	if err != nil {
		l.closeFiles()
		return nil, err
	}
	l.work.Go(func() { l.committer.run(l.stop) })
	l.work.Go(l.reserve.run)
	go l.publisher.run(l.stop)
	if repair != "" {
		ctx, cancel := context.WithTimeout(context.Background(), openTimeout)
		defer cancel()
		ev := memproxy.Event{Type: memproxy.EventRepair, Time: opt.Clock(), Detail: repair}
		if err := l.Record(ctx, ev); err != nil {
			return nil, errors.Join(err, l.Close(ctx))
		}
	}
	return l, nil
}

// openTimeout bounds the recording of a repair.
const openTimeout = 30 * time.Second

// Record writes an event and returns when it is durable. After an error the event must
// be treated as not recorded, although a record that was being written when ctx ended,
// or when the disk failed, may still be found in the log. The event's slices must not
// be changed afterwards.
func (l *Log) Record(ctx context.Context, ev memproxy.Event) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return l.queue.wait(ctx, l.queue.item(&ev))
}

// RecordAsync queues an event without waiting, in order. It is written with the next
// record, or within Options.AsyncDelay. Events in the queue are lost if the process is
// killed.
func (l *Log) RecordAsync(ev memproxy.Event) error {
	return l.queue.add(l.queue.item(&ev))
}

// Flush waits until everything queued before is durable and has a signed checkpoint.
func (l *Log) Flush(ctx context.Context) error {
	if err := l.queue.wait(ctx, new(item)); err != nil {
		return err
	}
	return l.publisher.publish(false)
}

// Close writes and signs the queued events and releases the directory. It returns ctx's
// error if that takes too long; the files are then closed when the process ends.
func (l *Log) Close(ctx context.Context) error {
	l.closing.Do(func() {
		l.queue.close()
		close(l.stop)
		go func() {
			defer close(l.ended)
			l.work.Wait()
			l.closeErr = errors.Join(l.drained(), l.publisher.publish(true))
			l.closeFiles()
		}()
	})
	select {
	case <-l.ended:
		return l.closeErr
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *Log) drained() error {
	if waiting, _ := l.queue.state(); waiting > 0 {
		return fmt.Errorf("audit: %d events were not written: %w", waiting, cmp.Or(l.progress.failing()))
	}
	return nil
}

func (l *Log) closeFiles() {
	l.publisher.mu.Lock()
	defer l.publisher.mu.Unlock()
	l.publisher.shut = true
	l.reserve.drop()
	if l.committer.journal != nil {
		_ = l.committer.journal.Close() // every frame in it was synced
	}
	_ = l.held.Close() // releases the lock
}

// Healthy returns nil when the last attempts to write the journal and the
// checkpoint succeeded.
func (l *Log) Healthy() error {
	if _, closed := l.queue.state(); closed {
		return ErrClosed
	}
	journal, checkpoint := l.progress.failing()
	return cmp.Or(journal, checkpoint) // if the journal cannot be written, the checkpoint's error has the same cause
}

// Size returns the number of durable records, pruned ones included.
func (l *Log) Size() uint64 {
	size, _ := l.progress.sizes()
	return size
}

// Lag is how far the log lags behind.
type Lag struct {
	Queued   int    // events that wait for the disk
	Unsigned uint64 // durable records that wait for a checkpoint
}

// Lag returns how far the log lags behind.
func (l *Log) Lag() Lag {
	waiting, _ := l.queue.state()
	size, signed := l.progress.sizes()
	return Lag{Queued: waiting, Unsigned: size - signed}
}
