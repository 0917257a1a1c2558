package memproxy

// Kind is what an operation does to memory. The verbs are the ones of the
// provenance literature (learn, correct, forget, recall), extended by what an
// agent platform adds to them.
type Kind string

// The kinds of operation.
const (
	Learn   Kind = "learn"   // write something new
	Correct Kind = "correct" // update or supersede something that exists
	Forget  Kind = "forget"  // delete
	Recall  Kind = "recall"  // read, search, list, export
	Attach  Kind = "attach"  // bring existing memory into a context
	Run     Kind = "run"     // run an agent or tool that may write inside the backend
	Admin   Kind = "admin"   // configure the backend, its projects, its webhooks
	Other   Kind = "other"   // known to touch no memory
)

// Kinds lists every kind, in the order of the documentation.
var Kinds = [...]Kind{Learn, Correct, Forget, Recall, Attach, Run, Admin, Other}

// Writes reports whether the kind may change what an agent remembers.
func (k Kind) Writes() bool {
	switch k {
	case Learn, Correct, Forget, Attach, Run:
		return true
	}
	return false
}

// Request is the part of an HTTP request that an adapter may look at. It has
// no body: bodies are passed separately, bounded.
type Request struct {
	Method string
	// Path is the decoded path; EscapedPath is as the client spelled it.
	// Routes are found on Path, requests are forwarded as EscapedPath.
	Path        string
	EscapedPath string
	// Query is the raw query, without the question mark.
	Query string
	// Own are the parameters that the client put into the query for memproxy
	// itself. They are not in Query; links in answers carry them on.
	Own    string
	Header Header
	// Base is how the client addresses the proxy, "https://host:port", so that
	// absolute links in answers can be made to lead back through it.
	Base string
}

// Reply is an answer in a backend's wire format: one that the proxy gives
// itself, or one that it fetched.
type Reply struct {
	Status int
	Header Header
	Body   []byte
}

// Route is one row of an adapter's route table, matched against a request.
type Route struct {
	// ID names the row for policies, spans and audit: "mem0.v3.add".
	ID   string
	Kind Kind
	// Bulk marks routes that touch an open set of memories, such as
	// "delete everything of this user".
	Bulk bool
	// Steering marks routes whose payload may instruct the backend's own
	// extraction model (custom instructions, prompts, includes, excludes).
	Steering bool
	// Derived marks reads whose answer is made from memories but cannot be
	// taken apart again: summaries, exports, profiles.
	Derived bool
	// Pass marks routes that touch no memory: who asks is identified, held to
	// what the path, the query and the headers name, and recorded; both bodies
	// stream, byte for byte, and are not decoded.
	Pass bool
	// Public marks Pass routes that anybody may ask for unidentified and
	// unrecorded: health, documentation.
	Public bool
	// Params are the path parameters, decoded, by the name in the table.
	Params map[string]string
}

// Scope is whose memory an operation or a memory belongs to. Empty strings
// mean that the payload does not say.
type Scope struct {
	Tenant string `json:"tenant,omitempty"`
	User   string `json:"user,omitempty"`
	Agent  string `json:"agent,omitempty"`
	App    string `json:"app,omitempty"`
	Run    string `json:"run,omitempty"`
}

// Dimension is one of the identity dimensions in which a payload can name
// somebody.
type Dimension string

// The dimensions.
const (
	DimUser  Dimension = "user"
	DimAgent Dimension = "agent"
	DimApp   Dimension = "app"
	DimRun   Dimension = "run"
	DimActor Dimension = "actor" // a speaker's name inside a message; recorded, never authority
)

// In returns the scope's value in dimension d, or "".
func (s Scope) In(d Dimension) string {
	switch d {
	case DimUser:
		return s.User
	case DimAgent:
		return s.Agent
	case DimApp:
		return s.App
	case DimRun:
		return s.Run
	}
	return ""
}

// Owned reports whether the scope names anybody at all.
func (s Scope) Owned() bool { return s.User != "" || s.Agent != "" || s.App != "" || s.Run != "" }

// ClaimOp is how a claim selects identities.
type ClaimOp string

// The claim operators, in the order of how much they select.
const (
	ClaimIs      ClaimOp = "is"      // exactly Values
	ClaimAny     ClaimOp = "any"     // a wildcard: everyone, or everyone with a value
	ClaimExclude ClaimOp = "exclude" // everyone but Values (ne, nin, under NOT)
	ClaimUnclear ClaimOp = "unclear" // an operator or type that the adapter does not know
)

