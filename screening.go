package memproxy

// Screening is what a screener is asked about: an operation and whose it is.
type Screening struct {
	Principal Principal
	// Session is the caller's session, from a header, the run or "".
	Session string
	// Decision is the id under which the operation is ruled on.
	Decision  string
	Operation *Operation
	// Reading is set for what a backend answered: it was written earlier, and
	// by somebody else.
	Reading bool
}
