package memproxy

import "errors"

// A store's refusals of a call that it understood. Compare with errors.Is.
var (
	// ErrUnknown: there is no such thing.
	ErrUnknown = errors.New("unknown")
	// ErrState: the thing is in a state in which that cannot be done.
	ErrState = errors.New("not in this state")
	// ErrForged: a hold's row is not as it was approved. It waits for review again.
	ErrForged = errors.New("the row is not as it was approved, and waits for review again")
	// ErrOwnReview: authors do not review their own.
	ErrOwnReview = errors.New("authors do not review their own")
	// ErrGone: the content was destroyed, or given up for newer ones.
	ErrGone = errors.New("the content is gone")
	// ErrRefused: an argument that no store could take.
	ErrRefused = errors.New("refused")
	// ErrStale: a row that an entry was based on has changed; see Entry.Seen.
	ErrStale = errors.New("changed meanwhile")
)
