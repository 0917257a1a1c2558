package memproxy

import "errors"

// ErrUngated says that a backend cannot be made to pause before an agent's
// tools write.
var ErrUngated = errors.New("the agent's own memory writes cannot be ruled on before they happen")

// Edits follow what calls that were let through make of an agent's memory.
type Edits interface {
	// Prepare returns a side request that has to be made before the calls run,
	// or after them; Prepared takes its answer. An agent that cannot be made to
	// pause is ErrUngated.
	Prepare() (Request, bool)
	Prepared(Reply) error

	// Whole takes the answer of the request in which the calls run, when it came
	// in one piece.
	Whole(body []byte) error

	// Made says what the calls of the last request made, once Prepare asks for
	// no more; what was not prepared is not known. Each change is a memory with
	// what happened to it in Event (ADD, UPDATE; "": a passage) and the whole text
	// before in Before. Where other members than the text changed,
	// Members are what it became and Was what it had been, of a memory of its own
	// with the event NONE.
	Made() []Edit
}

// Edit is what one call made of memories.
type Edit struct {
	Call     string // its id; "" of a request that is the call
	Memories []Memory
}

// A Turn is one run of an agent, over as many requests to the backend
// as its gated tool calls need: the backend pauses before each of them. It is
// not for concurrent use.
//
// Prepare and Prepared are called until Prepare reports false, before the first
// request and after each, and then Made. Where a person is Asked, Rule for
// each call that is refused whatever the person says, and Handed until it reports
// no more. Where the turn is Paused still, or has not begun: Rule for each call
// that waits, Next, and Whole or Event with what came back, until one does not
// end in a pause.
type Turn interface {
	Edits
	// Key names what runs. Turns of one key take place one after the other.
	Key() string
	// Agent is the agent that runs, once it is known, else "". Its tools must
	// not change from then on until the turn is over.
	Agent() string

	// Next returns the body of the next request.
	Next() ([]byte, error)

	// Event takes one server-sent event of an answer that streams, and returns the
	// events to pass on now.
	Event(event []byte) ([][]byte, error)

	// Paused reports whether the request ended in a pause that a further request is to
	// answer, whether or not something in it waits for a ruling.
	Paused() bool

	// Asked are the calls of the pause that a person is to be asked about by a
	// rule of the agent's own. The caller has not been told of them: Handed
	// takes what Rule has said of them, and returns what the caller sees of the
	// pause, event by event where it streams. What was refused is answered like
	// any refused call, and is no question any more.
	Asked() []ToolCall
	Handed() (events [][]byte, more bool, err error)

	// Waiting are the calls that wait for a ruling. Rule takes it; Result takes
	// what an allowed search found, as it passed the read path.
	Waiting() []ToolCall
	Rule(id string, d Decision)
	Result(id string, found Reply)

	// Answer is the whole answer for the caller; Tail are the last events of
	// one that streamed.
	Answer() ([]byte, error)
	Tail() [][]byte
}

// A Resumable is a Turn of which the backend tells again later: it gives each
// request a run of its own, where callers know of one.
type Resumable interface {
	Turn
	// Runs are the ids of the requests' runs so far. The first is the caller's.
	Runs() []string
	// Names are what callers may ask for the stream by, besides its runs. None
	// when the backend would not keep it.
	Names() []string
	// Seq is the number that the backend's events have come to, and whether the
	// last one said it itself: the last few of a stream have none.
	Seq() (n int64, said bool)
}

// ToolWords are what was said to a tool in the arguments of a call, or what the
// tool said.
type ToolWords struct {
	// Call is the call's id; "" where the request itself was the call.
	Call  string
	Texts []string
	// Unclear is set of arguments of which an answer has a part only.
	Unclear bool
}

// A Listener hears what an agent says to tools and what they say, in the answers
// or the events of one run, in their order. It is not for concurrent use.
type Listener interface {
	// Hear are the calls of which all is known by now, and the results, of an
	// answer or of one event. Of what cannot be read there are none.
	Hear(body []byte) (calls, results []ToolWords)
}

// A Resumption asks for a stream again.
type Resumption struct {
	// Names are what it is asked for by, the surest first.
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
}

// A ToolCall is a tool call of a running agent that waits for a ruling.
type ToolCall struct {
	ID, Tool string
	// Arguments are as the model wrote them; their hash is recorded.
	Arguments []byte
	// Operation is what the call would do; nil when Flaw is set.
	Operation *Operation
	Flaw      *Malformed
	// Direct is the request by which a call that writes can be made from
	// outside, without what is reserved: should it be held and approved later,
	// or let through with changes; else nil.
	Direct *Search
	// Search is the request by which a call that only reads is made from
	// outside, so that its answer passes the read path; else nil.
	Search *Search
}

// Search is a request with its body.
type Search struct {
	Request Request
	Body    []byte
}

// A Watch compares what agents remember before and after a run that cannot be
// made to pause. It is not for concurrent use.
//
// A look at the memory is: Look, then Ask and Answered until Ask reports
// false. The first look is what later ones are compared with.
type Watch interface {
	// Look begins a look.
	Look()
	// Ask returns the next side request of a look; Answered takes its answer.
	// A run of which nobody can say what it changes is ErrUngated.
	Ask() (Request, bool)
	Answered(Reply) error

	// Agents are those whose memory the run may change, sorted, as the last
	// look found them; before the first, as far as the request names them.
	Agents() []string
	// Background reports whether the run only begins when it is answered.
	Background() bool
	// Picture is what changes are compared with, as Rewatch takes it. It holds
	// memories.
	Picture() ([]byte, error)

	// Busy are requests for the runs of the agents that are under way; Runs
	// reports whether an answer to one of them tells of any.
	Busy() []Request
	Runs(Reply) (bool, error)

	// Changes are the differences between the first look and the last, without
	// those that were accepted. Cut reports whether there was more than one
	// look can take in.
	Changes() []Change
	Cut() bool
	// Accept makes a change part of what later looks are compared with.
	Accept(key string)
}

// A Change is one difference in what agents remember.
type Change struct {
	// Key is the same for the same difference, however often it is found.
	Key string
	// Call is the difference as the tool call that it may have been.
	Call ToolCall
	// Undo are the requests that take it back, in order.
	Undo []Search
	// Memories are what the difference made, as it is kept once it is admitted:
	// with the whole text before in Before.
	Memories []Memory
	// Before and After are the hashes of the two texts, hex, or "" for none.
	Before, After string
	// Stamp is the provenance found next to the new text, unverified, or nil.
	Stamp *Stamp
}
