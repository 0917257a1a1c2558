package memproxy

// Memory is one memory as a backend returns it.
type Memory struct {
	// Pointer is the JSON pointer of the element in the answer.
	Pointer string
	// Kind is the kind of object that ID names; empty means a memory.
	Kind  TargetKind
	ID    string
	Text  string
	Scope Scope
	// Field is the governed field that the memory is (a Letta block's label),
	// or "".
	Field string
	// Filed are further governed fields that it is filed under.
	Filed []string
	// Limit is how many characters the memory may hold; 0 if that is unknown.
	Limit int
	// Within are the parents of the memory, if the answer names them: the agent of
	// a message, the conversation of a run. A memory without a record belongs to
	// the tenant of its parents.
	Within []Ref
	// Metadata is the memory's metadata as raw JSON, or nil.
	Metadata []byte
	// Members are the object's members that a change may set, other than Text, as
	// encoded by Members; nil if the adapter was not asked for one object.
	Members []byte
	// Was are the Members before a change of an agent's own, where it is known.
	Was []byte
	// Stamp is the provenance found in the metadata, unverified, or nil.
	Stamp *Stamp
	// Memo is shared by all answers that show the memory in the same bytes; nil
	// where the adapter does not recognise them.
	Memo *Memo
	// Layer is Episodic for the raw messages of a conversation; "" is semantic.
	Layer Layer
	// Inferred is set if the backend reports that no user stated the memory.
	Inferred bool
	// Event is what happened to the memory if the answer reports an event (ADD,
	// UPDATE, DELETE, NONE), or "".
	Event string
	// Before is the text that an update replaced, if the answer has it.
	Before string
	// Unreadable is set if the element is not an object, or its owner cannot be
	// read.
	Unreadable bool
	// Bare leaves Before out of the answer.
	Bare bool
	// Also are further texts that the element shows, not the memory's as it is:
	// those of a history entry. They are screened and no more.
	Also []string
	// Annotations are texts next to the memory's: of metadata, of who said it. They are
	// screened, too.
	Annotations []string
	// Missing is set if the backend does not have it; Unproven, if the backend
	// cannot be asked.
	Missing, Unproven bool
	// TextAt is the JSON pointer of Text if that is one string of the answer.
	TextAt string
	// Mutable is set where the backend's own agents change the text, so that it
	// need not be the one that last went through memproxy.
	Mutable bool
	// Drop is set by the gate: the adapter removes the element. Show, if set,
	// replaces Text.
	Drop bool
	Show *string
	// Compiled is set for content that the backend derives from memories: the
	// prompt of an agent among its messages.
	Compiled bool
	// Common is set for what the backend provides to everybody, such as its own
	// tools: it has no owner, and everybody may see it.
	Common bool
	// Holder is set for an object that holds memories, each of which is judged by
	// itself: an agent with its blocks.
	Holder bool
	// Uncounted is set for what budgets do not count as a memory, such as an agent
	// or a folder.
	Uncounted bool
	// Told, if set, is the provenance shown to the reader, under ProvenanceKey in
	// the memory's metadata.
	Told *Provenance
}

// A Made is an object that came to be with a write, and the agent that it belongs to
// if the request does not name it.
type Made struct{ ID, Agent string }

// Reading is what an adapter found in an answer.
type Reading struct {
	Memories []Memory
	// Events are ids of asynchronous writes that the answer names.
	Events []string
	// Made are further objects that a write made or returned: the caller becomes their
	// owner unless they have one.
	Made []Made
	// Derived are the texts of an answer made of many memories as a whole.
	Derived []string
	// Relations are the relations in the answer, derived from memories that it does
	// not name. Unrelated removes them.
	Relations []string
	Unrelated bool
	// Mixed is set if the backend counted, or may have counted, memories of others:
	// its totals are removed, and a list counts its shown elements.
	Mixed bool
	// Limited is set if the caller may see only some of an owner's memories: the number
	// that an owner is said to have is removed.
	Limited bool
	// Links are pointers of absolute URLs that would lead past the proxy.
	Links []string
	// Settles is set where the answer to a write names every memory that it
	// made: the write is then charged for those and no others.
	Settles bool
	// Traces is set if the answer may show what memproxy itself did in the backend,
	// which Rewrite then removes.
	Traces bool
}

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
