package memproxy

import "errors"

// Errors with which a store refuses a call that it understood. Compare them with
// errors.Is.
var (
	// ErrUnknown: the object does not exist.
	ErrUnknown = errors.New("unknown")
	// ErrState: the object is in a state that does not allow the change.
	ErrState = errors.New("not allowed in the current state")
	// ErrForged: the stored hold differs from the write that was held, or from what was
	// approved. It is not sent.
	ErrForged = errors.New("the stored hold was changed outside of memproxy")
	// ErrOwnReview: an author may not review its own writes.
	ErrOwnReview = errors.New("an author may not review its own writes")
	// ErrGone: the content was destroyed, or deleted because newer versions exist.
	ErrGone = errors.New("the content no longer exists")
	// ErrRefused: an argument is invalid for every store.
	ErrRefused = errors.New("refused")
	// ErrStale: a row that an entry is based on has changed since it was read; see
	// Entry.ExpectedOwners.
	ErrStale = errors.New("changed meanwhile")
	// ErrKept: an entry is kept in memory and is written when the store can be written
	// again. It is lost if the process ends before.
	ErrKept = errors.New("kept in memory until the ledger can be written")
)
