// Package gatetest has what tests of the gate and of its callers share.
package gatetest

import (
	"context"
	"time"

	"github.com/memproxy/memproxy"
)

// NoLedger is a gate.Ledger that stores nothing. Its methods return zero values; Bind
// returns its rows as if it had inserted them. Fakes embed it.
type NoLedger struct{}

func (NoLedger) Lookup(context.Context, ...memproxy.MemoryKey) (memproxy.Records, error) {
	return memproxy.Records{}, nil
}
func (NoLedger) Decision(context.Context, string, string) (memproxy.Ownership, bool, error) {
	return memproxy.Ownership{}, false, nil
}
func (NoLedger) Commit(context.Context, memproxy.Entry) error { return nil }
func (NoLedger) Bind(_ context.Context, rows ...memproxy.Ownership) ([]memproxy.Ownership, error) {
	return rows, nil
}
func (NoLedger) DeleteScope(context.Context, string, memproxy.Scope, *memproxy.Version) (memproxy.ScopeDeletion, error) {
	return memproxy.ScopeDeletion{}, nil
}
func (NoLedger) ListStatuses(context.Context, memproxy.StatusFilter) ([]memproxy.Status, error) {
	return nil, nil
}
func (NoLedger) History(context.Context, memproxy.MemoryKey, int64, int) ([]memproxy.Version, error) {
	return nil, nil
}
func (NoLedger) SessionLocked(context.Context, string, ...string) (memproxy.Lock, error) {
	return memproxy.Lock{}, nil
}
func (NoLedger) NoteSession(context.Context, memproxy.SessionEvent, ...string) ([]memproxy.Session, error) {
	return nil, nil
}
func (NoLedger) Corrections(context.Context, memproxy.MemoryKey) ([]memproxy.Correction, error) {
	return nil, nil
}
func (NoLedger) Track(context.Context, string, string) (memproxy.Track, error) {
	return memproxy.Track{}, nil
}
func (NoLedger) Retraction(context.Context, string, string, []string, time.Time) (memproxy.Retraction, bool, error) {
	return memproxy.Retraction{}, false, nil
}