// A Claim is one place in a payload that names an identity. It is what the
// caller says, never who the caller is.
type Claim struct {
	Dim    Dimension
	Op     ClaimOp
	Values []string
	// Pointer is a JSON pointer into the body ("/filters/AND/0/user_id"), or
	// "query:user_id", or "path:entity_id".
	Pointer string
	// Pins is set when the claim narrows the whole operation: it stands at
	// the top level, or only under conjunctions. A claim inside OR or NOT
	// never pins.
	Pins bool
}

// ItemKind is what sort of content an item is.
type ItemKind string

// The item kinds.
const (
	ItemContent  ItemKind = "content"  // text that is to be remembered
	ItemMetadata ItemKind = "metadata" // a string inside metadata, returned to agents on reads
	ItemSteering ItemKind = "steering" // text that instructs the backend's extraction model
	ItemQuery    ItemKind = "query"    // a search text
	ItemURL      ItemKind = "url"      // a reference that the backend would fetch, unseen by the gate
	ItemData     ItemKind = "data"     // inline binary content (data: URI), opaque to the gate
)

// Operation is a request in the gate's terms, the same for every backend.
type Operation struct {
	Kind     Kind
	Bulk     bool
	Steering bool
	Derived  bool
	// Sweeps is set for a bulk deletion that removes everything within Scope
	// and nothing else.
	Sweeps bool
	// Single is set where that is all of one named owner, and known to be.
	Single  bool
	Backend string // the configured backend's name
	Route   string // Route.ID
	Scope   Scope  // the identities that the payload names plainly
	Claims  []Claim
	// Targets are the ids of existing memories (or of what TargetKind says)
	// that the operation names.
	Targets []string
	// Upserts is the target that comes to be where it is not there: what the
	// backend finds by a key of the caller's choice.
	Upserts    string
	TargetKind TargetKind
	// Refs are all existing objects and owners that the request names, wherever
	// it names them: path, query, headers, body, filters, references.
	Refs []Ref
	// Masked are names to be written in the place of others, by OwnerID: of
	// owners that the caller may not know of. A read then is answered as the
	// backend answers for a name that it has never heard.
	Masked map[string]string
	Items  []Item
	Hints  []Hint
	// Attributions are what the payload says of its content that readers would
	// believe.
	Attributions []Attribution
	// SourceClaim is what the payload says of its content's source, or "". It
	// can lower trust and never raise it.
	SourceClaim Source
	// Changes are what the operation makes of objects' members: each is kept as
	// a version, with what was there before.
	Changes []MemberChange
	// Administers is set where the payload also sets what is the installation's
	// (a model's endpoint, keys, an environment), or asks for secrets: whoever
	// sends it must be allowed to administer as well.
	Administers bool
	// Extracts is set where a model of the backend makes facts of the content,
	// which are judged when the backend tells of them.
	Extracts bool
	// LayerClaims are the layers that the payload's metadata claims. A claim
	// adds the rules of its layer and takes none away.
	LayerClaims []Layer
	// Keys are the names under which content is filed, next to the items'
	// fields: names of metadata, categories, tags.
	Keys []string
	// Backdated are pointers of client timestamps that would set when a
	// memory came to be.
	Backdated []Stamped
	// Reserved are pointers of client-supplied keys with the stamp's prefix.
	// They are always removed.
	Reserved []string
	// Unclaimed are pointers of members and parameters that are called like a
	// name of something, and of which the adapter does not know what they name.
	// They are always removed.
	Unclaimed []string
	// Cost is how many memories are reserved on the write budgets: as many as
	// the operation writes or, where the backend decides on that, an estimate,
	// which is settled once the backend has told. Zero for reads.
	Cost int

	// Parsed is the adapter's own reading of the payload, kept by Decode for
	// Encode. Nobody else looks at it.
	Parsed any

	// What the gate decided, for Encode.

	// Stamp is the provenance to write into every metadata home of the
	// payload, or nil.
	Stamp *Stamp
	// Seal signs a stamp anew for the metadata that it is written next to, in
	// JSON and without the proxy's own members. One that is not of this
	// installation comes back as it is. Nil: stamps say nothing of metadata.
	Seal func(s Stamp, metadata []byte) Stamp `json:"-"`
	// Current are the memories as they are upstream, by target id, when the
	// gate had to ask: a patch that must merge needs them.
	Current map[string]Memory
}

// StampBeside is the stamp for one home of metadata.
func (op *Operation) StampBeside(metadata []byte) *Stamp {
	if op.Seal == nil {
		return op.Stamp
	}
	s := op.Seal(*op.Stamp, metadata)
	return &s
}

// TargetKind says what an operation's targets are.
type TargetKind string

