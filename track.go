package memproxy

import "time"

// NewUntil says how long a principal is new: until so many of its memories were
// let out of review, or it has been known for so long, whichever is first.
type NewUntil struct {
	Accepted int64
	Age      time.Duration
}

// New reports whether an author is new. One of whom nothing is known is.
func (n NewUntil) New(t Track, now time.Time) bool {
	if t.Since.IsZero() {
		return t.Facts == 0
	}
	return t.Accepted < n.Accepted && now.Sub(t.Since) < n.Age
}

// Earning says what makes an authenticated author an established one.
type Earning struct {
	// Facts are the validated memories that it takes; zero is never. What was
	// refused, waits for review, or nobody has looked at yet earns nothing.
	Facts int64
	// Age is how long the author must have been known.
	Age time.Duration
	// Corrected is the highest share of them that others may have corrected.
	Corrected PerMille
}

// Earned reports whether a record is good enough.
func (e Earning) Earned(t Track, now time.Time) bool {
	return e.Facts > 0 && t.Validated >= e.Facts && (t.Since.IsZero() || now.Sub(t.Since) >= e.Age) &&
		t.Corrections*int64(Full) <= t.Validated*int64(e.Corrected)
}
