package app

import (
	"context"
	"time"

	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/envoy/extproc"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/group"
	"github.com/memproxy/memproxy/integrity"
	"github.com/memproxy/memproxy/ledger"
	"github.com/memproxy/memproxy/review"
	"github.com/memproxy/memproxy/telemetry/audit"
	"github.com/memproxy/memproxy/upkeep"
)

// Process is the inside of a process, for tests of the whole.
type Process struct {
	// A test sets these before the start. The zero values are the product's.
	SendTimeout time.Duration        // timeout for sending approved writes and rollbacks
	Uptime      func() time.Duration // how long the process has been running; the default counts from New
	Pace        integrity.Pace       // pace of reading backends

	// The start sets these.
	Ledger  *ledger.Ledger
	Audit   *audit.Log
	Budget  gate.Budget
	Gate    *gate.Gate
	Checker *integrity.Checker
	Runner  *review.Runner
	Jobs    *upkeep.Jobs
	Group   *group.Group
	// Take puts an edit of the configuration in force.
	Take func(context.Context, *config.Config) error
	// Processor builds Envoy's processor, and ListenExtproc serves one.
	Processor     func(unfilteredReads bool) (*extproc.Processor, error)
	ListenExtproc func(address string, authorize bool) error
}

// NewProcess is New with what a test sets of the inside, which it fills in.
func NewProcess(ctx context.Context, cfg *config.Config, o Options, in *Process) (*App, error) {
	o.sending, o.up, o.pace = in.SendTimeout, in.Uptime, in.Pace
	s, err := New(ctx, cfg, o)
	if err != nil {
		return nil, err
	}
	in.Ledger, in.Audit, in.Budget, in.Gate, in.Checker, in.Runner, in.Jobs, in.Group = s.ledger, s.audit, s.budget, s.gate, s.checker, s.review.Runner, s.jobs, s.group
	in.Take, in.Processor = s.edits.apply, s.processor
	in.ListenExtproc = func(address string, authorize bool) error {
		return s.listenExtproc(Envoy{Listen: address, Authorize: authorize})
	}
	return s, nil
}
