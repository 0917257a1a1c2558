// Package backend has what memproxy needs to know of a memory service: the interfaces that its
// adapter implements, and what the service answers to requests of memproxy itself.
package backend

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
)

// An Adapter translates one backend's wire format. It never decides.
//
// Implementations are pure: no I/O, safe for concurrent use, and deterministic.
type Adapter interface {
	// Route finds the row of the route table for a request, by method, decoded path
	// and query. It returns false if there is none. An ambiguous path (an encoded
	// slash that changes the row, dot segments) has no row; it is never guessed.
	Route(memproxy.Request) (memproxy.Route, bool)

	// Decode reads a request's payload (body, query, path parameters). An
	// unreadable payload is a *memproxy.Flaw; any other error is
	// breakage. It never returns an operation that leaves content out.
	Decode(memproxy.Route, memproxy.Request, []byte) (*memproxy.Operation, error)

	// Encode returns the body to forward: ConfidenceClaims whose Effective differs from
	// what was claimed are rewritten, Reserved pointers removed, the Stamp put
	// into every metadata home. Unknown fields, order and numbers survive. With
	// nothing to change it returns body itself. The returned query replaces the
	// request's where the route carries its payload there.
	Encode(memproxy.Route, memproxy.Request, []byte, *memproxy.Operation) (body []byte, query string, err error)

	// Reword replaces texts of a payload by the pointers of their items. A pointer that is
	// not a text of the payload is an error.
	Reword(rt memproxy.Route, req memproxy.Request, body []byte, texts map[string]string) ([]byte, error)

	// Refuse writes a decision in the backend's own error format. A temporary refusal
	// (429, 503) has a Retry-After.
	Refuse(memproxy.Request, memproxy.Decision) memproxy.Reply

	// HeldReply returns the answer to a held write in the form that the backend's clients
	// expect for an asynchronous write. It returns false if they take every success for
	// completion, so that no truthful answer exists.
	HeldReply(memproxy.Route, memproxy.Request, *memproxy.Operation, memproxy.Decision) (memproxy.Reply, bool)

	// Read finds the memories in an answer, also those that a change did not make, such as an
	// agent with all of its blocks when one is attached. An answer that cannot be read is an
	// error; the gate then withholds it.
	Read(memproxy.Route, memproxy.Request, memproxy.Reply) (*memproxy.Reading, error)

	// Rewrite returns the answer without the memories marked Drop, with Links
	// changed to Request.Base, and without fields that Encode had added to the
	// request. With nothing to change it returns the body itself.
	Rewrite(memproxy.Route, memproxy.Request, memproxy.Reply, *memproxy.Reading) ([]byte, error)

	// Prune returns the answer without the members that have no claim. If the
	// answer as a whole is not one of the route's, Prune returns an error; the gate
	// then withholds it. Errors of the backend are pruned too, and are never an
	// error here.
	Prune(memproxy.Route, memproxy.Reply) (memproxy.Pruned, error)

	// Structured reports whether a route answers with a document of members, so
	// that its answer must be read even if no other filter needs it. Pages and
	// files are not structured. Unknown routes are: their answers are withheld.
	Structured(memproxy.Route) bool

	// PruneEvent prunes one event of a stream; an empty body removes the event.
	PruneEvent(memproxy.Route, []byte) memproxy.Pruned

	// Refill returns the source of further pages for a list from which memories were
	// filtered out, from the request as it was sent and the reading with its dropped
	// memories. It returns nil if nothing is missing, or if no further page can be
	// requested without repeating or skipping memories.
	Refill(rt memproxy.Route, sent memproxy.Request, body []byte, reply memproxy.Reply, rd *memproxy.Reading) memproxy.Refill

	// Evict removes the memories with these ids from the adapter's cache, if it has one,
	// or all memories if no id is given: deleted memories must not stay in the process.
	Evict(ids ...string)

	Locator
	Restorer
}

// NormalizedRoute finds the route that a path without a row would have if its slashes were
// normalised: none or one at its end, a single one instead of several. Servers that
// ignore such slashes serve that route.
func NormalizedRoute(a Adapter, req memproxy.Request) (memproxy.Route, bool) {
	path := "/" + strings.Join(strings.FieldsFunc(req.EscapedPath, func(c rune) bool { return c == '/' }), "/")
	for _, req.EscapedPath = range [...]string{path, path + "/"} {
		if route, ok := a.Route(req); ok {
			return route, true
		}
	}
	return memproxy.Route{}, false
}

