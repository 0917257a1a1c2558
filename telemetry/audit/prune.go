package audit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/memproxy/memproxy"
)

// Prune removes records that were appended before a time, and the oldest ones while all
// bundles together have more than maxBytes (0: no limit). It removes whole bundles of
// 256, never the last one, and returns the number of records. Their hashes remain, so
// that proofs and checkpoints of the whole log can still be made and checked. The
// removal is recorded first, so that the verifier can distinguish it from tampering.
func (l *Log) Prune(ctx context.Context, before time.Time, maxBytes int64) (uint64, error) {
	from, to, err := l.publisher.prunable(before, maxBytes)
	if err != nil || from == to {
		return 0, err
	}
	ev := memproxy.Event{
		Type: memproxy.EventPrune, Time: l.opt.Clock(), KeptFrom: to * tileWidth,
		Detail: fmt.Sprintf("records %d to %d removed by age or size", from*tileWidth, to*tileWidth-1),
	}
	if err := l.Record(ctx, ev); err != nil {
		return 0, err
	}
	if err := l.publisher.publish(true); err != nil {
		return 0, err
	}
	return l.publisher.remove(ctx, from, to)
}

func (p *publisher) remove(ctx context.Context, from, to int64) (uint64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shut {
		return 0, ErrClosed
	}
	for n := from; n < to; n++ {
		if err := ctx.Err(); err != nil {
			return uint64(n-from) * tileWidth, err
		}
		if err := os.Remove(p.disk.path(bundlePath(n, 0))); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return uint64(n-from) * tileWidth, fmt.Errorf("audit: %w", err)
		}
		p.oldest = n + 1
	}
	return uint64(to-from) * tileWidth, nil
}

// prunable returns the bundles whose records are all older than before, and the oldest
// ones beyond maxBytes. The last full bundle remains, because the hash chain continues
// from it when the log is opened.
func (p *publisher) prunable(before time.Time, maxBytes int64) (from, to int64, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := p.size/tileWidth - 1
	for from = p.oldest; from < last; from++ {
		_, err := os.Stat(p.disk.path(bundlePath(from, 0)))
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return 0, 0, fmt.Errorf("audit: %w", err)
		}
	}
	p.oldest = from
	for to = from; to < last; to++ {
		_, at, err := p.disk.last(to)
		if err != nil {
			return 0, 0, err
		}
		if !at.Before(before) {
			break
		}
	}
	for n := last; maxBytes > 0 && n >= to; n-- {
		info, err := os.Stat(p.disk.path(bundlePath(n, 0)))
		if err != nil {
			return 0, 0, fmt.Errorf("audit: %w", err)
		}
		if maxBytes -= info.Size(); maxBytes <= 0 {
			to = min(n+1, last)
		}
	}
	return from, max(from, to), nil
}
