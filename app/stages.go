package app

import (
	"context"
	"time"

	"github.com/memproxy/memproxy/group"
)

// The stages of stopping, first to last.
const (
	// stageListeners: nothing is accepted any more, and what is in flight is
	// finished; what is not by the end of the drain is cut off and waited for.
	stageListeners = iota
	// stageSending: approved writes and rollbacks that are being sent are
	// noted; those that take longer are cut off, and the next process asks the
	// backend what became of them.
	stageSending
	// stageLoops: everything that goes on in the background has returned.
	stageLoops
	// stageProxies: what outlives its request (settling runs, asking what
	// became of writes) has returned, and connections to backends are closed.
	stageProxies
	// stageLater: what callers did not wait for is done.
	stageLater
	// stageNotes: what is known only now is written down.
	stageNotes
	// stageStores: budgets, ledger and audit log are flushed and closed, the
	// newest first, so that the log, which all others write to, is the last.
	stageStores
	// stageTelemetry: what was measured is sent.
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

// begin begins something in the background, as group.Group.Go does.
type begin = func(name string, f func(context.Context))

// unowned begins work that is not waited for: a command's, which ends with its process.
func unowned(ctx context.Context) begin {
	return func(_ string, f func(context.Context)) { go f(ctx) }
}

// Close stops everything. ctx bounds how long requests in flight may take. Once
// it has returned, nothing of the process runs, or the error says what does.
func (s *state) Close(ctx context.Context) error { return s.group.Close(ctx) }

// abort closes what an assembly that failed had opened.
func (s *state) abort() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = s.Close(ctx) // the error that led here is the one to show
}
