package memproxy

import "strings"

// Kind is what an operation does to memory. The verbs learn, correct, forget and recall
// are those of the provenance literature; the others come from agent platforms.
type Kind string

// The kinds of operation.
const (
	Learn   Kind = "learn"   // create
	Correct Kind = "correct" // update or replace
	Forget  Kind = "forget"  // delete
	Recall  Kind = "recall"  // read, search, list, export
	Attach  Kind = "attach"  // bring existing memory into an agent's context
	Run     Kind = "run"     // run an agent or tool that may write inside the backend
	Admin   Kind = "admin"   // configure the backend, its projects or its webhooks
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

// Request is the part of an HTTP request that adapters may read. It has no body: bodies
// are passed separately, with a bounded size.
type Request struct {
	Method string
	// EscapedPath is the path as the client wrote it, on which routes match and with which
	// requests are forwarded.
	EscapedPath string
	// Query is the raw query, without the question mark.
	Query string
	// ProxyQuery are the query parameters that are meant for memproxy itself. They are not in
	// Query; links in answers keep them.
	ProxyQuery string
	Header     Header
	// Base is the URL under which the client reaches the proxy, "https://host:port".
	// Absolute links in answers are rewritten to it.
	Base string
}

// Reply is an answer in a backend's wire format, produced or fetched by memproxy.
type Reply struct {
	Status int
	Header Header
	Body   []byte
	// Parsed is what the adapter has parsed of this Body (Pruned.Parsed), or nil.
	Parsed any
}

// Route is one row of an adapter's route table, matched against a request.
type Route struct {
	// ID names the row for policies, spans and audit: "mem0.v3.add".
	ID   string
	Kind Kind
	// Bulk marks routes that affect an open set of memories, such as "delete everything
	// of this user".
	Bulk bool
	// Steering marks routes whose payload may instruct the backend's own extraction
	// model (custom instructions, prompts, includes, excludes).
	Steering bool
	// Derived marks reads whose answer is derived from memories and cannot be
	// filtered memory by memory: summaries, exports, profiles.
	Derived bool
	// Pass marks routes that access no memory. The caller is identified, the names in
	// path, query and headers are checked, and the request is recorded. Both bodies are
	// streamed byte for byte and not decoded.
	Pass bool
	// Public marks Pass routes that need no identity and are not recorded, such as health
	// and documentation.
	Public bool
	// Respelled is the path with the trailing slash added or removed, if the backend would
	// redirect the request to that path; else "". The request is ruled on and sent with it,
	// so that a client that does not follow redirects is served, a write is decided on once,
	// and a held write is sent to the path that the backend accepts.
	Respelled string
	// Params are the decoded path parameters by name, and what Decode stores for Read and
	// Rewrite.
	Params map[string]string
}

// Scope names the owners of a memory, or of an operation's memories. An empty string
// means that the payload does not name one.
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
	DimActor Dimension = "actor" // a speaker's name inside a message; recorded, and without authority
)

// Dimensions lists the kinds of owner that a memory can have.
var Dimensions = [...]Dimension{DimUser, DimAgent, DimApp, DimRun}

// Owner returns a pointer to the owner's name in dimension d. It is nil for DimActor.
func (s *Scope) Owner(d Dimension) *string {
	switch d {
	case DimUser:
		return &s.User
	case DimAgent:
		return &s.Agent
	case DimApp:
		return &s.App
	case DimRun:
		return &s.Run
	}
	return nil
}

// In returns the owner's name in dimension d, or "".
func (s *Scope) In(d Dimension) string {
	if at := s.Owner(d); at != nil {
		return *at
	}
	return ""
}

// HasOwner reports whether the scope names at least one owner.
func (s Scope) HasOwner() bool { return s.User != "" || s.Agent != "" || s.App != "" || s.Run != "" }

