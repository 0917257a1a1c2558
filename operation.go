package memproxy

// Kind is what an operation does to memory. The verbs are those of the provenance
// literature (learn, correct, forget, recall), extended by those of agent
// platforms.
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
	// Steering marks routes whose payload may instruct the backend's own extraction
	// model (custom instructions, prompts, includes, excludes).
	Steering bool
	// Derived marks reads whose answer is derived from memories and cannot be
	// filtered memory by memory: summaries, exports, profiles.
	Derived bool
	// Pass marks routes that touch no memory: the caller is identified, the names
	// in path, query and headers are checked, and the request is recorded; both
	// bodies are streamed, byte for byte, and are not decoded.
	Pass bool
	// Public marks Pass routes that need no identity and are not recorded: health,
	// documentation.
	Public bool
	// Params are the path's, decoded, by name, and what Decode notes for Read and Rewrite.
	Params map[string]string
}

// Scope names the owners of a memory, or of an operation's memories. Empty strings
// mean that the payload does not name one.
type Scope struct {
	Tenant string `json:"tenant,omitempty"`
	User   string `json:"user,omitempty"`
	Agent  string `json:"agent,omitempty"`
	App    string `json:"app,omitempty"`
	Run    string `json:"run,omitempty"`
}

// Dimension is a kind of owner that a payload can name.
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

// Owned reports whether the scope names an owner.
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

// A Claim is one place in a payload that names an identity. It is the caller's
// statement, and never identifies the caller.
type Claim struct {
	Dim    Dimension
	Op     ClaimOp
	Values []string
	// Pointer is a JSON pointer into the body ("/filters/AND/0/user_id"), or
	// "query:user_id", or "path:entity_id".
	Pointer string
	// Pins is set if the claim narrows the whole operation: it is at the top level,
	// or only under conjunctions. A claim inside OR or NOT never pins.
	Pins bool
}

// ItemKind is what sort of content an item is.
type ItemKind string

// The item kinds.
const (
	ItemContent  ItemKind = "content"  // text to be remembered
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
	// Sweeps is set for a bulk deletion of everything within Scope and nothing
	// else.
	Sweeps bool
	// Single is set where that is all of one named owner, and known to be.
	Single  bool
	Backend string // the configured backend's name
	Route   string // Route.ID
	Scope   Scope  // the identities that the payload names plainly
	Claims  []Claim
	// Targets are the ids of existing memories (or of objects of TargetKind) that
	// the operation names; Kept are those that a deletion leaves, as it only empties
	// them.
	Targets, Kept []string
	// Upserts is the target that is created if it does not exist, by a key.
	Upserts    string
	TargetKind TargetKind
	// Refs are all existing objects and owners that the request names, wherever
	// it names them: path, query, headers, body, filters, references.
	Refs []Ref
	// Masked are replacements for names, by OwnerID, and Hidden for the ids of Refs that
	// are Loose, of what the caller may not know of. It then counts as unknown.
	Masked, Hidden map[string]string
	Items          []Item
	Hints          []Hint
	// Attributions are statements of the payload about its content that readers
	// would believe.
	Attributions []Attribution
	// SourceClaim is the source that the payload claims for its content, or "". It
	// can lower trust and never raise it.
	SourceClaim Source
	// Changes are the operation's changes of objects' members: each is recorded as
	// a version, with its predecessor.
	Changes []MemberChange
	// Administers is set if the payload also changes settings of the installation
	// (a model's endpoint, keys, an environment), or asks for secrets: the caller
	// must then be allowed to administer as well.
	Administers bool
	// Extracts is set if a model of the backend extracts facts from the content,
	// which are judged when the backend reports them.
	Extracts bool
	// LayerClaims are the layers that the payload's metadata claims. A claim
	// adds the rules of its layer and takes none away.
	LayerClaims []Layer
	// Keys are the names under which content is filed, next to the items'
	// fields: names of metadata, categories, tags.
	Keys []string
	// Backdated are pointers of client timestamps that would set a memory's time of
	// creation.
	Backdated []Stamped
	// Reserved are pointers of client-supplied keys with the stamp's prefix.
	// They are always removed.
	Reserved []string
	// Unclaimed are pointers of members and parameters that look like names of
	// objects, but that the adapter does not know. They are always removed.
	Unclaimed []string
	// Cost is how many memories are reserved on the write budgets: the number that
	// the operation writes or, if the backend decides on that, an estimate, which
	// is settled once the backend has reported it. Zero for reads.
	Cost int

	// Parsed is the adapter's own form of the payload, kept by Decode for Encode.
	// Nothing else uses it.
	Parsed any

	// The gate's decisions, for Encode.

	// Stamp is the provenance to write into every metadata home of the
	// payload, or nil.
	Stamp *Stamp
	// Seal signs a stamp for the metadata that it is written next to, in JSON
	// and without the proxy's own members. A stamp of another installation is
	// returned unchanged. Nil: stamps do not cover metadata.
	Seal func(s Stamp, metadata []byte) Stamp `json:"-"`
	// Current are the memories as they are upstream, by target id, when the
	// gate had to ask: a patch that must merge needs them.
	Current map[string]Memory
}

// StampFor is the stamp for one home of metadata.
func (op *Operation) StampFor(metadata []byte) *Stamp {
	if op.Seal == nil {
		return op.Stamp
	}
	s := op.Seal(*op.Stamp, metadata)
	return &s
}

// TargetKind is the kind of an operation's targets.
type TargetKind string

// The target kinds.
const (
	TargetMemory TargetKind = "memory"
	TargetEvent  TargetKind = "event"  // an asynchronous write's receipt
	TargetEntity TargetKind = "entity" // a user, agent, app or run as an object
	TargetExport TargetKind = "export"
	// TargetDecision is a write by the id of its decision: a status for all
	// memories that it makes, before their ids are known.
	TargetDecision TargetKind = "decision"
)

// A Ref is one place where a request names something that exists: an object by its
// id, or an owner by its name. Whatever the request does with it, it must belong to
// the caller's tenant.
type Ref struct {
	// Kind is the kind of object. For an owner it is TargetEntity, and ID then is
	// the dimension and the name separated by a colon, "user:ann".
	Kind TargetKind
	ID   string
	// Pointer is its place, as in Claim.
	Pointer string
	// Loose is set if the backend accepts any text, so that an apparent reference
	// need not be one: what the caller may not see is replaced (Operation.Hidden).
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
	// Links are pointers of absolute URLs that would lead past the proxy.
	Links []string
	// Settles is set where the answer to a write names every memory that it
	// made: the write is then charged for those and no others.
	Settles bool
	// Traces is set if the answer may show what memproxy itself did in the backend,
	// which Rewrite then removes.
	Traces bool
}
