// Package compensate finds what a run of Letta agents changed in their memory, for runs
// that cannot be paused: agents of older loops, background messages, and agents whose
// group runs after them.
//
// Guarantees: every new text in a block or an archive of a participating agent is
// found, whoever wrote it and by whichever tool; each difference is an operation, with
// the requests that undo it. Only two states are compared: a write that the run itself
// undid leaves no trace, and what was read before the undo cannot be undone.
package compensate
