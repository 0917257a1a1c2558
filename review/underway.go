package review

import (
	"context"
	"errors"
	"sync"
	"time"
)

// errStopping: memproxy stops. What was approved is sent by the next process.
var errStopping = errors.New("review: memproxy stops")

// underway are sendings that nobody who hangs up stops. The end of the process
// does: it waits for them, cuts them off when its time is over, and closes the
// store only once they have noted what came of them.
type underway struct {
	life context.Context
	cut  context.CancelCauseFunc

	mu      sync.Mutex
	closing bool
	all     sync.WaitGroup
}

func newUnderway() *underway {
	u := &underway{}
	u.life, u.cut = context.WithCancelCause(context.Background())
	return u
}

// begin returns a context for one sending, which ends after most or when
// sendings are cut off, and the function that ends the sending. It reports
// false once the end has begun.
func (u *underway) begin(ctx context.Context, most time.Duration) (context.Context, func(), bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closing {
		return nil, nil, false
	}
	u.all.Add(1)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), most)
	kept := context.AfterFunc(u.life, cancel)
	return ctx, func() { kept(); cancel(); u.all.Done() }, true
}

// sever ends all sendings now.
func (u *underway) sever() {
	u.mu.Lock()
	u.closing = true
	u.mu.Unlock()
	u.cut(errStopping)
}

// cutOff is for what notes the outcome of sendings that were cut off.
const cutOff = time.Second

// close waits for the sendings until shortly before ctx ends, cuts off what is
// left, and waits until that is noted.
func (u *underway) close(ctx context.Context) error {
	u.mu.Lock()
	u.closing = true
	u.mu.Unlock()
	done := make(chan struct{})
	go func() { u.all.Wait(); close(done) }()
	soon, cancel := context.WithCancel(ctx)
	if end, ok := ctx.Deadline(); ok {
		cancel()
		soon, cancel = context.WithDeadline(ctx, end.Add(-cutOff))
	}
	defer cancel()
	select {
	case <-done:
		u.cut(errStopping)
		return nil
	case <-soon.Done():
		u.cut(errStopping)
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return errors.New("sendings have not noted what came of them")
	}
}
