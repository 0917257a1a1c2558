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
	// the operation names; Kept are those that it leaves as they are: a deletion that only
	// empties them, a change of another object that only refers to them.
	Targets, Kept []string
	// Upserts is the target that is created if it does not exist, by a key.
	Upserts    string
	TargetKind TargetKind
	// Refs are all existing objects and owners that the request names, wherever
	// it names them: path, query, headers, body, filters, references.
	Refs []Ref
	// Masked are replacements for names, by OwnerID: of owners that the caller may
	// not know of. A read is then answered like one for an unknown name.
	Masked map[string]string
	// Hidden are replacements for ids, of Refs that are Loose: of objects that the
	// caller may not know of. The request then does what it does for an unknown id.
	Hidden map[string]string
	Items  []Item
	Hints  []Hint
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
	// must then be allowed to administer as well. AdministersAt is the pointer of the
	// first such member, if the payload has one.
	Administers   bool
	AdministersAt string
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
