package memproxy

import "errors"

// Errors with which a store refuses a call that it understood. Compare them with
// errors.Is.
var (
	// ErrUnknown: the object does not exist.
	ErrUnknown = errors.New("unknown")
	// ErrState: the object is in a state that does not allow the change.
	ErrState = errors.New("not in this state")
	// ErrForged: the stored hold differs from what was approved. It waits for review
	// again.
	ErrForged = errors.New("the row is not as it was approved, and waits for review again")
	// ErrOwnReview: an author may not review its own writes.
	ErrOwnReview = errors.New("authors do not review their own")
	// ErrGone: the content was destroyed, or deleted because newer versions exist.
	ErrGone = errors.New("the content is gone")
	// ErrRefused: an argument is invalid for every store.
	ErrRefused = errors.New("refused")
	// ErrStale: a row that an entry is based on has changed since it was read; see
	// Entry.ExpectedOwners.
	ErrStale = errors.New("changed meanwhile")
)
