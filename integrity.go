package memproxy

import "time"

// The events of integrity.
const (
	EventAnchor     EventType = "chain_anchor" // where a tenant's chain of versions ends
	EventChainBreak EventType = "chain_break"  // the chain is not what was written
	EventAccept     EventType = "chain_accept" // a person takes a broken chain as it is
	EventIntegrity  EventType = "integrity"    // a memory in the backend is not what was written, or is again
	EventSeal       EventType = "seal"         // what a backend holds was taken over, with the lowest trust
	EventSweep      EventType = "sweep"        // a backend and the chains were looked through
)

// Progress is told how far something is that lasts: how much of it is done, and
// how much there is in all, 0 where that is not known. A nil one is told nothing.
type Progress func(done, total int64)

// Counting returns what adds to what is done, of a total that is not known.
func (p Progress) Counting() func(more int) {
	var done int64
	return func(more int) {
		if done += int64(more); p != nil && more > 0 {
			p(done, 0)
		}
	}
}

// What else is done to the store of a backend.
const (
	FaultInsert   FaultClass = "insert"   // something that nobody wrote through the proxy
	FaultMetadata FaultClass = "metadata" // the metadata was changed
)

// Discrepancy is one way in which a backend's store is not what went through
// the proxy.
type Discrepancy struct {
	Class     FaultClass `json:"class"`
	Code      ReasonCode `json:"code"`
	Tenant    string     `json:"tenant"`
	MemoryKey `json:"memory"`
	Detail    string `json:"detail"` // for a person; quotes no content
}

// Doubt says what speaks against a memory. An empty code takes it back.
type Doubt struct {
	MemoryKey
	Tenant string
	Code   ReasonCode
}

// Found is a memory that a backend held when it was sealed, and that nobody is
// known to have written.
type Found struct {
	MemoryKey
	SHA256 string // hex hash of the text; "" where it could not be read
}

// Sealing is how far a backend's memories are taken down.
type Sealing struct {
	Backend string
	Cursor  string // of the next page; "" is the first
	Pass    int    // from 1: pages shift while others delete
	Fresh   int    // memories that this pass found first
	Found   int    // memories that all passes found
}

// Breach is a fault of a chain that was noted. What was recorded at Position
// or after it is not verified any more, until a person accepts it. A breach is
// never repaired.
type Breach struct {
	ChainFault
	Noted time.Time `json:"noted"`
}
