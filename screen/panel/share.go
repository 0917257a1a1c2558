package panel

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/memproxy/memproxy"
)

const shareWait = 10 * time.Second // the longest wait for other screenings of the same caller

// errBusy is returned if the texts cannot be screened in time. The results so far are
// cached for a retry.
var errBusy = &memproxy.Malformed{
	Code: memproxy.LimitInFlight, Status: http.StatusServiceUnavailable,
	Detail: "too many texts of this caller are being screened; try again",
}

// errGone is returned if the caller hung up before its turn to be screened.
var errGone = &memproxy.Malformed{
	Code: memproxy.PayloadIncomplete, Status: http.StatusBadRequest,
	Detail: "the client disconnected before its texts were screened",
}

// shares bounds the concurrent screenings of each caller (a semaphore per caller). A
// caller waits for its own screenings only.
type shares struct {
	most int

	mu      sync.Mutex
	callers map[string]*share
}

type share struct {
	places *semaphore.Weighted
	users  int // holders and waiters; the entry is deleted at 0
}

// enter takes a slot of the caller and returns the function that releases it. It returns
// errBusy if there is none in time, and errGone if the caller hangs up first. Nil shares do not limit anything.
func (s *shares) enter(ctx context.Context, caller string) (leave func(), err error) {
	if s == nil {
		return func() {}, nil
	}
	s.mu.Lock()
	own := s.callers[caller]
	if own == nil {
		if s.callers == nil {
			s.callers = map[string]*share{}
		}
		own = &share{places: semaphore.NewWeighted(int64(s.most))}
		s.callers[caller] = own
	}
	own.users++
	s.mu.Unlock()
	forget := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if own.users--; own.users == 0 {
			delete(s.callers, caller)
		}
	}
	if ctx.Err() != nil || !own.places.TryAcquire(1) && own.wait(ctx) != nil {
		forget()
		if errors.Is(ctx.Err(), context.Canceled) {
			return nil, errGone
		}
		return nil, errBusy
	}
	return func() { own.places.Release(1); forget() }, nil
}

func (s *share) wait(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, shareWait)
	defer cancel()
	return s.places.Acquire(ctx, 1)
}
