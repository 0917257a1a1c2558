package app

import (
	"context"
	"time"

	"github.com/memproxy/memproxy/group"
)

// The stages of stopping, first to last.
const (
	// stageListeners: nothing is accepted any more, and requests in flight are
	// finished; those that remain at the end of the drain are cut off and waited
	// for.
	stageListeners = iota
	// stageSending: the results of approved writes and rollbacks under way are
	// recorded; those that take longer are cut off, and the next process asks the
	// backend for their outcome.
	stageSending
	// stageLoops: all background work has returned.
	stageLoops
	// stageProxies: work that outlives its request (settling runs, polling for the
	// outcome of writes) has returned, and connections to backends are closed.
	stageProxies
	// stageLater: work that callers did not wait for is done.
	stageLater
	// stageNotes: what is known only at the end is recorded.
	stageNotes
	// stageStores: budgets, ledger and audit log are flushed and closed, the
	// newest first, so that the log, which all others write to, is the last.
	stageStores
	// stageTelemetry: pending metrics and traces are sent.
	stageTelemetry
)

// stages are those of the process. Together they stay within the 30 s that
// Kubernetes gives by default.
var stages = []group.Stage{
	stageListeners: {Name: "listeners", Time: group.DrainTime + group.CutTime, Drain: true},
	stageSending:   {Name: "sending", Time: 3 * time.Second},
	stageLoops:     {Name: "loops", Time: 2 * time.Second},
	stageProxies:   {Name: "proxies", Time: 2 * time.Second},
	stageLater:     {Name: "later", Time: 2 * time.Second},
	stageNotes:     {Name: "notes", Time: time.Second},
	stageStores:    {Name: "stores", Time: 3 * time.Second},
	stageTelemetry: {Name: "telemetry", Time: time.Second},
}

// begin starts background work, as group.Group.Go does.
type begin = func(name string, f func(context.Context))

// unowned begins work that is not waited for: a command's, which ends with its process.
func unowned(ctx context.Context) begin {
	return func(_ string, f func(context.Context)) { go f(ctx) }
}

// Close stops everything. ctx bounds requests in flight. After it has returned
// nothing of the process runs, or the error says what does.
func (s *state) Close(ctx context.Context) error { return s.group.Close(ctx) }

// abort closes what a failed assembly had opened.
func (s *state) abort() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = s.Close(ctx) // the error that led here is the one to show
}
