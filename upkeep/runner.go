package upkeep

import (
	"context"
	"time"
)

// runner runs the rounds of one job.
type runner struct {
	Job
	opt      *Options
	requests chan roundRequest
	ended    chan struct{}

	// The fields below belong to the goroutine of run.
	again    <-chan time.Time // fires before the next regular round; nil if none is scheduled
	stop     func()           // stops the timer of again
	failures int              // consecutive failures
	failed   string           // text of the last error, so that an error is logged once
}

// roundRequest is a request for a round; its caller waits for the result.
type roundRequest struct {
	now  time.Time
	done chan<- error
}

func (r *runner) ask(ctx context.Context, now time.Time) error {
	done := make(chan error, 1)
	select {
	case r.requests <- roundRequest{now, done}:
	case <-r.ended:
		return ErrEnded
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run runs rounds until ctx ends.
func (r *runner) run(ctx context.Context) {
	defer close(r.ended)
	defer func() { r.retry(0) }()
	var tick <-chan time.Time
	if r.Every > 0 {
		var stop func()
		tick, stop = r.opt.Ticker(r.Every)
		defer stop()
	}
	for ctx.Err() == nil {
		var by roundRequest
		select {
		case <-ctx.Done():
			return
		case <-tick:
		case <-r.again:
		case <-r.Wake:
		case by = <-r.requests:
		}
		select {
		case <-r.Wake: // this round is for it
		default:
		}
		if by.done == nil {
			by.now = r.opt.Clock()
		}
		err := ctx.Err()
		if err == nil {
			err = r.round(ctx, by.now)
		}
		if by.done != nil {
			by.done <- err
		}
	}
}

// round runs one round and schedules the next.
func (r *runner) round(ctx context.Context, now time.Time) error {
	err := r.Once(ctx, now)
	if due, is := err.(Due); is || err == nil { // a failure joined with Due is a failure
		in := due.In
		if is {
			in = max(in, time.Millisecond)
		}
		r.retry(in)
		r.failures, r.failed = 0, ""
		return nil
	}
	if ctx.Err() != nil {
		return err
	}
	longest := r.Every
	if longest == 0 {
		longest = longestRetry
	}
	r.retry(min(firstRetry<<min(r.failures, 20), longest))
	r.failures++
	if text := err.Error(); text != r.failed {
		r.failed = text
		r.opt.Log.ErrorContext(ctx, "work in the background failed; it is tried again", "job", r.Name, "error", err)
	}
	return err
}

// retry schedules a round before the next tick instead of the scheduled one. Zero cancels.
func (r *runner) retry(in time.Duration) {
	if r.stop != nil {
		r.stop()
		r.again, r.stop = nil, nil
	}
	if in > 0 && (r.Every == 0 || in < r.Every) { // otherwise the regular round is no later
		r.again, r.stop = r.opt.Ticker(in)
	}
}
