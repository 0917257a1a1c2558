package review

import (
	"context"
	"errors"
	"time"

	"github.com/memproxy/memproxy"
)

// HoldStore stores held writes. Package ledger implements it and the other stores. A
// refusal is memproxy.ErrUnknown, ErrState, ErrOwnReview, ErrGone or ErrRefused; any
// other error is a failure.
type HoldStore interface {
	Get(ctx context.Context, id string) (memproxy.HeldWrite, error)
	List(context.Context, memproxy.HoldFilter) (memproxy.HoldPage, error)
	Each(context.Context, memproxy.HoldFilter, func(memproxy.HeldWrite) error) error
	Content(ctx context.Context, id string) (memproxy.HeldWrite, memproxy.HoldContent, error)
	Approve(ctx context.Context, id string, r memproxy.Review) (memproxy.VoteResult, error)
	Reject(ctx context.Context, id string, r memproxy.Review) error
	ReviewGroup(ctx context.Context, tenant *string, similarity string, before time.Time, expect int, approve bool, r memproxy.Review) (memproxy.ReviewedGroup, error)
	Shred(ctx context.Context, id string, r memproxy.Review) error
	Claim(ctx context.Context, id string, lease time.Duration) (memproxy.Replay, error)
	EndClaim(ctx context.Context, id, token string, to memproxy.HoldState, r memproxy.HoldResult) error
	ExpiredClaims(context.Context) ([]memproxy.HeldWrite, error)
	Resolve(ctx context.Context, id string, to memproxy.HoldState, r memproxy.HoldResult) (memproxy.HoldState, error)
}

// MemoryStore stores the status and the history of memories.
type MemoryStore interface {
	History(ctx context.Context, k memproxy.MemoryKey, before int64, limit int) ([]memproxy.Version, error)
	Version(ctx context.Context, k memproxy.MemoryKey, number int64) (memproxy.Version, error)
	Commit(context.Context, memproxy.Entry) error
	Lookup(context.Context, ...memproxy.MemoryKey) (memproxy.Records, error)
	Corrections(context.Context, memproxy.MemoryKey) ([]memproxy.Correction, error)
	Dissents(ctx context.Context, k memproxy.MemoryKey, text bool) ([]memproxy.Dissent, error)
	VerifyMemory(context.Context, memproxy.MemoryKey) (memproxy.ChainReport, error)
	Pin(ctx context.Context, k memproxy.MemoryKey, number int64, pinned bool, r memproxy.Review) error
	Promote(ctx context.Context, k memproxy.MemoryKey, r memproxy.Review) (memproxy.VoteResult, error)
}

// SessionStore stores the records of sessions.
type SessionStore interface {
	Get(ctx context.Context, tenant *string, id string) (memproxy.Session, error)
	List(context.Context, memproxy.SessionFilter) (memproxy.SessionPage, error)
	Unlock(ctx context.Context, tenant, id string, r memproxy.Review) error
}

// ErrNotSent means that no part of an approved write has reached the backend so far.
var ErrNotSent = errors.New("nothing was sent")

// Backend is memproxy's own access to a backend.
type Backend interface {
	// Replay sends an approved write. The verdict that held it no longer applies; all
	// other checks do.
	Replay(context.Context, memproxy.HeldWrite, memproxy.HoldContent) memproxy.SendResult
	// FindWrite returns the ids of the memories that a write made, by its decision id. known
	// is false if the backend cannot tell.
	FindWrite(context.Context, memproxy.HeldWrite, memproxy.HoldContent) (ids []string, known bool, err error)
	// LockMemory waits until no change of a memory is under way, and keeps others waiting
	// until leave is called.
	LockMemory(context.Context, memproxy.MemoryKey) (leave func(), err error)
	// CurrentMemory reads a memory from the backend. A deleted one has Missing set.
	CurrentMemory(context.Context, memproxy.MemoryKey) (memproxy.Memory, error)
	// Restore restores a version of a memory, with its text. now is the result of
	// CurrentMemory.
	Restore(ctx context.Context, to memproxy.Version, now memproxy.Memory, decision, reviewer string) memproxy.SendResult
}

// Recorder writes events to the audit log; Record returns once the event is durable.
type Recorder interface {
	Record(context.Context, memproxy.Event) error
}
