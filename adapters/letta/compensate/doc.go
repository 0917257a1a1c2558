// Package compensate says what a run of Letta agents changed in their memory,
// for runs that cannot be made to pause: agents of older loops, background
// messages, agents whose fellows run after them.
//
// It promises: what stands in a block or in the archive of an agent that took
// part and was not there before is found, whoever wrote it and by whichever
// tool; each difference comes as the operation that it was, and with the
// requests that take it back. It sees the final state only: what a run wrote
// and took back itself leaves no trace here, and what it read meanwhile was
// read.
package compensate
