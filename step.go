package memproxy

// Step is a point between two side effects. A crash there must neither lose nor repeat one
// of them. Tests end the process at each step.
type Step string

// The steps, in order.
const (
	StepHoldRecorded     Step = "hold.recorded"     // a held write is in the audit log, and not in the ledger yet
	StepHoldKept         Step = "hold.kept"         // it is in the ledger, and the caller has no answer yet
	StepReplayClaimed    Step = "replay.claimed"    // an approved write is claimed, and not sent yet
	StepReplaySent       Step = "replay.sent"       // it is sent, and its result is not stored yet
	StepReplaySettled    Step = "replay.settled"    // the result is stored
	StepRollbackRecorded Step = "rollback.recorded" // a rollback is in the audit log, and not begun
	StepRollbackBegun    Step = "rollback.begun"    // it is begun, and nothing is sent yet
	StepRollbackSent     Step = "rollback.sent"     // the backend has the text, and its version is not stored yet
	StepRollbackSettled  Step = "rollback.settled"  // the version is stored
	StepRunJournalled    Step = "run.journalled"    // the journal has the state before a run, and the run is not forwarded yet
	StepRunAnswered      Step = "run.answered"      // the backend has answered, and no change is ruled on yet
	StepRunRuled         Step = "run.ruled"         // a change was ruled on, and is not undone yet
	StepRunUndone        Step = "run.undone"        // it is undone, and that is not recorded yet
	StepRunSettled       Step = "run.settled"       // every change is ruled on, and the run is still in the journal
)

// Steps lists the steps.
var Steps = [...]Step{
	StepHoldRecorded, StepHoldKept, StepReplayClaimed, StepReplaySent, StepReplaySettled, StepRollbackRecorded, StepRollbackBegun, StepRollbackSent,
	StepRollbackSettled, StepRunJournalled, StepRunAnswered, StepRunRuled, StepRunUndone, StepRunSettled,
}

// Stepper is called at each step, before the next side effect. A nil Stepper is not
// called.
type Stepper func(Step)

// At calls the Stepper, if there is one.
func (f Stepper) At(s Step) {
	if f != nil {
		f(s)
	}
}
