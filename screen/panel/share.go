package panel

import (
	"context"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/memproxy/memproxy"
)

const shareWait = 10 * time.Second // bounds how long a screening waits for others of its caller

// errBusy: the texts are not screened in time. Those that were are known the next time.
var errBusy = &memproxy.Malformed{
	Code: memproxy.LimitInFlight, Status: http.StatusServiceUnavailable,
	Detail: "too many texts of this caller are being screened; try again",
}

// shares bound how many screenings of one caller compute at once. A caller waits
// for its own screenings and for no other caller's.
type shares struct {
	most int

	mu      sync.Mutex
	callers map[string]*share
}

type share struct {
	places *semaphore.Weighted
	users  int // that have a place or wait for one
}

// enter waits for a place of a caller and returns what gives it back. Malformed:
// there was none in time. Nil shares bound nothing.
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
		return nil, errBusy
	}
	return func() { own.places.Release(1); forget() }, nil
}

func (s *share) wait(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, shareWait)
	defer cancel()
	return s.places.Acquire(ctx, 1)
}
