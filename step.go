package memproxy

// Step is a point between two effects, neither of which may be lost or repeated
// when the process ends there. Tests end it at each of them.
type Step uint8

// The steps, in the order of their work.
const (
	StepHoldRecorded     Step = iota // a held write is on record and not stored yet
	StepHoldKept                     // it is stored and not answered yet
	StepReplayClaimed                // an approved write is claimed and not sent yet
	StepReplaySent                   // it is sent, and its result is not stored yet
	StepReplaySettled                // the result is stored
	StepRollbackRecorded             // a rollback is on record and not begun
	StepRollbackBegun                // it is begun and nothing is sent yet
	StepRollbackSent                 // the backend has it, and its version is not stored yet
	StepRollbackSettled              // the version is stored
	StepRunJournalled                // what a run may change is written down, and the run is not forwarded yet
	StepRunAnswered                  // the backend has answered, and nothing is ruled on yet
	StepRunRuled                     // a change was ruled on, and is not taken back yet
	StepRunUndone                    // it is taken back, and that is not on record yet
	StepRunSettled                   // all is ruled on, and the journal has the run still
	steps
)

var stepNames = [steps]string{
	"hold.recorded", "hold.kept", "replay.claimed", "replay.sent", "replay.settled",
	"rollback.recorded", "rollback.begun", "rollback.sent", "rollback.settled",
	"run.journalled", "run.answered", "run.ruled", "run.undone", "run.settled",
}

// String is the step's name.
func (s Step) String() string {
	if s < steps {
		return stepNames[s]
	}
	return "unknown"
}

// Steps lists the steps.
func Steps() []Step {
	out := make([]Step, steps)
	for i := range out {
		out[i] = Step(i)
	}
	return out
}

// A Stepper is notified of the steps, each before the next effect begins. A nil
// Stepper is not called.
type Stepper func(Step)

// At reports a step.
func (f Stepper) At(s Step) {
	if f != nil {
		f(s)
	}
}