// A Locator fetches one memory from a backend, so that operations by id can be ruled on.
type Locator interface {
	// Locate returns the request that fetches target.
	Locate(route memproxy.Route, req memproxy.Request, target string) memproxy.Request

	// ReadLocated reads the answer. A memory that does not exist is returned with
	// Missing set; an answer that is neither is an error.
	ReadLocated(route memproxy.Route, target string, reply memproxy.Reply) (memproxy.Memory, error)

	// Merges reports whether the route's patch must be merged with the present
	// memory (Operation.Current), so that the gate fetches it even if its owner is
	// known.
	Merges(route memproxy.Route, op *memproxy.Operation) bool
}

// A Fetcher sends a side request to the backend on behalf of an admission:
// with the same credentials, with a deadline of its own, bounded in size.
type Fetcher interface {
	Fetch(context.Context, memproxy.Request) (memproxy.Reply, error)
	// Send is Fetch of a request that may have a body.
	Send(context.Context, memproxy.Request, []byte) (memproxy.Reply, error)
}

// An Extractor is an Adapter whose backend lets its own model decide what a write
// becomes, at once or later behind a receipt. It shows the stamp of a write with the
// memories made from it, so that they can be matched with their write before their ids
// are known. Only such writes are set aside (gate.Rules.NeverRefuse).
type Extractor interface {
	// Masks reports whether all names of a read can be replaced (Operation.Masked), so that
	// the backend answers as for an unknown name. Ids can be replaced (Operation.Hidden) in
	// every body and parameter.
	Masks(memproxy.Route, *memproxy.Operation) bool

	// IsBackendField reports whether a name may be that of a field of the backend's own,
	// which some answers show inside a memory's metadata, and others next to it.
	IsBackendField(name string) bool

	// Echoes reports whether everything that the write makes has its stamp, and is
	// shown only on routes whose answers Read can filter.
	Echoes(memproxy.Route, *memproxy.Operation) bool

	// OmitsStamps reports whether the answers of a route show texts without their
	// stamps: a history, a receipt.
	OmitsStamps(memproxy.Route) bool

	// StampSearchRequest returns the request for a page, counted from 1, of the list of
	// memories that a write may have made. It returns false if none of them would have a
	// stamp. ReadStampSearch reads the answer: the ids of the memories with the decision in
	// their stamp, the length of the whole list, and whether there is another page.
	StampSearchRequest(route memproxy.Route, req memproxy.Request, op *memproxy.Operation, page int) (memproxy.Request, bool)
	ReadStampSearch(reply memproxy.Reply, decision string) (ids []string, of int, more bool, err error)

	// ReceiptID returns the receipt that a request asks for, or "".
	ReceiptID(memproxy.Route) string

	// ReceiptReply returns the state of a held write as an answer to a request for its
	// receipt.
	ReceiptReply(memproxy.Route, memproxy.Request, memproxy.HeldWrite) memproxy.Reply

	// Receipt returns the request for the outcome of an asynchronous write.
	Receipt(route memproxy.Route, req memproxy.Request, id string) memproxy.Request

	// ReadExtracted reads the answer: the memories, and whether the write is done, failed
	// or pending. Nil memories mean that the answer does not report any; an empty list
	// means that there are none.
	ReadExtracted(memproxy.Reply) (memories []memproxy.Memory, state memproxy.HoldState, err error)

	// Undo returns the requests that retract what was made of a memory, and false
	// if the answer does not contain enough for that.
	Undo(route memproxy.Route, req memproxy.Request, m memproxy.Memory) ([]memproxy.SideRequest, bool)

	// Verbatim returns the body of a write that stores only this text, unchanged, for the
	// same owner and with the same metadata as the write in body.
	Verbatim(body []byte, text string) ([]byte, error)
}

