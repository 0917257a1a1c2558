package memproxy

// Act is an action of a person, or of memproxy on behalf of one, on a held write or
// a memory: an approval, a rollback, the sending of an approved write. It is
// recorded when it is attempted and again with its result.
type Act struct {
	// Action names it: "hold.approve", "memory.rollback", "hold.replay".
	Action string
	Stage  ActStage
	// Rule is why it was refused or failed: "own_review", "role", "state",
	// "stale", and the other codes of the review's answers.
	Rule string
	// Reason is the reason that the reviewer gave.
	Reason string
	// Have of Need reviewers agreed; zero if they are not counted.
	Have, Need int
}

// ActStage is the progress of an act.
type ActStage string

// The stages. An attempt that is not followed by another stage was interrupted.
const (
	ActAttempted ActStage = "attempted"
	ActDone      ActStage = "done"
	ActRefused   ActStage = "refused" // a rule refused it
	ActFailed    ActStage = "failed"  // it could not be done
	ActUnknown   ActStage = "unknown" // it was sent, and its result is unknown
)

// VersionChange is one step in the history of a memory, as it is recorded.
type VersionChange struct {
	Memory string // the backend's id
	// Kind is TargetObject where the history is of the object's members, else "".
	Kind  TargetKind
	Op    VersionOp
	Field string
	// Before and After are the numbers of the versions; zero is none. Of a
	// compaction Before is the version whose text was dropped.
	Before, After int64
	// BeforeSHA256 and SHA256 are the hex hashes of their texts, "" where there
	// is none.
	BeforeSHA256, SHA256 string
}

// SystemActor is the principal of memproxy's own actions.
const SystemActor = "system:memproxy"
