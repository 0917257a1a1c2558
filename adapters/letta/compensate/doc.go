// Package compensate finds what a run of Letta agents changed in their memory, for runs
// that cannot be paused: agents of older loops, background messages, and agents whose
// group runs after them.
//
// Guarantees: every new text in a block or an archive of an agent of the run is found,
// whoever wrote it and by whichever tool; each difference is an operation, with the
// requests that undo it.
//
// Limits: only the states before and after the run are compared, so a write that the run
// itself undid is not found, and an undo comes too late for agents that have read the text.
package compensate
