package gate

import (
	"context"

	"github.com/memproxy/memproxy"
)

// An Adapter translates one backend's wire format. It never decides.
//
// Implementations are pure: no I/O, safe for concurrent use, and deterministic.
type Adapter interface {
	// Name is the wire format's name, "mem0".
	Name() string

	// Route finds the row of the route table that a request belongs to, by
	// method, decoded path and query. Unknown: false. A path spelled to mean
	// two things (an encoded slash that changes the row, dot segments) is
	// unknown, never guessed.
	Route(memproxy.Request) (memproxy.Route, bool)

	// Decode reads a request's payload (body, query, path parameters). An
	// unreadable payload is a *memproxy.Malformed; any other error is
	// breakage. It never returns an operation that leaves content out.
	Decode(memproxy.Route, memproxy.Request, []byte) (*memproxy.Operation, error)

	// Encode returns the body to forward: Hints whose Effective differs from
	// what was claimed are rewritten, Reserved pointers removed, the Stamp put
	// into every metadata home. Unknown fields, order and numbers survive. With
	// nothing to change it returns body itself. The returned query replaces the
	// request's where the route carries its payload there.
	Encode(memproxy.Route, memproxy.Request, []byte, *memproxy.Operation) (body []byte, query string, err error)

	// Refuse words a decision in the backend's own error dialect.
	Refuse(memproxy.Request, memproxy.Decision) memproxy.Reply
}

// A Reader is an Adapter whose reads can be taken apart. Adapters without
// it have their answers passed on as they are.
type Reader interface {
	// Read finds the memories in an answer. An answer that cannot be read is
	// an error; the gate then withholds it.
	Read(memproxy.Route, memproxy.Request, memproxy.Reply) (*memproxy.Reading, error)

	// Rewrite returns the answer without the memories marked Drop, with Links
	// led back to Request.Base, and without fields that Encode had added to
	// the request. With nothing to change it returns the body itself.
	Rewrite(memproxy.Route, memproxy.Request, memproxy.Reply, *memproxy.Reading) ([]byte, error)
}

// A Withholder is an Adapter whose backend shows secrets in ordinary answers.
type Withholder interface {
	// Withhold takes the secrets' values out of an answer that is no
	// administrator's. With none in it, it returns the body itself. An answer
	// that cannot be read is an error.
	Withhold(memproxy.Route, []byte) ([]byte, error)
}

// A Locator is an Adapter that can ask its backend for one memory, so that
// operations by id can be ruled on.
type Locator interface {
	// Locate returns the request that fetches target.
	Locate(route memproxy.Route, req memproxy.Request, target string) memproxy.Request

	// Located reads the answer. A memory that does not exist comes back with
	// Missing set; an answer that says neither is an error.
	Located(route memproxy.Route, target string, reply memproxy.Reply) (memproxy.Memory, error)

	// Merges reports whether the route's patch must be merged with the memory
	// as it is (Operation.Current), so that the gate fetches it even when the
	// owner is known.
	Merges(route memproxy.Route, op *memproxy.Operation) bool
}

// A Holder is an Adapter that can answer for a write that is held: as its
// clients expect it of a write that takes its time.
type Holder interface {
	// Held words the answer to a write that is held. Where the backend's
	// clients take any success for done, there is no honest one: false.
	Held(memproxy.Route, memproxy.Request, *memproxy.Operation, memproxy.Decision) (memproxy.Reply, bool)

	// Polls returns the receipt that a request asks about, or "".
	Polls(memproxy.Route) string

	// Polled words the state of a held write whose receipt was asked about.
	Polled(memproxy.Route, memproxy.Request, memproxy.HeldWrite) memproxy.Reply
}

// A Fetcher sends a side request to the backend on behalf of an admission:
// with the same credentials, with a deadline of its own, bounded in size.
type Fetcher interface {
	Fetch(context.Context, memproxy.Request) (memproxy.Reply, error)
}

// A Sender is a Fetcher whose requests may have a body.
type Sender interface {
	Fetcher
	Send(context.Context, memproxy.Request, []byte) (memproxy.Reply, error)
}

// A Pruner is a Reader that knows every member of its backend's answers.
type Pruner interface {
	Reader
	// Prune returns the answer without what no row claims. An answer that as a
	// whole is not what the route answers with is an error; the gate then
	// withholds it. Errors of the backend are pruned too, and never an error.
	Prune(memproxy.Route, memproxy.Reply) (memproxy.Pruned, error)

	// Structured reports whether a route answers with a document of members, so
	// that its answer has to be read where nothing else asks for that. Pages and
	// files are not. What the adapter does not know is: it is then withheld.
	Structured(memproxy.Route) bool

	// PruneEvent does so with one event of a stream; an empty body leaves the
	// event out.
	PruneEvent(memproxy.Route, []byte) memproxy.Pruned
}

