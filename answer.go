package memproxy

import (
	"bytes"
	"slices"
	"time"
)

// Member is a member of metadata: its name, and its value as raw JSON.
type Member struct {
	Name  string
	Value []byte
}

// What happened to a memory (Memory.Event).
const (
	MemoryAdded     = "ADD"
	MemoryUpdated   = "UPDATE"
	MemoryDeleted   = "DELETE"
	MemoryUnchanged = "NONE" // its text is unchanged
)

// Memory is one memory as a backend returns it.
type Memory struct {
	// Pointer is the JSON pointer of the element in the answer.
	Pointer string
	// Copies are the pointers at which the answer repeats the element.
	Copies []string
	// Kind is the kind of object that ID names; empty means a memory.
	Kind  TargetKind
	ID    string
	Text  string
	Scope Scope
	// Field is the governed field that holds the memory (a Letta block's label), or "".
	Field string
	// OtherFields are the governed fields of the memory other than Field.
	OtherFields []string
	// Limit is the maximum length of the memory in characters; 0 if unknown.
	Limit int
	// Parents are the parents of the memory, if the answer names them: the agent of
	// a message, the conversation of a run. A memory without a record belongs to
	// the tenant of its parents.
	Parents []Ref
	// Metadata is the memory's metadata as raw JSON, or nil.
	Metadata []byte
	// Members are the members of the object that a change may set, other than Text,
	// encoded by EncodeMembers. It is nil unless the adapter was asked for exactly
	// one object.
	Members []byte
	// PreviousMembers is Members before an agent's own edit, where it is known.
	PreviousMembers []byte
	// Stamp is the provenance found in the metadata, unverified, or nil.
	Stamp *Stamp
	// Altered is set if a member of the metadata was changed or removed since Stamp was
	// written.
	Altered bool
	// Unstamped is set if the backend stores stamps in the metadata, and the element's
	// metadata has none.
	Unstamped bool
	// Memo is shared by all answers that show the memory with identical bytes. It is nil
	// if the adapter does not recognise repeated bytes.
	Memo *Memo
	// Layer is Episodic for the raw messages of a conversation; "" is semantic.
	Layer Layer
	// Inferred is set if the backend reports that a model inferred the memory and no user
	// stated it.
	Inferred bool
	// Event is what happened to the memory if the answer reports an event, such as
	// MemoryAdded, or "".
	Event string
	// Before is the text that an update replaced, if the answer has it.
	Before string
	// Unreadable is set if the element is not an object, or if its owner cannot be read.
	Unreadable bool
	// OmitBefore tells the adapter to omit Before from the answer.
	OmitBefore bool
	// OtherTexts are further texts that the element shows but that are not the memory's
	// present text, such as those of a history entry. They are only screened.
	OtherTexts []string
	// Annotations are texts next to the memory's text, such as metadata and the name of
	// the speaker. They are screened, too.
	Annotations []string
	// ClaimsProvenance is set if the metadata has ProvenanceKey, which no write through
	// memproxy stores.
	ClaimsProvenance bool
	// Missing is set if the backend does not have the memory. Unproven is set if that is
	// unknown because the backend cannot be asked.
	Missing, Unproven bool
	// TextAt is the JSON pointer of Text, if Text is exactly one string of the answer.
	TextAt string
	// Mutable is set if the backend's own agents change the text, so that a text other
	// than the last one that passed through memproxy is legitimate.
	Mutable bool
	// Drop and Show are set by the gate: Drop removes the element from the answer, and
	// Show, if not nil, replaces Text.
	Drop bool
	Show *string
	// Compiled is set for content that the backend derives from memories, such as an
	// agent's system prompt among its messages.
	Compiled bool
	// BuiltIn is set for what the backend provides to every caller, such as its built-in
	// tools. It has no owner, and every caller may see it.
	BuiltIn bool
	// IsContainer is set for an object that contains memories, such as an agent or a group
	// with its blocks. Each of these memories is judged separately.
	IsContainer bool
	// Uncounted is set for objects that budgets do not count as a memory, such as an
	// agent or a folder.
	Uncounted bool
	// ShowProvenance, if not nil, is the provenance to show to the reader, under
	// ProvenanceKey in the memory's metadata.
	ShowProvenance *Provenance
}

// CreatedObject is an object that a write created. Agent is the agent that it belongs to,
// if the request does not name it.
type CreatedObject struct{ ID, Agent string }

// Reading is what an adapter found in an answer.
type Reading struct {
	Memories []Memory
	// Events are ids of asynchronous writes that the answer names.
	Events []string
	// Created are further objects that a write created or returned. The caller becomes the
	// owner of those without an owner.
	Created []CreatedObject
	// Derived are texts of the answer that the backend derived from several memories.
	Derived []string
	// Made, if not nil, is when the backend computed the stored Derived texts: they show
	// the memories of that time. It is the zero time if that is unknown.
	Made *time.Time
	// Relations are the relations in the answer. They are derived from memories that the
	// answer does not name. Unrelated tells Rewrite to remove them.
	Relations []string
	Unrelated bool
	// CountsOthers is set if the backend counted, or may have counted, memories of other
	// tenants. Rewrite then removes its totals, and the count of a list becomes the number of
	// elements shown.
	CountsOthers bool
	// Limited is set if the backend may have counted memories of owners that the caller may
	// not name. Rewrite then removes its totals and the number of memories of each owner.
	Limited bool
	// Links are JSON pointers of absolute URLs that would lead the client around the
	// proxy.
	Links []string
	// Settles is set if the answer to a write names every memory that it created, so that
	// the write is charged for exactly these.
	Settles bool
	// Failed is set if the answer says that the call failed, whatever its status.
	Failed bool
	// ShowsOwnActions is set if the answer may show memproxy's own actions in the backend.
	// Rewrite then removes them.
	ShowsOwnActions bool
}

