package panel

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/keyed"
)

const shareWait = 10 * time.Second // the longest wait for other screenings of the same caller

// errBusy is returned if the texts cannot be screened in time. The results so far are
// cached for a retry.
var errBusy = &memproxy.Flaw{
	Code: memproxy.LimitInFlight, Status: http.StatusServiceUnavailable,
	Detail: "too many texts of this caller are being screened; try again",
}

// errGone is returned if the caller hung up before its turn to be screened.
var errGone = &memproxy.Flaw{
	Code: memproxy.PayloadIncomplete, Status: http.StatusBadRequest,
	Detail: "the client disconnected before its texts were screened",
}

// shares bounds the concurrent screenings of each caller. A caller waits for its own
// screenings only.
type shares struct {
	most    int
	callers keyed.Queue
}

// enter takes a slot of the caller and returns the function that releases it. It returns
// errBusy if there is none in time, and errGone if the caller hangs up first. Nil shares do not limit anything.
func (s *shares) enter(ctx context.Context, caller string) (leave func(), err error) {
	if s == nil {
		return func() {}, nil
	}
	if ctx.Err() == nil {
		ticket := s.callers.Enter(1, int64(s.most), caller)
		if ticket.WaitAtMost(ctx, shareWait) == nil {
			return ticket.Leave, nil
		}
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return nil, errGone
	}
	return nil, errBusy
}
