package memproxy

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
	// Memories are what the difference made, as it is kept once it is let in:
	// with the whole text before in Before.
	Memories []Memory
	// Before and After are the hashes of the two texts, hex, or "" for none.
	Before, After string
	// Stamp is the provenance found beside the new text, unverified, or nil.
	Stamp *Stamp
}
