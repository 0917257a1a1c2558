package memproxy

// Pruned is an answer, or one event of a stream, without the members that no row claims.
type Pruned struct {
	// Body is the remaining body: the body itself if every member has a claim.
	Body []byte
	// Unclaimed is how many members and elements were left out.
	Unclaimed int
	// Names are where some of them were, as patterns: /results/-/name. A name
	// that does not look like one is "?".
	Names []string
	// Unreadable is how many elements of lists were left out because they cannot
	// be read, and Readable the body without these alone; nil where there are
	// none.
	Unreadable int
	Readable   []byte
	// Type is the media type of the body where that is another than it was.
	Type string
}

// StreamEnd is how a streamed answer ended. Only a complete one ends regularly for
// the client: for every other the connection is aborted, or the stream ends with an
// error event.
type StreamEnd string

// The ends of streams, as audit records have them.
const (
	StreamWhole    StreamEnd = ""            // it is complete, or was not streamed
	StreamTorn     StreamEnd = "torn"        // the backend broke off, or sent invalid data
	StreamSilent   StreamEnd = "silent"      // the backend sent nothing for too long
	StreamTooLarge StreamEnd = "too_large"   // one event is over the limit
	StreamNoRoom   StreamEnd = "no_room"     // too many bytes were in flight to hold an event
	StreamStopped  StreamEnd = "stopped"     // memproxy was stopped
	StreamGone     StreamEnd = "client_gone" // the client hung up, or read nothing for too long
	StreamReset    StreamEnd = "reset"       // Envoy reset it, for an unknown reason
)

// Cancelled reports whether the client may be the one that ended it.
func (e StreamEnd) Cancelled() bool { return e == StreamGone || e == StreamReset }

// A Refill fills up a list from which memories were removed, with further ones. It
// is not for concurrent use.
//
// Next is called until it reports false; Take and Add are called with the answer to
// each request, and Answer at the end.
type Refill interface {
	// Next returns the next side request. False: the list is full, or there is
	// no more.
	Next() (SideRequest, bool)
	// Take takes an answer with its marked reading, and marks as Drop what is in
	// the list already or exceeds it.
	Take(Reply, *Reading) error
	// Add appends the rest of the answer, as returned by Rewrite.
	Add(kept []byte) error
	// Answer returns the answer with the additions.
	Answer(Reply) (Reply, error)
}

// The HTTP statuses of refusals (RFC 9110). They are constants of this package because
// the gate, which chooses them, does not depend on net/http.
const (
	StatusBadRequest   = 400
	StatusUnauthorized = 401
	StatusForbidden    = 403
	StatusNotFound     = 404
	StatusTooLarge     = 413
	StatusUnprocessed  = 422
	StatusTooMany      = 429
	StatusBadGateway   = 502
	StatusUnavailable  = 503
)
