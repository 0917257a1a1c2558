package memproxy

// Step is a point between two effects of which neither may be lost or
// repeated, whatever ends the process there. Tests end it at each of them.
type Step uint8

// The steps, in the order of their work.
const (
	StepHoldRecorded     Step = iota // a held write is on record and not kept yet
	StepHoldKept                     // it is kept and not answered yet
	StepReplayClaimed                // an approved write is claimed and not sent yet
	StepReplaySent                   // it is sent, and what came of it is not kept yet
	StepReplaySettled                // that is kept
	StepRollbackRecorded             // a rollback is on record and not begun
	StepRollbackBegun                // it is begun and nothing is sent yet
	StepRollbackSent                 // the backend has it, and its version is not kept yet
	StepRollbackSettled              // that is kept
	StepRunJournalled                // what a run may change is written down, and it is not let go yet
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

// A Stepper is notified of the steps, each before what follows it begins. Nil is
// nobody.
type Stepper func(Step)

// At tells of a step.
func (f Stepper) At(s Step) {
	if f != nil {
		f(s)
	}
}