// Pruned is an answer, or one event of a stream, without the members that have no claim
// in the adapter's table.
type Pruned struct {
	// Body is the remaining body. It is the original body if every member has a claim.
	Body []byte
	// Unclaimed is the number of members and elements that were removed.
	Unclaimed int
	// Names are the positions of some of the removed members, as patterns such as
	// /results/-/name. A member whose name does not look like an identifier is "?".
	Names []string
	// Unreadable is the number of list elements that were removed because they cannot be
	// read. Readable is the body without these elements only; nil if there are none.
	Unreadable int
	Readable   []byte
	// Type is the media type of the new body, if it differs from that of the original.
	Type string
	// Parsed is the parsed Body, in a form that only the adapter knows, for the reply that
	// the later filters read. It is nil if the body was changed.
	Parsed any
}

// StreamEnd is how a streamed answer ended. The client sees a regular end only for
// StreamWhole. For every other end memproxy aborts the connection, or ends the stream
// with an error event.
type StreamEnd string

// The ends of streams, as recorded in the audit log.
const (
	StreamWhole    StreamEnd = ""            // complete, or there was no answer
	StreamTorn     StreamEnd = "torn"        // the backend closed the connection early, or sent invalid data
	StreamSilent   StreamEnd = "silent"      // the backend was idle for too long
	StreamTooLarge StreamEnd = "too_large"   // one event exceeds the limit
	StreamNoRoom   StreamEnd = "no_room"     // no room to buffer an event: too many bytes in flight
	StreamStopped  StreamEnd = "stopped"     // memproxy was stopped
	StreamGone     StreamEnd = "client_gone" // the client disconnected, or did not read for too long
	StreamReset    StreamEnd = "reset"       // Envoy reset the stream for an unknown reason
)

// Cancelled reports whether the client may have ended the stream.
func (e StreamEnd) Cancelled() bool { return e == StreamGone || e == StreamReset }

// SplitStreamEvent splits a server-sent event (WHATWG HTML, section 9.2.6) into its data, nil
// if it has none, and its other lines: its name, its id and comments. A line ends with a line
// feed, a carriage return, or both. The slices share the event's memory.
func SplitStreamEvent(event []byte) (data []byte, others [][]byte) {
	for line := range bytes.FieldsFuncSeq(event, isLineEnd) {
		value, isData := bytes.CutPrefix(line, []byte("data"))
		switch {
		case !isData || len(value) > 0 && value[0] != ':':
			others = append(others, line)
			continue
		case data != nil:
			data = append(data, '\n')
		}
		value = bytes.TrimPrefix(bytes.TrimPrefix(value, []byte(":")), []byte(" "))
		if data == nil {
			data = value[:len(value):len(value)]
		} else {
			data = append(data, value...)
		}
	}
	return data, others
}

// HasEventName reports whether an event with these lines has a name.
func HasEventName(lines [][]byte) bool {
	for _, line := range slices.Backward(lines) {
		if name, ok := bytes.CutPrefix(line, []byte("event:")); ok {
			return len(bytes.TrimSpace(name)) > 0
		}
	}
	return false
}

// JoinStreamEvent returns a server-sent event of other lines and data, or nil if there are
// neither. Each line of the data becomes one of the event.
func JoinStreamEvent(data []byte, others ...[]byte) (event []byte) {
	for _, line := range others {
		event = append(append(event, line...), '\n')
	}
	for line := range bytes.FieldsFuncSeq(data, isLineEnd) {
		event = append(append(append(event, "data: "...), line...), '\n')
	}
	if event != nil {
		event = append(event, '\n')
	}
	return event
}

func isLineEnd(r rune) bool { return r == '\r' || r == '\n' }

// Refill fills up a list from which memories were removed with further memories. It is
// not for concurrent use.
//
// The caller calls Next until it reports false, passes the answer to each request to
// Select, and calls Answer at the end.
type Refill interface {
	// Next returns the next side request. It reports false if the list is full or the
	// backend has no more.
	Next() (SideRequest, bool)
	// Select takes an answer and its judged reading. It sets Drop on memories that the list
	// has already or that exceed its size.
	Select(Reply, *Reading) error
	// Answer returns the original answer with the memories in the rewritten answers.
	Answer(original Reply, rewritten [][]byte) (Reply, error)
}

// The HTTP statuses of refusals (RFC 9110). They are constants of this package because
// the gate, which chooses them, does not depend on net/http.
const (
	StatusBadRequest     = 400
	StatusUnauthorized   = 401
	StatusForbidden      = 403
	StatusNotFound       = 404
	StatusRequestTimeout = 408
	StatusTooLarge       = 413
	StatusUnprocessed    = 422
	StatusTooMany        = 429
	StatusBadGateway     = 502
	StatusUnavailable    = 503
)

// IsSuccess reports whether a status says that a request succeeded (RFC 9110, section 15.3).
func IsSuccess(status int) bool { return status >= 200 && status <= 299 }