// Common returns the names that two scopes share.
func (s Scope) Common(other Scope) Scope {
	same := func(a, b string) string {
		if a != b {
			return ""
		}
		return a
	}
	return Scope{
		Tenant: same(s.Tenant, other.Tenant), User: same(s.User, other.User), Agent: same(s.Agent, other.Agent),
		App: same(s.App, other.App), Run: same(s.Run, other.Run),
	}
}

// Within reports whether every owner that outer names is also the owner in s. The tenant
// does not count.
func (s Scope) Within(outer Scope) bool {
	in := func(has, asked string) bool { return asked == "" || asked == has }
	return in(s.User, outer.User) && in(s.Agent, outer.Agent) && in(s.App, outer.App) && in(s.Run, outer.Run)
}

// ClaimOp is how a claim selects identities.
type ClaimOp string

// The claim operators, from the narrowest selection to the widest.
const (
	ClaimIs      ClaimOp = "is"      // exactly the identities in Values
	ClaimAny     ClaimOp = "any"     // a wildcard: everyone, or everyone with a value
	ClaimExclude ClaimOp = "exclude" // everyone except Values (ne, nin, under NOT)
	ClaimUnclear ClaimOp = "unclear" // an operator or type that the adapter does not know
)

// Claim is one position in a payload that names an identity. It is the caller's
// statement, and never authenticates the caller.
type Claim struct {
	Dim    Dimension
	Op     ClaimOp
	Values []string
	// Pointer is a JSON pointer into the body ("/filters/AND/0/user_id"), or
	// "query:user_id", or "path:entity_id".
	Pointer string
	// Pins is set if the claim restricts the whole operation: it is at the top level, or
	// nested in conjunctions only. A claim inside OR or NOT never pins.
	Pins bool
}

// ItemKind is what sort of content an item is.
type ItemKind string

// The item kinds.
const (
	ItemContent  ItemKind = "content"  // text to be stored
	ItemMetadata ItemKind = "metadata" // a string in metadata, which reads return to agents
	ItemSteering ItemKind = "steering" // text that instructs the backend's extraction model
	ItemQuery    ItemKind = "query"    // a search text
	ItemURL      ItemKind = "url"      // a reference that the backend would fetch; the gate does not see the content
	ItemData     ItemKind = "data"     // inline binary content (data: URI), which the gate cannot inspect
)

