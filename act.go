package memproxy

// Act is something that a person, or memproxy for one, does about what waits
// or about a memory: an approval, a rollback, the sending of what was
// approved. It is recorded when it is attempted and once more with what became
// of it.
type Act struct {
	// Action names it: "hold.approve", "memory.rollback", "hold.replay".
	Action string
	Stage  ActStage
	// Rule is why it was refused or failed: "own_review", "role", "state",
	// "stale", and the other codes of the review's answers.
	Rule string
	// Reason is what the reviewer gave for it.
	Reason string
	// Have of Need reviewers agreed; zero where nothing is counted.
	Have, Need int
}

// ActStage is how far an act came.
type ActStage string

// The stages. An attempt that none of the others follows was cut off.
const (
	ActAttempted ActStage = "attempted"
	ActDone      ActStage = "done"
	ActRefused   ActStage = "refused" // a rule says no
	ActFailed    ActStage = "failed"  // it could not be done
	ActUnknown   ActStage = "unknown" // it was sent, and nobody knows what became of it
)

// VersionChange is one step in the history of a memory, as it is recorded.
type VersionChange struct {
	Memory string // the backend's id
	// Kind is TargetObject where the history is of the object's members, else "".
	Kind  TargetKind
	Op    VersionOp
	Field string
	// Before and After are the numbers of the versions; zero is none. Of a
	// compaction Before is the version whose text was given up.
	Before, After int64
	// BeforeSHA256 and SHA256 are the hex hashes of their texts, "" where there
	// is none.
	BeforeSHA256, SHA256 string
}

// SystemActor is the principal of what memproxy does by itself.
const SystemActor = "system:memproxy"
