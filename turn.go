package memproxy

import "errors"

// ErrUngated says that a backend cannot be made to pause before an agent's
// tools write.
var ErrUngated = errors.New("the agent's own memory writes cannot be ruled on before they happen")

// Edits follow the changes that admitted calls make to an agent's memory.
type Edits interface {
	// Prepare returns a side request that has to be made before the calls run,
	// or after them; Prepared takes its answer. An agent that cannot be made to
	// pause is ErrUngated.
	Prepare() (Request, bool)
	Prepared(Reply) error

	// Whole takes the answer of the request in which the calls run, if it was not
	// streamed.
	Whole(body []byte) error

	// Made returns the changes of the last request's calls, once Prepare has no
	// more requests; without the preparation they are unknown. Each change is a
	// memory with its event in Event (ADD, UPDATE; "": a passage) and the whole
	// text before in Before. If members other than the text changed, a separate
	// memory with the event NONE has the new Members and the old ones in Was.
	Made() []Edit
}

// A ToolRun is a tool call that a request makes in an agent's place.
type ToolRun interface {
	Edits
	// Makes adds to the operation, as decoded from the request, what the call would
	// make of the memory that Prepare asked for.
	Makes(*Operation)
}

// Edit is the changes of one call.
type Edit struct {
	Call     string // its id; "" of a request that is the call
	Memories []Memory
}

// A Turn is one run of an agent, over as many requests to the backend
// as its gated tool calls need: the backend pauses before each of them. It is
// not for concurrent use.
//
// Prepare and Prepared are called until Prepare reports false, before the first
// request and after each, and then Made. If a person is Asked, Rule is called for
// each call that is refused whatever the person answers, and Handed until it reports
// no more. While the turn is Paused, or if it has not begun, Rule is called for each
// waiting call, then Next, and Whole or Event with the answer, until a request does
// not end in a pause.
type Turn interface {
	Edits
	// Key identifies the agent's run. Turns of one key are sequential.
	Key() string
	// Agent is the agent that runs, once it is known, else "". Its tools must
	// not change from then on until the turn is over.
	Agent() string

	// Next returns the body of the next request.
	Next() ([]byte, error)

	// Event takes one server-sent event of an answer that streams, and returns the
	// events to pass on now.
	Event(event []byte) ([][]byte, error)

	// Paused reports whether the request ended in a pause that needs a further
	// request, whether or not a call in it waits for a ruling.
	Paused() bool

	// Asked are the calls of the pause that a rule of the agent submits to a
	// person. The caller has not seen them yet: Handed applies the decisions of
	// Rule, and returns what the caller sees of the pause, event by event if it
	// streams. A refused call is answered like any other, and the person is not
	// asked about it.
	Asked() []ToolCall
	Handed() (events [][]byte, more bool, err error)

	// Waiting are the calls that wait for a ruling. Rule takes it; Result takes the
	// result of an admitted search, as filtered by the read path.
	Waiting() []ToolCall
	Rule(id string, d Decision)
	Result(id string, found Reply)

	// Answer is the whole answer for the caller; Tail are the last events of
	// one that streamed.
	Answer() ([]byte, error)
	Tail() [][]byte
}

// A Resumable is a Turn that the backend can replay later: each request is a
// separate run there, where callers know of one.
type Resumable interface {
	Turn
	// Runs are the ids of the requests' runs so far. The first is the caller's.
	Runs() []string
	// Names are the names, other than its runs, by which callers may request the
	// stream. None if the backend does not store it.
	Names() []string
	// Seq is the number of the backend's latest event, and whether that event has
	// the number itself: the last few of a stream have none.
	Seq() (n int64, said bool)
}

// ToolWords are the texts in the arguments of a tool call, or in its result.
type ToolWords struct {
	// Call is the call's id; "" where the request itself was the call.
	Call  string
	Texts []string
	// Unclear is set if the arguments, or their call, could not be read whole.
	Unclear bool
}

// A Listener observes what an agent says to tools and what they return, in the
// answers or the events of one run, in order. It is not for concurrent use.
type Listener interface {
	// Hear returns the calls that are complete, and the results, of an answer or of
	// one event. It returns none of what cannot be read.
	Hear(body []byte) (calls, results []ToolWords)
}

// A Resumption asks for a stream again.
type Resumption struct {
	// Names are the names by which it is requested, the most specific first.
	Names []string
	// Within, if set, is another name that it must go by: where the caller was
	// found to be at home.
	Within string
	// After is the number of the last event that the caller has.
	After int64
	// Anywhere is set where the backend goes by a name of its callers' making
	// alone, wherever the run with such a stream took place.
	Anywhere bool
	// Starts is set where a run begins if there is no such stream.
	Starts bool
	// Active is set where the backend knows a turn by this name only while it lasts.
	Active bool
}

// A ToolCall is a tool call of a running agent that waits for a ruling.
type ToolCall struct {
	ID, Tool string
	// Arguments are as the model wrote them; their hash is recorded.
	Arguments []byte
	// Left reports that an earlier turn made the call and broke off: its caller may have
	// been another one, with less authority.
	Left bool
	// Operation is the effect of the call; nil if Flaw is set.
	Operation *Operation
	Flaw      *Malformed
	// Direct is the client request that is equivalent to a call that writes,
	// without reserved members, for a call that is held and approved later, or
	// admitted with changes; else nil.
	Direct *SideRequest
	// Search is the request by which a call that only reads is made from
	// outside, so that its answer passes the read path; else nil.
	Search *SideRequest
}

// SideRequest is a request to the backend that no client made, with its body.
type SideRequest struct {
	Request Request
	Body    []byte
}

// A Watch compares what agents remember before and after a run that cannot be
// paused. It is not for concurrent use.
//
// A look at the memory is: Look, then Ask and Answered until Ask reports false.
// Later looks are compared with the first one.
type Watch interface {
	// Look begins a look.
	Look()
	// Ask returns the next side request of a look; Answered takes its answer. A run
	// whose changes cannot be determined is ErrUngated.
	Ask() (Request, bool)
	Answered(Reply) error

	// Agents are those whose memory the run may change, sorted, as of the last
	// look; before the first, as far as the request names them.
	Agents() []string
	// Background reports whether the run only begins when it is answered.
	Background() bool
	// Picture is the state that changes are compared with, for Rewatch. It contains
	// memories.
	Picture() ([]byte, error)

	// Busy are the requests for the agents' runs under way; Runs reports whether an
	// answer to one of them contains any.
	Busy() []Request
	Runs(Reply) (bool, error)

	// Changes are the differences between the first look and the last, without
	// those that were accepted. Cut reports whether there was more than one
	// look can take in.
	Changes() []Change
	Cut() bool
	// Accept adds a change to the state that later looks are compared with.
	Accept(key string)
}

// A Change is one difference in what agents remember.
type Change struct {
	// Key is the same for the same difference, however often it is found.
	Key string
	// Call is the difference as the tool call that it may have been.
	Call ToolCall
	// Undo are the requests that take it back, in order.
	Undo []SideRequest
	// Memories are the changed memories, as they are recorded once the change is
	// admitted: with the whole text before in Before.
	Memories []Memory
	// Before and After are the hashes of the two texts, hex, or "" for none.
	Before, After string
	// Stamp is the provenance found next to the new text, unverified, or nil.
	Stamp *Stamp
}