// A Refiller is a Reader that can ask its backend for more of a list of which
// memories were left out.
type Refiller interface {
	Reader
	// Refill returns what fills up an answer, as the request for it was sent
	// and as the reading is marked; nil where nothing is missing, or more of
	// the list cannot be had without showing something twice or never.
	Refill(rt memproxy.Route, sent memproxy.Request, body []byte, reply memproxy.Reply, rd *memproxy.Reading) memproxy.Refill
}

// A Discloser is a Reader whose answers to changes show memories besides those
// that the change made: an agent with all of its blocks, to whom one was
// attached.
type Discloser interface {
	Reader
	// Disclosed finds the memories in the answer to a change. An answer that
	// cannot be read is an error.
	Disclosed(memproxy.Route, memproxy.Request, memproxy.Reply) (*memproxy.Reading, error)
}

// A Namer is an Adapter whose answers name objects by ids that tell what they
// are, so that they can be found whatever member they stand under.
type Namer interface {
	// Names returns every object that an answer names, with its pointer.
	Names(memproxy.Route, memproxy.Reply) ([]memproxy.Ref, error)

	// Without returns the answer's body without what stands at the pointers.
	Without(reply memproxy.Reply, gone []string) ([]byte, error)
}

// A Masker is an Adapter that can write other names in the place of those that
// a read names (Operation.Masked), so that its backend answers as for a name
// that it has never heard.
type Masker interface {
	// Masks reports whether all names of the operation can be replaced.
	Masks(memproxy.Route, *memproxy.Operation) bool
}

// A Carrier is a Reader whose backend shows the stamp of a write with what it
// made of it, so that memories can be told by their write before anybody knows
// their ids. Only such writes are set aside (Rules.NeverRefuse).
type Carrier interface {
	Reader
	// Carries reports whether everything that the write makes bears its stamp,
	// and is shown on routes only that Read takes apart.
	Carries(memproxy.Route, *memproxy.Operation) bool

	// Bare reports whether the answers of a route show texts without their
	// stamps: a history, a receipt.
	Bare(memproxy.Route) bool
}

// A Bringer is an Adapter some of whose operations bring existing memories
// where an agent reads them, without their texts in the payload: a block that
// is attached to another agent.
type Bringer interface {
	// Brings returns those of the operation's targets. What an operation takes
	// away, or replaces, is none of them.
	Brings(memproxy.Route, *memproxy.Operation) []string
}

// An Editor is an Adapter whose backend's agents write their own memory by tools,
// which requests may also run in their place.
type Editor interface {
	// ToolRun follows the tool call that a request makes in an agent's place; nil
	// where it makes none that writes.
	ToolRun(route memproxy.Route, req memproxy.Request, body []byte) memproxy.Edits
}

// An Extractor is a Reader whose backend lets a model of its own decide what a
// write becomes, at once or later behind a receipt.
type Extractor interface {
	Reader
	// Receipt returns the request that asks what came of an asynchronous write.
	Receipt(route memproxy.Route, req memproxy.Request, id string) memproxy.Request

	// Extracted reads the answer: the memories, and whether there will be no
	// more. Nil memories say that the answer tells of none, an empty list that
	// there are none.
	Extracted(memproxy.Reply) (memories []memproxy.Memory, over bool, err error)

	// Undo returns the requests that take back what was made of a memory, and
	// false where the answer does not say enough for it.
	Undo(route memproxy.Route, req memproxy.Request, m memproxy.Memory) ([]memproxy.Search, bool)
}

// A Counter is a Reader whose backend tells after some writes how many memories
// they came to, if it is asked: a document that it takes apart, an agent that is
// made of a file.
type Counter interface {
	Reader
	// Counts returns the requests that ask what came of a write, by the ids that
	// its answer names; none where the answer says it, or nothing would.
	Counts(route memproxy.Route, req memproxy.Request, op *memproxy.Operation, ids []string) []memproxy.Request

	// Counted reads the answer to one of them: the memories that have ids, how
	// many there are besides, and whether there will be no more.
	Counted(memproxy.Reply) (ids []string, more int64, over bool, err error)
}

// A Reworder is an Adapter that can put other texts into a payload.
type Reworder interface {
	// Reword replaces texts by the pointers of their items. What is no text of
	// the payload by itself is an error.
	Reword(rt memproxy.Route, req memproxy.Request, body []byte, texts map[string]string) ([]byte, error)
}

