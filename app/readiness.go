package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/proxy"
)

// Timing of readiness checks.
const (
	// answerTime is how long a store may take to answer, and therefore the longest that
	// /readyz takes. A kubelet gives a probe one second by default.
	answerTime = 750 * time.Millisecond
	// answerFresh is how long an answer is cached, so that frequent requests to /readyz
	// do not load the stores.
	answerFresh = time.Second
)

// probe checks whether a store answers.
type probe struct {
	name string
	// needed is set if hardly any request can be served without the store. A failure of
	// any other store makes the sidecar degraded.
	needed bool
	// okDetail returns the detail for a store that answers; "" leaves the check out.
	okDetail func() string
	ask      func(context.Context) error
}

// storeCheck is the state of a probe.
type storeCheck struct {
	probe
	mu    sync.Mutex
	since time.Time       // when the check in progress began; zero if none is in progress
	over  <-chan struct{} // closed when the last check has ended or its time is over
	at    time.Time       // when the last check ended
	err   error
	from  time.Time // when the first of the checks that failed in a row ended
}

// readiness checks the stores concurrently, each for at most within. A store that hangs
// has one check in progress until it answers: /readyz does not wait for it again and does
// not start another.
type readiness struct {
	begin  begin
	within time.Duration
	clock  func() time.Time
	stores []*storeCheck
}

func (r *readiness) add(p probe) { r.stores = append(r.stores, &storeCheck{probe: p}) }

// checks returns the checks of the stores, in their order.
func (r *readiness) checks() (out []proxy.Check) {
	waits := make([]<-chan struct{}, len(r.stores))
	for i, s := range r.stores {
		waits[i] = s.start(r)
	}
	for i, s := range r.stores {
		<-waits[i]
		if c := s.check(r); c.Detail != "" {
			out = append(out, c)
		}
	}
	return out
}

// start starts the check of a probe, unless one is in progress or there is a recent
// answer. It returns a channel that is closed when the check has ended or its time is over.
func (s *storeCheck) start(r *readiness) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.since.IsZero() || !s.at.IsZero() && r.clock().Sub(s.at) < answerFresh {
		return s.over
	}
	ctx, cancel := context.WithTimeout(context.Background(), r.within)
	s.since, s.over = r.clock(), ctx.Done()
	r.begin("probe "+s.name, func(stop context.Context) {
		defer cancel()
		defer context.AfterFunc(stop, cancel)()
		err := s.ask(ctx)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.since, s.at = (time.Time{}), r.clock()
		if s.err == nil {
			s.from = s.at
		}
		s.err = err
	})
	return s.over
}

func (s *storeCheck) check(r *readiness) proxy.Check {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := proxy.Check{Name: s.name, OK: true}
	err := s.err
	if !s.since.IsZero() {
		err = fmt.Errorf("no response for %v", r.clock().Sub(s.since).Round(time.Millisecond))
	} else if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("no response within %v", r.within)
	}
	if err == nil {
		c.Detail = s.okDetail()
		return c
	}
	c.OK, c.Degraded = !s.needed, !s.needed
	c.Detail = strings.ReplaceAll(err.Error(), "\n", "; ") // joined errors, in one line
	if s.err != nil {
		c.Detail += ", since " + s.from.UTC().Format(time.RFC3339)
	}
	return c
}

// watchStores adds the stores and backends that requests depend on to the readiness;
// openBudget adds its own.
func (s *state) watchStores() {
	s.stores = &readiness{begin: s.group.Go, within: s.opt.within(answerTime), clock: time.Now} // timeouts are in real time, even with an injected clock
	kind := "a file"
	if s.cfg.Ledger.URL.Reveal() != "" {
		kind = "Postgres"
	}
	s.stores.add(probe{name: "audit", needed: true, okDetail: func() string { return fmt.Sprintf("%d records", s.audit.Size()) }, ask: s.auditAnswers})
	if s.logGone != "" {
		s.stores.add(probe{name: "audit log", ask: func(context.Context) error { return errors.New(s.logGone) }})
	}
	s.stores.add(probe{name: "ledger", needed: true, okDetail: func() string { return kind }, ask: s.ledger.Ping})
	s.stores.add(probe{name: "review", okDetail: func() string { return "the queue can be read" }, ask: func(ctx context.Context) error {
		_, err := s.ledger.Holds.List(ctx, memproxy.HoldFilter{State: memproxy.HoldPending, Limit: 1})
		return err
	}})
	for _, b := range s.cfg.Backends {
		if s.opt.Transport == nil { // otherwise its address means nothing
			s.stores.add(probe{name: "backend:" + b.Name, okDetail: func() string { return "accepts connections" }, ask: func(ctx context.Context) error { return connects(ctx, b.Upstream) }})
		}
	}
}

// connects opens a connection to the host of a URL and closes it again.
func connects(ctx context.Context, to string) error {
	u, err := url.Parse(to)
	if err != nil {
		return err
	}
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), config.PortOf(u)))
	if err != nil {
		return err
	}
	return c.Close()
}

// auditAnswers returns an error if the log is broken, or if queued records do not reach
// the disk.
func (s *state) auditAnswers(ctx context.Context) error {
	if err := s.audit.Healthy(); err != nil {
		return err
	}
	if s.audit.Lag().Queued == 0 {
		return nil
	}
	return s.audit.Flush(ctx)
}
