package memproxy

import "errors"

// What a store says of a call that it understood and did not do. Compare with
// errors.Is.
var (
	// ErrUnknown: there is no such thing.
	ErrUnknown = errors.New("unknown")
	// ErrState: the thing is in a state in which that cannot be done.
	ErrState = errors.New("not in this state")
	// ErrOwnReview: authors do not review their own.
	ErrOwnReview = errors.New("authors do not review their own")
	// ErrGone: the content was destroyed, or given up for newer ones.
	ErrGone = errors.New("the content is gone")
	// ErrRefused: an argument that no store could take.
	ErrRefused = errors.New("refused")
	// ErrStale: what an entry was made over is not there any more; see Entry.Seen.
	ErrStale = errors.New("changed meanwhile")
)