// A Seeker is a Locator that can look for a write by the stamp that it would
// carry.
type Seeker interface {
	Locator
	// Seek returns the request that lists what a write could have made, false
	// where nothing of it would carry a stamp.
	Seek(route memproxy.Route, req memproxy.Request, op *memproxy.Operation) (memproxy.Request, bool)

	// Sought reads the answer: the ids of the memories that carry the decision.
	Sought(reply memproxy.Reply, decision string) ([]string, error)
}

// A Restorer is an Adapter that can put a memory back to what it was. Where a
// backend has several dialects it returns one request for each that knows the
// memory: the first that the backend has counts. None where there is no such
// request.
type Restorer interface {
	// Find returns requests that show a memory as it is.
	Find(memproxy.MemoryKey) []memproxy.Search

	// Found reads the answer to one of them. One that is not there comes back
	// with Missing set.
	Found(memproxy.MemoryKey, memproxy.Reply) (memproxy.Memory, error)

	// Restore returns requests that make a memory what a version of it was.
	// Now is the memory as it is: its other metadata stays, the stamp takes the
	// place of the one that is there.
	Restore(to memproxy.Version, now memproxy.Memory, stamp memproxy.Stamp) []memproxy.Search

	// Remove returns requests that delete a memory.
	Remove(memproxy.MemoryKey) []memproxy.Search
}

// A Mixer is an Adapter whose backend shows fields of its own among a memory's
// metadata in some answers, and next to it in others.
type Mixer interface {
	// Mixed reports whether a name may be such a field's.
	Mixed(name string) bool
}

// An Observer is an Adapter whose answers tell what tools, files and services
// said while an agent ran, besides memories.
type Observer interface {
	// Listen begins to hear a run on a route.
	Listen(memproxy.Route) memproxy.Listener
}

// A Turner is an Adapter whose backend runs agents: on some routes the agent
// calls tools while the request lasts, and some tools write its memory inside
// the backend, where no proxy sees them.
type Turner interface {
	// Turn returns the run that an admitted request starts, or nil when its
	// route runs no agent. A route that runs one and cannot be made to pause
	// is memproxy.ErrUngated.
	Turn(route memproxy.Route, req memproxy.Request, body []byte) (memproxy.Turn, error)

	// Rearms returns the agent whose tools a request changes, or "".
	Rearms(route memproxy.Route) string
}

// A Chainer is a Turner whose backend knows each request of a turn as a run of its
// own. Callers know the first; what they ask about it is answered for all.
type Chainer interface {
	Turner
	// Resume reports whether a request asks for the stream of a turn again.
	Resume(route memproxy.Route, req memproxy.Request, body []byte) (memproxy.Resumption, bool)

	// RunOf is the run that an event of a stream names, or "". Data is false
	// for an event that tells nothing: a comment, the end.
	RunOf(event []byte) (run string, data bool)

	// Asks reports the runs that a request is about: one that is read, or
	// those that are to be stopped.
	Asks(route memproxy.Route, req memproxy.Request, body []byte) (runs []string, reads bool)

	// Merge makes one answer about run of the answers about each of a turn's
	// runs, in their order. Over is false while the turn is under way.
	Merge(route memproxy.Route, req memproxy.Request, run string, over bool, answers [][]byte) ([]byte, error)
}

// A Prober is a Turner some of whose requests run one tool outside of a run.
// What that writes depends on which tool goes by the name.
type Prober interface {
	Turner
	// Probe returns the agent whose tool a request runs, and the side request
	// that tells what it is; false for other requests. Probed reads the answer:
	// nil for a tool of which the request says what it does, ErrUngated for
	// one of which it is not known what it writes.
	Probe(route memproxy.Route, req memproxy.Request) (agent string, q memproxy.Request, ok bool)
	Probed(route memproxy.Route, reply memproxy.Reply) error
}

// A Compensator is a Turner that can say afterwards what a run changed.
type Compensator interface {
	Turner
	// Watch returns what is to be looked at over an admitted run that cannot
	// be gated. One of which nobody can say what it changes is
	// memproxy.ErrUngated.
	Watch(route memproxy.Route, req memproxy.Request, body []byte) (memproxy.Watch, error)

	// Rewatch takes up a watch by its picture.
	Rewatch(picture []byte) (memproxy.Watch, error)
}

// A Recoverer is a Turner that can decline what waits in a pause.
type Recoverer interface {
	Turner
	// Recover returns the turn that answers the pause in which the turn of a key
	// may have ended, and where its requests are sent. Nothing waits in it once it is
	// prepared when there is no pause, or it is somebody else's to answer.
	Recover(key string) (memproxy.Request, memproxy.Turn, error)
}
