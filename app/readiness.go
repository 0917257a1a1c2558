package app

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/proxy"
)

// Times of readiness.
const (
	// answerTime is how long a store may take to answer, and so the longest that
	// /readyz takes. A kubelet gives a probe a second.
	answerTime = 750 * time.Millisecond
	// answerFresh is how long an answer holds: however often /readyz is asked,
	// stores are asked as often.
	answerFresh = time.Second
)

// A probe asks a store whether it answers.
type probe struct {
	name string
	// needed reports that little can be served without the store; without any other
	// the sidecar is degraded.
	needed bool
	// well is the detail of a store that answers.
	well func() string
	ask  func(context.Context) error
}

// asked is the state of a probe.
type asked struct {
	probe
	mu    sync.Mutex
	since time.Time     // when the question that is under way was asked
	done  chan struct{} // closed when it is answered; nil: none is under way
	at    time.Time     // of the last answer
	err   error
}

// readiness asks the stores, each on its own and for as long as within says. One
// that hangs is asked once, until it answers: /readyz neither waits for it again
// nor piles questions up.
type readiness struct {
	begin  begin
	within time.Duration
	clock  func() time.Time
	stores []*asked
}

func (r *readiness) add(p probe) { r.stores = append(r.stores, &asked{probe: p}) }

// checks are the stores', in their order.
func (r *readiness) checks() []proxy.Check {
	late, cancel := context.WithTimeout(context.Background(), r.within)
	defer cancel()
	waits := make([]<-chan struct{}, len(r.stores))
	for i, s := range r.stores {
		waits[i] = s.question(r)
	}
	for i, s := range r.stores {
		if waits[i] == nil {
			continue
		}
		s.mu.Lock()
		left := r.within - r.clock().Sub(s.since)
		s.mu.Unlock()
		if left <= 0 { // its time was over before this request
			continue
		}
		select {
		case <-waits[i]:
		case <-late.Done():
		}
	}
	out := make([]proxy.Check, len(r.stores))
	for i, s := range r.stores {
		out[i] = s.check(r)
	}
	return out
}

// question starts a probe, unless one is under way or was answered recently. It
// returns the channel that is closed with the answer, nil if there is a recent one.
func (s *asked) question(r *readiness) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done != nil {
		return s.done
	}
	if !s.at.IsZero() && r.clock().Sub(s.at) < answerFresh {
		return nil
	}
	done := make(chan struct{})
	s.done, s.since = done, r.clock()
	r.begin("probe "+s.name, func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, r.within)
		defer cancel()
		err := s.ask(ctx)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.at, s.err, s.done = r.clock(), err, nil
		close(done)
	})
	return done
}

func (s *asked) check(r *readiness) proxy.Check {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := proxy.Check{Name: s.name, OK: true}
	err := s.err
	if s.done != nil {
		err = fmt.Errorf("it does not answer: asked %v ago", r.clock().Sub(s.since).Round(time.Millisecond))
	} else if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("it does not answer within %v", r.within)
	}
	switch {
	case err == nil:
		c.Detail = s.well()
	case s.needed:
		c.OK, c.Detail = false, err.Error()
	default:
		c.Degraded, c.Detail = true, err.Error()
	}
	return c
}

// watchStores has readiness ask the stores that requests depend on; openBudget adds its own.
func (s *state) watchStores() {
	s.stores = &readiness{begin: s.group.Go, within: s.opt.within(answerTime), clock: time.Now} // deadlines are real, whatever clock is injected
	kind := "a file"
	if s.cfg.Ledger.URL.Reveal() != "" {
		kind = "Postgres"
	}
	s.stores.add(probe{name: "audit", needed: true, well: func() string { return fmt.Sprintf("%d records", s.audit.Size()) }, ask: s.auditAnswers})
	s.stores.add(probe{name: "ledger", needed: true, well: func() string { return kind }, ask: s.ledger.Ping})
	s.stores.add(probe{name: "review", well: func() string { return "the queue can be read" }, ask: func(ctx context.Context) error {
		_, err := s.ledger.Holds.List(ctx, memproxy.HoldFilter{State: memproxy.HoldPending, Limit: 1})
		return err
	}})
}

// auditAnswers returns an error if the log is broken, or queued records do not
// reach the disk.
func (s *state) auditAnswers(ctx context.Context) error {
	if err := s.audit.Healthy(); err != nil {
		return err
	}
	if s.audit.Lag().Queued == 0 {
		return nil
	}
	return s.audit.Flush(ctx)
}
