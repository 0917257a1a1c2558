package memproxy

// Step is a point between two effects, neither of which may be lost or repeated
// when the process ends there. Tests end it at each of them.
type Step string

// The steps, in the order of their work.
const (
	StepHoldRecorded     Step = "hold.recorded"     // a held write is on record and not stored yet
	StepHoldKept         Step = "hold.kept"         // it is stored and not answered yet
	StepReplayClaimed    Step = "replay.claimed"    // an approved write is claimed and not sent yet
	StepReplaySent       Step = "replay.sent"       // it is sent, and its result is not stored yet
	StepReplaySettled    Step = "replay.settled"    // the result is stored
	StepRollbackRecorded Step = "rollback.recorded" // a rollback is on record and not begun
	StepRollbackBegun    Step = "rollback.begun"    // it is begun and nothing is sent yet
	StepRollbackSent     Step = "rollback.sent"     // the backend has it, and its version is not stored yet
	StepRollbackSettled  Step = "rollback.settled"  // the version is stored
	StepRunJournalled    Step = "run.journalled"    // what a run may change is written down, and the run is not forwarded yet
	StepRunAnswered      Step = "run.answered"      // the backend has answered, and nothing is ruled on yet
	StepRunRuled         Step = "run.ruled"         // a change was ruled on, and is not taken back yet
	StepRunUndone        Step = "run.undone"        // it is taken back, and that is not on record yet
	StepRunSettled       Step = "run.settled"       // all is ruled on, and the journal has the run still
)

// Steps lists the steps.
var Steps = [...]Step{
	StepHoldRecorded, StepHoldKept, StepReplayClaimed, StepReplaySent, StepReplaySettled, StepRollbackRecorded, StepRollbackBegun, StepRollbackSent,
	StepRollbackSettled, StepRunJournalled, StepRunAnswered, StepRunRuled, StepRunUndone, StepRunSettled,
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