// A Restorer restores a previous version of a memory. If a
// backend has several dialects it returns one request for each dialect that supports
// the memory, and the first that the backend implements applies. It returns none if the
// memory cannot be restored.
type Restorer interface {
	// FindRequests returns requests that show a memory as it is. ReadLocated reads the
	// answer to each, without a route.
	FindRequests(memproxy.MemoryKey) []memproxy.SideRequest

	// Restore returns requests that restore a version of a memory. Now is its
	// present state: its other metadata is kept, and the stamp replaces the present
	// one.
	Restore(to memproxy.Version, now memproxy.Memory, stamp memproxy.Stamp) []memproxy.SideRequest

	// Remove returns requests that delete a memory.
	Remove(memproxy.MemoryKey) []memproxy.SideRequest
}

// An AgentRunner is an Adapter whose backend has agents and other objects, and runs agents:
// on some routes the agent calls tools while the request lasts, and some tools write its
// memory inside the backend, where no proxy sees them.
type AgentRunner interface {
	// RefusesCredential reports whether a 401 answer is about the request's credential, and
	// not about the backend's own, which a model provider refused.
	RefusesCredential(memproxy.Reply) bool

	// Names returns every object that an answer names by a typed id, under any member, with
	// its pointer. RemovePointers returns the answer's body without the values at pointers.
	Names(memproxy.Route, memproxy.Reply) ([]memproxy.Ref, error)
	RemovePointers(reply memproxy.Reply, gone []string) ([]byte, error)

	// Withhold removes the values of secrets from an answer, and for a caller who may
	// not administer the backend also what only administrators are shown. If there is
	// nothing to remove it returns the body itself. An answer that cannot be read is an
	// error.
	Withhold(route memproxy.Route, body []byte, administers bool) ([]byte, error)

	// Counts returns the requests that ask how many memories a write made, such as a
	// document that is split, by the ids in its answer; none if the answer reports it
	// already, or no request could. ReadCount reads the answer to one of them: how many,
	// and whether that is final.
	Counts(route memproxy.Route, req memproxy.Request, ids []string) []memproxy.Request
	ReadCount(memproxy.Reply) (more int64, over bool, err error)

	// ObjectRequests returns the requests for the objects that a write made and that its
	// answer only names, such as agents that are created from a file, and whether they
	// contain every memory that it made. ReadObject returns what the answer to one of them
	// contains.
	ObjectRequests(route memproxy.Route, req memproxy.Request, op *memproxy.Operation, rd *memproxy.Reading) (asks []memproxy.Request, all bool)
	ReadObject(memproxy.Reply) (*memproxy.Reading, error)

	// Turn returns the run that an admitted request starts, or nil if its route
	// runs no agent. A run that cannot be made to pause is memproxy.ErrUngated.
	Turn(route memproxy.Route, req memproxy.Request, body []byte) (memproxy.Turn, error)

	// Recover returns a turn that answers the pause which the turn of a key may have
	// left, and a request with the path that its requests go to. Once prepared, it has
	// no waiting calls if there is no pause, or if another turn has to answer it.
	Recover(key string) (memproxy.Request, memproxy.Turn, error)

	// ObserveTools starts to observe what tools, files and services return in the answers
	// of a route while an agent runs.
	ObserveTools(memproxy.Route) memproxy.ToolObserver

	// ChangesToolsOf returns the agent whose tools a request changes, or "".
	ChangesToolsOf(route memproxy.Route) string

	// Attaches returns the targets that the operation puts in front of an agent without
	// their texts in the payload, such as a block of another agent. Targets that it
	// detaches or replaces are not among them.
	Attaches(memproxy.Route, *memproxy.Operation) []string

	// ToolRun follows the call of an agent's tool that a request makes directly, in place
	// of the agent; nil if the request calls no tool that writes.
	ToolRun(route memproxy.Route, req memproxy.Request, body []byte) memproxy.ToolRun

	// Probe returns the agent and the side request that describes it, for a request whose
	// effect depends on the state of an agent, such as one that runs a tool outside of a
	// run, and false for other requests. ReadProbe reads the answer. It returns nil if the
	// request alone determines the effect, and ErrUngated if the request may write
	// something else, wrapped in an error that names it if it is known.
	Probe(route memproxy.Route, req memproxy.Request) (agent string, q memproxy.Request, ok bool)
	ReadProbe(route memproxy.Route, reply memproxy.Reply) error

	// Resume reports whether a request resumes the stream of a turn. The backend treats
	// each request of a turn as a separate run. Callers know only the first run, so a
	// request about it is answered for all runs of the turn.
	Resume(route memproxy.Route, req memproxy.Request, body []byte) (memproxy.Resumption, bool)

	// RunOf returns the run that an event of a stream names, or "". Data is false for an
	// event without data: a comment, the end mark.
	RunOf(event []byte) (run string, data bool)

	// RequestedRuns returns the runs that a request is about: one run to read, or those to
	// stop, where an agent or a conversation stands for all its runs.
	RequestedRuns(route memproxy.Route, req memproxy.Request, body []byte) (runs []string, reads bool)

	// Stopped reports whether the answer to a request to stop runs says that none of these
	// goes on.
	Stopped(answer memproxy.Reply, runs []string) bool

	// Merge combines the answers about each of a turn's runs, in order, into one
	// answer about run. Over is false while the turn is under way. Without answers it
	// returns the answer that says that the run was stopped.
	Merge(route memproxy.Route, req memproxy.Request, run string, over bool, answers [][]byte) ([]byte, error)

	// DiffRun returns what to compare before and after an admitted run that cannot be
	// gated, to determine afterwards what it changed. A run whose changes cannot be
	// determined is memproxy.ErrUngated.
	DiffRun(route memproxy.Route, req memproxy.Request, body []byte) (memproxy.RunDiff, error)

	// RestoreRunDiff restores a RunDiff from its serialised baseline.
	RestoreRunDiff(baseline []byte) (memproxy.RunDiff, error)
}