// The target kinds.
const (
	TargetMemory TargetKind = "memory"
	TargetEvent  TargetKind = "event"  // an asynchronous write's receipt
	TargetEntity TargetKind = "entity" // a user, agent, app or run as an object
	TargetExport TargetKind = "export"
	// TargetDecision is a write by the id of its decision: what holds for all
	// that it makes, whose ids nobody knows yet.
	TargetDecision TargetKind = "decision"
)

// A Ref is one place where a request names something that exists: an object by
// its id, or an owner by its name. It says nothing of what is done with it:
// whoever is named must belong to the caller's tenant, whatever is done.
type Ref struct {
	// Kind is what is named. For an owner it is TargetEntity, and ID then is
	// the dimension and the name with a colon between, "user:ann".
	Kind TargetKind
	ID   string
	// Pointer is where it stands, as in Claim.
	Pointer string
	// Loose is set where the backend takes any text, so that what looks like a
	// reference need not be one: only what is known to be another tenant's is
	// refused.
	Loose bool
}

// OwnerID is the id under which an owner's name is remembered and referred to:
// its dimension and the name, with a colon between.
func OwnerID(d Dimension, name string) string { return string(d) + ":" + name }

// Stamped is a client-supplied time at a pointer.
type Stamped struct {
	Pointer string
	Raw     string
}

// Memory is one memory as a backend returns it.
type Memory struct {
	// Pointer is the JSON pointer of the element in the answer.
	Pointer string
	// Kind is what ID names; empty means a memory.
	Kind  TargetKind
	ID    string
	Text  string
	Scope Scope
	// Field is the governed field that the memory is (a Letta block's label),
	// or "".
	Field string
	// Filed are further governed fields that it is filed under.
	Filed []string
	// Limit is how many characters the memory may hold, or 0 where the backend
	// does not say.
	Limit int
	// Within are the objects that the memory belongs to, where the answer names
	// them: the agent of a message, the conversation of a run. A memory of which
	// nothing is recorded is of the tenant that they are of.
	Within []Ref
	// Metadata is the memory's metadata as raw JSON, or nil.
	Metadata []byte
	// Members are the object's members that a change may set, besides Text, as
	// Members writes them; nil where the adapter was not asked for one object.
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
	// Inferred is set where the backend says that the memory is not a user's
	// statement.
	Inferred bool
	// Event is what happened to the memory where the answer tells of an event
	// (ADD, UPDATE, DELETE, NONE), or "".
	Event string
	// Before is the text that an update replaced, where the answer tells it.
	Before string
	// Unreadable is set where the element is no object, or does not say in a way
	// that can be read whose it is.
	Unreadable bool
	// Bare leaves Before out of the answer.
	Bare bool
	// Also are further texts that the element shows, not the memory's as it is:
	// those of a history entry. They are screened and no more.
	Also []string
	// Missing says that the backend lacks it; Unproven, that it cannot be asked.
	Missing, Unproven bool
	// TextAt is the JSON pointer of Text where it is one string of the answer,
	// else "".
	TextAt string
	// Mutable is set where the backend's own agents change the text, so that it
	// need not be the one that last went through memproxy.
	Mutable bool
	// Drop is set by the gate: the adapter leaves the element out. Show, if
	// set, is what stands in the place of Text instead.
	Drop bool
	Show *string
	// Compiled is set for what the backend itself made of memories: the prompt
	// of an agent among its messages.
	Compiled bool
	// Common is set for what the backend ships to everybody, such as its own
	// tools: it is nobody's, and everybody may see it.
	Common bool
	// Uncounted is set for what is no memory to a budget, such as an agent or
	// a folder.
	Uncounted bool
	// Told, if set, is what the reader is told about the memory, under
	// ProvenanceKey in its metadata.
	Told *Provenance
}

// Reading is what an adapter found in an answer.
type Reading struct {
	Memories []Memory
	// Events are ids of asynchronous writes that the answer names.
	Events []string
	// Made are ids of further objects that came to be with a write, or were
	// there: they are the caller's unless they are somebody's already.
	Made []string
	// Relations are what the answer tells of how things are related, drawn from
	// memories that it does not name. Unrelated leaves them out.
	Relations []string
	Unrelated bool
	// Mixed is set where the backend counted what is not the caller's, or may
	// have: its totals are left out, and a list counts what it shows.
	Mixed bool
	// Links are pointers of absolute URLs that would lead past the proxy.
	Links []string
	// Settles is set where the answer to a write names every memory that it
	// made: the write is then charged for those and no others.
	Settles bool
	// Traces is set when the answer may show what memproxy itself did in the
	// backend, which Rewrite then takes out.
	Traces bool
}
