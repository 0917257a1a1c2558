package memproxy

import "errors"

// ErrUngated means that the backend cannot be made to pause before an agent's tools
// write.
var ErrUngated = errors.New("the agent's own memory writes cannot be checked before they are executed")

// ErrNotStored means that the backend has not stored its own pause yet. It refused the
// request that answers the pause before it ran anything.
var ErrNotStored = errors.New("the backend has not stored its pause yet")

// SideRequests are the requests that an adapter needs to know what an agent's memory holds.
type SideRequests interface {
	// NextSideRequest returns the next request, if there is one; ReadSideReply takes its
	// answer. The error is ErrUngated for an agent that cannot be made to pause, or a run
	// whose changes cannot be determined.
	NextSideRequest() (Request, bool)
	ReadSideReply(Reply) error
}

// Edits determines the changes that admitted calls make to an agent's memory. There are side
// requests before the calls and after them.
type Edits interface {
	SideRequests

	// ReadAnswer takes the answer of the request in which the calls run, if it was not
	// streamed. After an error the changes of a ToolRun are read back.
	ReadAnswer(body []byte) error

	// TakeEdits returns the changes of the last request's calls, once NextSideRequest has no
	// more requests; without the preparation they are unknown. Each change is a memory with
	// the event in Event (ADD, UPDATE; "" is a passage) and the whole previous text in
	// Before. If members other than the text changed, a separate memory with the event
	// NONE has the new members in Members and the old ones in PreviousMembers.
	TakeEdits() []Edit
}

// ToolRun is a tool call that a client's request makes in place of an agent.
type ToolRun interface {
	Edits
	// Current returns the blocks that the call would change, by the names that targets have.
	Current() map[string]Memory
	// AddContent adds to the operation, as decoded from the request, the content that the
	// call would write, computed from the memory that the side requests fetched.
	AddContent(*Operation)
}

// Edit is the set of changes of one tool call.
type Edit struct {
	Call     string // id of the call; "" if the request itself is the call
	Memories []Memory
}

// Turn is one run of an agent, with as many requests to the backend as its gated tool
// calls need: the backend pauses before each of them. It is not for concurrent use.
//
// The caller calls NextSideRequest and ReadSideReply until NextSideRequest reports false,
// before the first request and after each request, and then TakeEdits. If there are
// ApprovalCalls, the caller passes each refused one to Rule, whatever the person will
// answer, and calls ReleasePause until it reports no more. While the turn is Paused or has
// not begun, the caller calls Rule for each of the PendingCalls, then Next, then ReadAnswer
// or Event with the answer, until a request does not end in a pause.
type Turn interface {
	Edits
	// Key identifies the agent's run. Turns with the same key run one after another.
	Key() string
	// Agent returns the id of the running agent, or "" until it is known. From then on
	// its tools must not change until the turn is over.
	Agent() string

	// Next returns the body of the next request.
	Next() []byte

	// Event takes one server-sent event of a streamed answer, and returns the events to
	// forward now. If the error is ErrNotStored, the same body may be sent again, in place of
	// these events.
	Event(event []byte) ([][]byte, error)

	// Paused reports whether the request ended in a pause that needs another request,
	// whether or not one of the calls waits for a ruling.
	Paused() bool

	// ApprovalCalls returns the calls of the pause for which a rule of the agent requires a
	// person's approval. The caller has not seen them yet. ReleasePause applies the
	// decisions of Rule and returns what the caller sees of the pause, event by event if
	// the answer is streamed. A refused call is answered like any other call, and no person
	// is asked about it.
	ApprovalCalls() []ToolCall
	ReleasePause() (events [][]byte, more bool)

	// PendingCalls returns the calls that wait for a ruling. Rule takes the ruling; Result
	// takes the result of an admitted search, as filtered by the read path.
	PendingCalls() []ToolCall
	Rule(id string, d Decision)
	Result(id string, found Reply)

	// Answer returns the whole answer for the caller; Tail returns the last events of a
	// streamed one.
	Answer() []byte
	Tail() [][]byte

	// Runs returns the ids of the turn's runs so far: each of its requests is a separate
	// run in the backend. The first is the one that the caller knows.
	Runs() []string
	// Names returns the names, other than its runs, by which callers may request the
	// stream; none if the backend does not store it.
	Names() []string
	// Seq returns the number of the backend's latest event, and whether that event
	// carries the number: the last events of a stream have none.
	Seq() (n int64, said bool)
	// Cancel ends the turn as one whose run was cancelled: no request follows, and Answer or
	// Tail return what the backend sends for such a run. It returns the request that cancels
	// the latest run, which may have paused.
	Cancel() SideRequest
}

