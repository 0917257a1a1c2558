package memproxy

import "time"

// Rollback is a memory on its way back to what a version of it was: from
// before the backend is asked until the version of it is kept.
type Rollback struct {
	MemoryKey
	Tenant   string
	Decision string // id under which it is recorded
	Reviewer string
	Reason   string
	// Number is the version that it goes back to.
	Number int64
	// Before is the hex hash of the text that stood in the backend when it
	// began.
	Before string
	Begun  time.Time
}
