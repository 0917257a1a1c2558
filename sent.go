package memproxy

// Outcome is what became of a request that memproxy sends in somebody's name: an
// approved write, or a rollback. The zero one claims nothing: the request may
// have been taken, and only the backend can say.
type Outcome uint8

// The outcomes.
const (
	OutcomeUnknown  Outcome = iota // the backend may have taken it
	OutcomeDone                    // the backend took it
	OutcomeRefused                 // memproxy refuses it; nothing was sent
	OutcomeRejected                // the backend refused it
	OutcomeUnsent                  // nothing was sent now; another attempt may succeed
)

// Outcomes lists the outcomes.
var Outcomes = [...]Outcome{OutcomeUnknown, OutcomeDone, OutcomeRefused, OutcomeRejected, OutcomeUnsent}

// Sent is what became of a request that memproxy sends in somebody's name.
type Sent struct {
	Outcome Outcome
	Result  HoldResult // of OutcomeRefused its Detail is the reason
	Err     error      // why, of OutcomeUnsent and OutcomeUnknown
}

const requestTimeout = 408

// Answered is the outcome of a request that the backend answered. A backend that
// breaks or takes too long may have written before it did.
func Answered(r HoldResult) Sent {
	switch {
	case r.Status >= 200 && r.Status < 300:
		return Sent{Outcome: OutcomeDone, Result: r}
	case r.Status >= 300 && r.Status < 500 && r.Status != requestTimeout:
		return Sent{Outcome: OutcomeRejected, Result: r}
	}
	return Sent{Result: r}
}

// Unsent is the outcome of a request that did not leave.
func Unsent(err error) Sent { return Sent{Outcome: OutcomeUnsent, Err: err} }

// SentOrNot is the outcome of a request of which an error leaves open whether it
// was taken.
func SentOrNot(err error) Sent { return Sent{Err: err} }