// Operation is a request in the gate's terms, the same for every backend.
type Operation struct {
	Kind     Kind
	Bulk     bool
	Steering bool
	Derived  bool
	// DeletesScope is set for a bulk deletion of exactly the memories within Scope.
	DeletesScope bool
	// SingleOwner is set if a bulk deletion is known to be of exactly one named owner: of all its
	// memories, or of the owner itself.
	SingleOwner bool
	Backend     string // the configured backend's name
	Route       string // Route.ID
	Scope       Scope  // the identities that the payload names directly
	Claims      []Claim
	// Within are, for each dimension in which the request's filter restricts the answer to
	// some names, those names.
	Within map[Dimension][]string
	// Targets are the ids of the existing memories (or objects of TargetKind) that the
	// operation names. Kept are those of them that continue to exist: a deletion that
	// only empties them, or a change of another object that only refers to them.
	Targets, Kept []string
	// Upserts is the id, derived from a key, of the target that is created if it does not
	// exist.
	Upserts    string
	TargetKind TargetKind
	// Refs are all existing objects and owners that the request names, anywhere: in the
	// path, query, headers, body, filters and references.
	Refs []Ref
	// Masked maps the OwnerID of owners that the caller must not learn about to
	// replacement names, so that the backend answers a read as for an unknown name.
	Masked map[string]string
	// Hidden maps the ids of objects that the caller must not learn about (of Refs that
	// are Loose) to replacement ids, so that the request has the effect that it has for
	// an unknown id.
	Hidden           map[string]string
	Items            []Item
	ConfidenceClaims []ConfidenceClaim
	// Attributions are claims of the payload about its own content that readers would
	// believe.
	Attributions []Attribution
	// SourceClaim is the source that the payload claims for its content, or "". It can
	// lower trust, never raise it.
	SourceClaim Source
	// Changes are the operation's changes of objects' members. Each is recorded as a new
	// version.
	Changes []MemberChange
	// Administers is set if the payload also changes settings of the installation (a
	// model's endpoint, keys, an environment), or asks for secrets, or if the route is for
	// memories that every caller can read and write. The caller then also needs the
	// permission to administer. AdministersAt is the JSON pointer of the first such member,
	// if it is in the payload.
	Administers   bool
	AdministersAt string
	// Extracts is set if a model of the backend extracts facts from the content. These
	// facts are judged when the backend reports them.
	Extracts bool
	// LayerClaims are the layers that the payload's metadata claims. A claim adds the
	// rules of its layer and removes none.
	LayerClaims []Layer
	// Keys are further names under which the content is stored, in addition to the items'
	// fields: keys of metadata, categories, tags.
	Keys []string
	// Backdated are the client's timestamps that would set a memory's time of creation.
	// The gate takes out those that name the time of the request.
	Backdated []ClientTime
	// Reserved are the JSON pointers of the client's keys with the prefix of the stamp.
	// They are always removed.
	Reserved []string
	// Unclaimed are the JSON pointers of members and parameters that look like names of
	// objects and that the adapter does not know. They are always removed.
	Unclaimed []string
	// Cost is how many memories are reserved on the write budgets: the number that the
	// operation writes, or an estimate if the backend decides it. An estimate is
	// corrected once the backend has reported the number. It is zero for reads.
	Cost int

	// Parsed is the adapter's own form of the payload, which Decode stores for Encode
	// only.
	Parsed any

	// Set by the gate, for Encode.

	// Stamp is the provenance to write into every metadata object of the payload, or nil.
	Stamp *Stamp
	// SignStamp signs a stamp for the metadata that it is stored with. A stamp of another
	// installation is returned unchanged. If SignStamp is nil, stamps do not cover metadata.
	SignStamp func(s Stamp, metadata []Member) Stamp `json:"-"`
	// Current are the memories as they are in the backend, by target id, if the gate had
	// to fetch them: a merging patch needs them.
	Current map[string]Memory
}

// StampFor returns the stamp for one metadata object.
func (op *Operation) StampFor(metadata []Member) *Stamp {
	if op.SignStamp == nil {
		return op.Stamp
	}
	s := op.SignStamp(*op.Stamp, metadata)
	return &s
}

// TargetKind is the kind of an operation's targets.
type TargetKind string

// The target kinds.
const (
	TargetMemory TargetKind = "memory"
	TargetEvent  TargetKind = "event"  // the receipt of an asynchronous write
	TargetEntity TargetKind = "entity" // a user, agent, app or run as an object
	TargetExport TargetKind = "export"
	// TargetDecision is a write, identified by its decision id. It carries the status of
	// all memories that the write creates, before their ids are known.
	TargetDecision TargetKind = "decision"
)

// Ref is one position where a request names an existing object by its id, or an owner by
// its name. Whatever the request does with it, it must belong to the caller's tenant.
type Ref struct {
	// Kind is the kind of object. For an owner it is TargetEntity, and ID is an OwnerID
	// such as "user:ann".
	Kind TargetKind
	ID   string
	// Pointer is the position, as in Claim.
	Pointer string
	// Loose is set if the backend accepts any text there, so that it is not certain to be
	// a reference. A Loose reference to an object that the caller may not see is replaced
	// (Operation.Hidden), not refused.
	Loose bool
}

// IsCursor reports whether the id only gives a position in a list, or is in a header. The
// objects that the request acts on are selected elsewhere.
func (r *Ref) IsCursor() bool {
	at := r.Pointer
	return at == "query:before" || at == "query:after" || at == "query:cursor" || strings.HasPrefix(at, "header:")
}

// OwnerID returns the id of an owner by its name: the dimension and the name, separated
// by a colon.
func OwnerID(d Dimension, name string) string { return string(d) + ":" + name }

// ClientTime is a client's timestamp and its position.
type ClientTime struct {
	Pointer string
	Raw     string
}