// LookupError is a backend's refusal of a look-up that memproxy made for a request.
type LookupError struct{ Reply memproxy.Reply }

func (e *LookupError) Error() string {
	return fmt.Sprintf("the backend answered %d when memproxy looked the object up", e.Reply.Status)
}

// IsForClient reports whether the backend would have refused the client's request in the
// same way: it does not accept the credential, or limits what or how often the caller asks.
func (e *LookupError) IsForClient() bool {
	return slices.Contains([]int{memproxy.StatusUnauthorized, memproxy.StatusForbidden, memproxy.StatusTooMany}, e.Reply.Status)
}

// LookupFailure returns the error of reading the reply to a look-up: a LookupError if the
// backend refused it.
func LookupFailure(reply memproxy.Reply, err error) error {
	if err != nil && reply.Status >= memproxy.StatusBadRequest {
		return &LookupError{reply}
	}
	return err
}

// rateHeaders say when a client may ask a backend again.
var rateHeaders = [...]string{"Retry-After", "X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset"}

// SetRate gives a reply to a client the backend's headers about its rate limit.
func (e *LookupError) SetRate(reply *memproxy.Reply) {
	if reply.Header == nil {
		reply.Header = memproxy.Header{}
	}
	for _, name := range rateHeaders {
		delete(reply.Header, name)
		if v := e.Reply.Header.Values(name); len(v) > 0 {
			reply.Header[name] = v
		}
	}
}

// MaxPrepare is the maximum number of side requests before a call or a request of a turn: for
// the agent, its conversation, and their blocks.
const MaxPrepare = 80

// Prepare makes side requests, and stops at the first error.
func Prepare(of memproxy.SideRequests, most int, ask func(memproxy.Request) (memproxy.Reply, error)) error {
	for range most {
		q, more := of.NextSideRequest()
		if !more {
			return nil
		}
		reply, err := ask(q)
		if err == nil {
			err = of.ReadSideReply(reply)
		}
		if err != nil {
			return LookupFailure(reply, err)
		}
	}
	return fmt.Errorf("reading the agents' memory takes more than %d requests", most)
}

// RedirectsAway is the detail if a backend's redirect LeadsAway.
const RedirectsAway = "the backend redirects to another address, to which memproxy leads no client; backends[].upstream must be an address that answers"

// LeadsAway reports whether an answer redirects to another address than memproxy's.
func LeadsAway(status int, location string) bool {
	return status >= 300 && status <= 399 && !LeadsBack(location)
}

// LeadsBack reports whether a redirect is relative to the URL that the client requested,
// and therefore leads to memproxy.
func LeadsBack(location string) bool {
	u, err := url.Parse(location)
	return err == nil && u.Scheme == "" && u.Host == "" && u.Opaque == "" && !strings.ContainsAny(location, "\\ \t\r\n") && !strings.HasPrefix(location, "//")
}
