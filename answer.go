package memproxy

// Pruned is an answer, or one event of a stream, without the members that no row claims.
type Pruned struct {
	// Body is what is left: the body itself where everything was claimed.
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

// StreamEnd says how an answer ended that was passed on while it came. Only a
// whole one ends like one for the client: every other is torn for it too, or
// ends in an event that says so.
type StreamEnd string

// The ends of streams, as audit records have them.
const (
	StreamWhole    StreamEnd = ""            // it came to its end, or was not passed on while it came
	StreamTorn     StreamEnd = "torn"        // the backend broke off, or sent what cannot be read
	StreamSilent   StreamEnd = "silent"      // the backend sent nothing for too long
	StreamTooLarge StreamEnd = "too_large"   // one event is over the limit
	StreamNoRoom   StreamEnd = "no_room"     // too many bytes were in flight to hold an event
	StreamStopped  StreamEnd = "stopped"     // memproxy was stopped
	StreamGone     StreamEnd = "client_gone" // the client hung up, or took nothing for too long
	StreamReset    StreamEnd = "reset"       // Envoy reset it, and does not say for whom
)

// Cancelled reports whether the client may be the one that ended it.
func (e StreamEnd) Cancelled() bool { return e == StreamGone || e == StreamReset }

// A Refill fills up a list of which memories were left out, by more of it. It
// is not for concurrent use.
//
// Next is called until it reports false; in between Take and Add with what came
// of the request, and in the end Answer.
type Refill interface {
	// Next returns the next side request. False: the list is full, or there is
	// no more.
	Next() (Search, bool)
	// Take takes an answer and what was found and marked in it, and marks Drop
	// what is there already or too much.
	Take(Reply, *Reading) error
	// Add adds what is left of the answer, as Rewrite gave it.
	Add(kept []byte) error
	// Answer returns the list with what was added.
	Answer(body []byte) ([]byte, error)
}