// ToolTexts are the texts in the arguments of a tool call, or in its result.
type ToolTexts struct {
	// Call is the id of the call; "" if the request itself is the call.
	Call  string
	Texts []string
	// Unclear is set if the arguments, or the call, could not be read completely.
	Unclear bool
}

// ToolObserver observes the arguments that an agent passes to tools and what the tools
// return, in the answers or the events of one run, in order. It is not for concurrent
// use.
type ToolObserver interface {
	// Observe returns the complete calls and the results of an answer or of one event. It
	// omits whatever it cannot read.
	Observe(body []byte) (calls, results []ToolTexts)
}

// Resumption is a request for a stream that began earlier.
type Resumption struct {
	// Names are the names by which it is requested, the most specific first.
	Names []string
	// Within, if set, is a further name that the stream must match: it was verified to
	// belong to the caller.
	Within string
	// After is the number of the last event that the caller has.
	After int64
	// Anywhere is set if the backend looks up the stream only by a name that callers
	// choose, regardless of the agent or conversation of the run.
	Anywhere bool
	// Starts is set if the backend begins a new run when there is no such stream.
	Starts bool
	// Active is set if the backend knows a turn by this name only while the turn is
	// running.
	Active bool
}

// A ToolCall is a tool call of a running agent that waits for a ruling.
type ToolCall struct {
	ID, Tool string
	// Arguments are the bytes that the model wrote; their hash is recorded.
	Arguments []byte
	// FromEarlierTurn reports that an interrupted earlier turn made the call. Its caller
	// may have been a different one, with less authority.
	FromEarlierTurn bool
	// Operation is the effect of the call; nil if Flaw is set.
	Operation *Operation
	Flaw      *Flaw
	// Direct is the client request that is equivalent to a writing call, without reserved
	// members; nil if there is none. It is sent for a call that is held and approved
	// later, or admitted with changes.
	Direct *SideRequest
	// ReadRequest is the request that memproxy makes for a call that only reads, so that the
	// answer passes through the read path; nil if there is none.
	ReadRequest *SideRequest
}

// SideRequest is a request of memproxy's own to the backend, with its body.
type SideRequest struct {
	Request Request
	Body    []byte
}

// RunDiff compares what agents remember before and after a run that cannot be paused. It is
// not for concurrent use.
//
// To take a snapshot of the memory call StartSnapshot, then NextSideRequest and
// ReadSideReply until NextSideRequest reports false. Later snapshots are compared with the
// first one.
type RunDiff interface {
	// StartSnapshot begins a snapshot, which is complete when there is no side request left.
	StartSnapshot()
	SideRequests

	// Agents returns the agents whose memory the run may change, sorted, as of the last
	// snapshot; before the first, those that the request names.
	Agents() []string
	// Background reports whether the run continues after its request is answered.
	Background() bool
	// MarshalBaseline returns the state with which changes are compared, for
	// Compensator.RestoreRunDiff. It contains memories.
	MarshalBaseline() ([]byte, error)

	// ActiveRunRequests returns the requests that list the agents' running runs. HasActiveRun
	// reports whether an answer to one of them contains any.
	ActiveRunRequests() []Request
	HasActiveRun(Reply) (bool, error)

	// Changes returns the differences between the first snapshot and the last. Truncated
	// reports whether an agent has more new memories than one snapshot can hold.
	Changes() []Change
	Truncated() bool
}

// Change is one difference in what agents remember.
type Change struct {
	// Key identifies the difference. It is the same each time the difference is found.
	Key string
	// Call is the tool call that may have made the difference.
	Call ToolCall
	// Undo are the requests that undo it, in order.
	Undo []SideRequest
	// Memories are the changed memories, to be recorded once the change is admitted, with
	// the whole previous text in Before.
	Memories []Memory
	// Before and After are the hex hashes of the two texts; "" for none.
	Before, After string
	// Stamp is the provenance found next to the new text, unverified, or nil.
	Stamp *Stamp
}
